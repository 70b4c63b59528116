"""What a worker's script has asked for and not been told yet: barriers, commands of operators, setbacks."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.sdk.client.client import Client
from quoracy.sdk.client.session import Note
from quoracy.sdk.cluster import heartbeat
from quoracy.sdk.cluster.errors import GivenUp, RolledBack, Setback
from quoracy.sdk.cluster.session import WorkerSession

TAKES_PART: Final = frozenset({"Idle", "LoadingData", "Training", "Checkpointing"})
PAUSED: Final = "paused by an operator"
MAX_ORDERS: Final = 256
"""Commands that a script has not fetched; older ones are forgotten."""


class Order(msgspec.Struct, frozen=True):
    """What an operator wants: stop, pause, resume, reconfigure or checkpoint."""

    number: int
    command: str
    arguments: dict[str, Any]


class Wait:
    """One call that waits at a barrier."""

    def __init__(self, barrier: str) -> None:
        self.barrier = barrier
        self.ended: Passage | Refusal | None = None


class WorkerClient(Client[WorkerSession]):
    called = "worker"
    heartbeat = heartbeat.__name__

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.rank = -1
        self.setback: Setback | None = None
        """Bad news that the script has not been told yet."""
        self.last_setback: Setback | None = None
        self.paused = False
        self.stop: Order | None = None
        self.orders: deque[Order] = deque(maxlen=MAX_ORDERS)
        self._waits: dict[str, list[Wait]] = {}
        self._shown = ""
        self._unclaimed: dict[str, Passage] = {}
        """How a barrier ended at which a script had stopped waiting, for when it asks again."""

    # -- what a script asks -----------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """As the coordinator calls it; empty before anything was heard."""
        return "" if self.session.standing is None else self.session.standing.state

    @property
    def takes_part(self) -> bool:
        return self.joined and self.state in TAKES_PART

    def arrive(self, barrier: str, step: int, now_us: int) -> Wait | Refusal:
        """Stand at the barrier, unless that is done: by another thread, or by a call whose time was over."""
        stands = self.session.step_at(barrier)
        if stands is not None and stands != step:
            why = f"this worker still stands at barrier {barrier} at step {stands}"
            return Refusal("contradiction", why, f"wait there first: barrier({barrier!r}, {stands})")
        wait = Wait(barrier)
        unclaimed = self._unclaimed.pop(barrier, None)
        if unclaimed is not None and unclaimed.step == step:
            wait.ended = unclaimed
            return wait
        if stands is None:
            self.session.arrive(barrier, step, now_us)
        self._waits.setdefault(barrier, []).append(wait)
        return wait

    def stop_waiting(self, wait: Wait, told: bool) -> None:
        """``told``: how it ended. Else that is kept for whoever asks again, at the same step."""
        waits = self._waits.get(wait.barrier, [])
        if wait in waits:
            waits.remove(wait)
        if not waits:
            self._waits.pop(wait.barrier, None)
        if not told and isinstance(wait.ended, Passage):
            self._unclaimed[wait.barrier] = wait.ended
        if self._shown:
            self.show_waits()

    def show_waits(self) -> None:
        """For people: heartbeats say it."""
        waits = [f"waits at barrier {name}" for name in self._waits]
        self._shown = "; ".join([*waits, *([PAUSED] if self.paused else [])])
        self.memory.waits_for(self._shown)

    # -- what happened ----------------------------------------------------------------------------------------------

    def _heartbeat_fields(self, now_us: int) -> dict[str, Any]:
        return heartbeat.fields(self._vitals, now_us)

    def _joined(self, result: dict[str, Any]) -> None:
        self.rank = int(result["rank"])
        self.memory.seen_order(0)

    def _note_of_kind(self, note: Note) -> None:
        match note.what:
            case "passed" | "aborted":
                if not self._end(note.value.barrier, note.value):
                    self._unclaimed[note.value.barrier] = note.value
            case "rolled-back":
                self.setback = self.last_setback = RolledBack(note.value.reason, note.value.fence)
                self._void(Refusal("stale_token", "the run was rolled back", "restore, then arrive again"))
            case "ordered":
                self._ordered(Order(note.value.order, note.value.command, note.value.arguments))

    def _refused_of_kind(self, refusal: Refusal) -> bool:
        """A barrier's refusal is for those who wait where the session does not stand any more."""
        return self._void(refusal)

    def _void(self, refusal: Refusal) -> bool:
        void = [name for name in self._waits if not self.session.waits_at(name)]
        return [self._end(name, refusal) for name in void].count(True) > 0

    def _end(self, barrier: str, ended: Passage | Refusal) -> bool:
        """Whether anybody waited there."""
        waits = [wait for wait in self._waits.get(barrier, []) if wait.ended is None]
        for wait in waits:
            wait.ended = ended
        return bool(waits)

    def _ordered(self, order: Order) -> None:
        self.memory.seen_order(order.number)
        self.orders.append(order)
        if order.command == "stop":
            self.stop = order
        elif order.command in ("pause", "resume"):
            self.paused = order.command == "pause"
            self.show_waits()

    def _lost_of_kind(self, over: Refusal) -> None:
        self.stop = None
        self.paused = False
        self._unclaimed.clear()
        for name in self._waits:
            self._end(name, over)
        self.setback = self.last_setback = GivenUp(over.why)

    def _finish(self, refusal: Refusal) -> None:
        super()._finish(refusal)
        for name in self._waits:
            self._end(name, refusal)
