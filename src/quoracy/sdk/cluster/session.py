"""A worker's side of the conversation, without I/O: what ``client.session`` does for every kind, and barriers and
orders.

- An arrival is repeated until its barrier is settled; ``after`` makes the repeat recognisable. It is the newest
  generation known to be settled while standing nowhere: one that was settled while waiting may be the awaited one.
- A roll-back makes all arrivals void.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from quoracy.core.cluster.events import Arrive, Heartbeat, HeartbeatSeen, WorkerLeft, WorkerRegistered
from quoracy.core.cluster.state import Order
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.errors import Refusal
from quoracy.core.machine import Join, MemberEvent
from quoracy.sdk.client.session import Pending, Session, Stage


class Arrival(Pending):
    step: int = 0


class WorkerSession(Session):
    """Notes beside those of every member: passed, aborted, rolled-back, ordered."""

    standing: Standing | None
    joins: ClassVar[type[Join]] = WorkerRegistered
    leaves: ClassVar[type[MemberEvent]] = WorkerLeft

    def __init__(
        self,
        run: str,
        member: str,
        secret: bytes,
        retry_us: int = 1_000_000,
        key: bytes = b"",
        about: dict[str, Any] | None = None,
    ) -> None:
        """``about``: address, gpus, labels."""
        super().__init__(run, member, secret, retry_us, key, about)
        self._arrivals: dict[str, Arrival] = {}
        self._after: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        """Of each barrier the newest step that was released."""
        self._fence = 0
        self._order = 0

    # -- what a script asks for -------------------------------------------------------------------------------------

    @property
    def fence(self) -> int:
        return self._fence

    @property
    def order(self) -> int:
        """The number of the newest command of an operator."""
        return self._order

    def settled(self, barrier: str) -> int:
        """The newest generation that is known to be settled."""
        return self._after.get(barrier, 0)

    def next_step(self, barrier: str) -> int:
        return self._steps.get(barrier, -1) + 1

    def arrive(self, barrier: str, step: int, now_us: int) -> Arrive:
        """Stand at the barrier. Ends with a note: passed, aborted, rolled-back, refused, lost or ended."""
        after = self._after.get(barrier, 0)
        arrive = Arrive(self.member, self.incarnation, barrier, step, after, self._fence)
        self._arrivals[barrier] = Arrival(self._sign(arrive), now_us, step=step)
        return arrive

    def waits_at(self, barrier: str) -> bool:
        return barrier in self._arrivals

    def step_at(self, barrier: str) -> int | None:
        """The step with which it waits there; None: it does not."""
        arrival = self._arrivals.get(barrier)
        return None if arrival is None else arrival.step

    # -- what every member does, as a worker does it ----------------------------------------------------------------

    def _beat(self, seq: int) -> Heartbeat:
        said = {"progress": self.progress, "order": self._order} | self.vitals
        return Heartbeat(self.member, self.incarnation, seq, **said)

    def _fields(self, event: type[MemberEvent], fields: dict[str, Any]) -> dict[str, Any]:
        return {"fence": self._fence} | fields if "fence" in event.__struct_fields__ else fields

    def _open(self) -> list[Pending]:
        return [*super()._open(), *self._arrivals.values()]

    def _arrived(self, result: dict[str, Any]) -> None:
        self._fence = result["fence"]

    def _new_life(self, why: str, now_us: int) -> None:
        self._order = 0
        self._after.clear()
        self._steps.clear()
        super()._new_life(why, now_us)

    def _forget(self) -> None:
        self._arrivals.clear()

    def _turned_down(self, topic: str) -> None:
        self._arrivals.pop(topic.removeprefix("barrier/"), None)

    # -- views ------------------------------------------------------------------------------------------------------

    def _told(self, topic: str, value: Any) -> None:
        if topic.startswith("barrier/"):
            self._passed(msgspec.convert(value, Passage, from_attributes=True))
        elif topic == "heartbeat":
            self._ordered(value if isinstance(value, HeartbeatSeen) else msgspec.convert(value, HeartbeatSeen))
        elif topic == "order" and value is not None:
            order = value if isinstance(value, Order) else msgspec.convert(value, Order)
            self._ordered(HeartbeatSeen(0, order.number, order.command, order.arguments, order.fence))

    def _ordered(self, seen: HeartbeatSeen) -> None:
        if seen.order > self._order:
            self._order = seen.order
            self._note("ordered", seen)

    def _stand(self, value: Any, now_us: int) -> None:
        standing = msgspec.convert(value, Standing, from_attributes=True)
        if self.stage is not Stage.JOINED or standing.incarnation < self.incarnation:
            return
        if standing.incarnation > self.incarnation:
            self._superseded(standing.incarnation)
            return
        self.standing = standing
        for barrier, (generation, step) in standing.barriers.items():
            self._steps[barrier] = step
            if barrier not in self._arrivals:
                self._after[barrier] = max(generation, self._after.get(barrier, 0))
        if standing.run == "Closed":
            self._end(Refusal("run_closed", f"the run is over: {standing.reason}", "nothing"))
        elif standing.state == "Failed":
            self._new_life(standing.reason, now_us)
        elif standing.fence > self._fence:
            self._fence = standing.fence
            self._arrivals.clear()
            self._note("rolled-back", standing)

    def _passed(self, passage: Passage) -> None:
        """How a generation ended. One that this session knows already, or did not stand at, changes nothing. Nor does
        one of another fence: every hello brings the newest end, which may be older than the roll-back, and the abort
        that a roll-back brings may come before the news of it."""
        known = self._after.get(passage.barrier, 0)
        stale = passage.generation <= known or passage.fence != self._fence
        if stale or passage.barrier not in self._arrivals:
            return
        self._after[passage.barrier] = passage.generation
        del self._arrivals[passage.barrier]
        if passage.released:
            self._steps[passage.barrier] = passage.step
            if self.standing is not None and self.standing.state == "Idle":
                self.standing = msgspec.structs.replace(self.standing, state="Training")  # as the fold has it
        self._note("passed" if passage.released else "aborted", passage)
