"""What the training process knows of its session: requests under way, answers that came, bad news not yet raised.

Without I/O and without waiting: ``feed`` takes what the sidecar says, ``ask`` makes a request and ``outbox`` holds what
has to be said to the sidecar. It remembers enough to begin again with a new sidecar, in the middle of the same life.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from quorate.core.cluster.views import Passage, Standing
from quorate.core.errors import ConfigError, QuorateError, Refusal
from quorate.core.members import Accepted
from quorate.sdk import pipe
from quorate.sdk.errors import GivenUp, RolledBack, Setback, ended_by
from quorate.sdk.line import Outage
from quorate.sdk.session import Known
from quorate.sdk.settings import Settings
from quorate.wire.frames import FrameReader, frame

TAKES_PART: Final = frozenset({"Idle", "LoadingData", "Training", "Checkpointing"})
MAX_ORDERS: Final = 256
"""Orders that a script has not fetched; older ones are forgotten."""

Answer = Accepted | Refusal | Passage


class Order(msgspec.Struct, frozen=True):
    """What an operator wants: stop, pause, resume, reconfigure or checkpoint."""

    number: int
    command: str
    arguments: dict[str, Any]


class Mirror:
    def __init__(self, settings: Settings, secret: bytes) -> None:
        self.settings = settings
        self.known = Known()
        self.restarts = 0
        self.rank = -1
        self.standing: Standing | None = None
        self.outage: Outage | None = None
        self.found = False
        """A coordinator has answered at least once."""
        self.turned: Refusal | None = None
        self.ended: QuorateError | None = None
        self.setback: Setback | None = None
        """Bad news that the script has not been told yet."""
        self.last_setback: Setback | None = None
        self.finished = False
        """The sidecar has ended the session and answers nothing more."""
        self.paused = False
        self.stop: Order | None = None
        self.orders: deque[Order] = deque(maxlen=MAX_ORDERS)
        self.outbox: list[bytes] = []
        self.version = 0
        """Counts what was fed: whoever waits for news waits for it to change."""
        self._secret = secret
        self._number = 0
        self._open: dict[int, pipe.Do | pipe.Stand] = {}
        self._wanted: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self._outcomes: dict[str, Passage] = {}
        self._steps: dict[str, int] = {}
        self._reader = FrameReader()

    # -- asking -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The first words to a sidecar: who we are, where we were, and all that is still open."""
        self._reader = FrameReader()
        self.outbox = [frame(pipe.Start(self.settings, self._secret, self.known, self.restarts))]
        self.outbox += [frame(request) for request in self._open.values()]

    def do(self, event: str, **fields: Any) -> int:
        self._number += 1
        return self._ask(pipe.Do(self._number, self.known.lives, event, fields))

    def stand(self, barrier: str, step: int) -> int:
        self._number += 1
        after = self.known.after.get(barrier, 0)
        return self._ask(pipe.Stand(self._number, self.known.lives, barrier, step, self.known.fence, after))

    def bye(self) -> None:
        self.outbox.append(frame(pipe.Bye()))

    def _ask(self, request: pipe.Do | pipe.Stand) -> int:
        self._open[request.number] = request
        self._wanted.add(request.number)
        self.outbox.append(frame(request))
        return request.number

    def answer(self, number: int) -> Answer | None:
        """Given once."""
        answer = self._answers.pop(number, None)
        if answer is not None:
            self._wanted.discard(number)
        return answer

    def abandon(self, number: int) -> None:
        """Nobody waits for this any more. It happens all the same: what was said cannot be unsaid."""
        self._wanted.discard(number)
        kept = self._answers.pop(number, None)
        if isinstance(kept, Passage):
            self._outcomes[kept.barrier] = kept

    def outcome(self, barrier: str, step: int) -> Passage | None:
        """How the barrier ended at which the script stopped waiting, if it asks about that step."""
        kept = self._outcomes.pop(barrier, None)
        return kept if kept is not None and kept.step == step else None

    # -- knowing ----------------------------------------------------------------------------------------------------

    @property
    def joined(self) -> bool:
        return self.known.incarnation > 0

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

    def feed(self, chunk: bytes) -> None:
        for payload in self._reader.feed(chunk):
            self._hear(pipe.to_training.decode(payload))
            self.version += 1

    def _hear(self, message: pipe.ToTraining) -> None:
        match message:
            case pipe.Settled(number=number, passage=passage):
                self._settled(number, passage)
            case pipe.Done(number=number, answer=answer):
                self._done(number, answer)
            case pipe.Stands(standing=standing):
                self.standing = standing
                self._steps = {name: step for name, (_, step) in standing.barriers.items()}
            case pipe.Joined(known=known, rank=rank):
                self.known, self.rank, self.turned = known, rank, None
            case pipe.Ordered(number=number, command=command, arguments=arguments):
                self._ordered(Order(number, command, arguments))
            case pipe.Lost(why=why):
                self._lost(why)
            case pipe.Fell(reason=reason, fence=fence):
                self.known.fence = fence
                self.setback = self.last_setback = RolledBack(reason, fence)
            case _:
                self._hear_aside(message)

    def _hear_aside(self, message: pipe.ToTraining) -> None:
        """About the conversation, not about the run."""
        match message:
            case pipe.Token(token=token):
                self.known.token = token
            case pipe.Turned(refusal=refusal):
                self.turned = refusal
            case pipe.Finished(refusal=refusal):
                self.finished = True
                self.ended = self.ended or ended_by(refusal)
            case pipe.Unfit(field=field, value=value, fix=fix):
                self.finished = True
                self.ended = ConfigError(field, value, fix)
            case pipe.Up():
                self.outage = None
                self.found = True
            case Outage():
                self.outage = message

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

    def _done(self, number: int, answer: Accepted | Refusal) -> None:
        request = self._open.pop(number, None)
        if isinstance(request, pipe.Do):
            self.known.seq += 1
        if number in self._wanted:
            self._answers[number] = answer

    def _ordered(self, order: Order) -> None:
        self.known.order = order.number
        self.orders.append(order)
        if order.command == "stop":
            self.stop = order
        elif order.command in ("pause", "resume"):
            self.paused = order.command == "pause"

    def _lost(self, why: str) -> None:
        """Everything that was open is void, and so is all that was known of the life."""
        self.known = Known(lives=self.known.lives + 1)
        self.standing = self.turned = self.stop = None
        self.paused = False
        self._outcomes.clear()
        over = Refusal("member_gone", f"the coordinator gave this worker up: {why}", "recover and go on")
        self._answers.update((number, over) for number in self._open if number in self._wanted)
        self._open.clear()
        self.setback = self.last_setback = GivenUp(over.why)
