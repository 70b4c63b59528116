"""What the training process knows of its session as a worker: barriers, orders, setbacks."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.errors import Refusal
from quoracy.sdk import pipe
from quoracy.sdk.errors import GivenUp, RolledBack, Setback
from quoracy.sdk.reflection import Answer, Reflection
from quoracy.sdk.settings import Settings

TAKES_PART: Final = frozenset({"Idle", "LoadingData", "Training", "Checkpointing"})
MAX_ORDERS: Final = 256
"""Orders that a script has not fetched; older ones are forgotten."""


class Order(msgspec.Struct, frozen=True):
    """What an operator wants: stop, pause, resume, reconfigure or checkpoint."""

    number: int
    command: str
    arguments: dict[str, Any]


class Mirror(Reflection):
    called = "worker"

    def __init__(self, settings: Settings, secret: bytes) -> None:
        super().__init__(settings, secret)
        self.standing: Standing | None = None
        self.setback: Setback | None = None
        """Bad news that the script has not been told yet."""
        self.last_setback: Setback | None = None
        self.paused = False
        self.stop: Order | None = None
        self.orders: deque[Order] = deque(maxlen=MAX_ORDERS)
        self._outcomes: dict[str, Passage] = {}
        self._steps: dict[str, int] = {}

    # -- asking -----------------------------------------------------------------------------------------------------

    def stand(self, barrier: str, step: int) -> int:
        self._number += 1
        after = self.known.after.get(barrier, 0)
        return self._ask(pipe.Stand(self._number, self.known.lives, barrier, step, self.known.fence, after))

    def outcome(self, barrier: str, step: int) -> Passage | None:
        """How the barrier ended at which the script stopped waiting, if it asks about that step."""
        kept = self._outcomes.pop(barrier, None)
        return kept if kept is not None and kept.step == step else None

    # -- knowing ----------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return self.place

    @property
    def state(self) -> str:
        """As the coordinator calls it; empty before anything was heard."""
        return "" if self.standing is None else self.standing.state

    @property
    def takes_part(self) -> bool:
        return self.joined and self.state in TAKES_PART

    def next_step(self, barrier: str) -> int:
        return self._steps.get(barrier, -1) + 1

    # -- being told -------------------------------------------------------------------------------------------------

    def _stood(self, standing: Any) -> None:
        self.standing = msgspec.convert(standing, Standing)
        self._steps = {name: step for name, (_, step) in self.standing.barriers.items()}

    def _hear_of_kind(self, message: pipe.OfKind) -> None:
        match message:
            case pipe.Settled(number=number, passage=passage):
                self._settled(number, passage)
            case pipe.Ordered(number=number, command=command, arguments=arguments):
                self._ordered(Order(number, command, arguments))
            case pipe.Fell(reason=reason, fence=fence):
                self.known.fence = fence
                self.setback = self.last_setback = RolledBack(reason, fence)

    def _settled(self, number: int, passage: Passage) -> None:
        self.known.after[passage.barrier] = passage.generation
        if passage.released:
            self._steps[passage.barrier] = passage.step
        self._open.pop(number, None)
        if number in self._wanted:
            self._answers[number] = passage
            self._outcomes.pop(passage.barrier, None)
        else:
            self._outcomes[passage.barrier] = passage

    def _unwanted(self, answer: Answer) -> None:
        if isinstance(answer, Passage):
            self._outcomes[answer.barrier] = answer

    def _ordered(self, order: Order) -> None:
        self.known.order = order.number
        self.orders.append(order)
        if order.command == "stop":
            self.stop = order
        elif order.command in ("pause", "resume"):
            self.paused = order.command == "pause"

    def _fell(self, over: Refusal) -> None:
        self.standing = self.stop = None
        self.paused = False
        self._outcomes.clear()
        self.setback = self.last_setback = GivenUp(over.why)
