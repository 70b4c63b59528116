"""The crossing of a worker, without I/O: barriers and orders beside what every kind has.

At a barrier there is one request at most: whoever asks again, at the same step, takes the place of the one who asked
before.
"""

from __future__ import annotations

from typing import Any, ClassVar

from quoracy.core.cluster.events import (
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerReady,
    WorkerTraining,
)
from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.core.machine import MemberEvent
from quoracy.sdk import pipe
from quoracy.sdk.crossing import Crossing
from quoracy.sdk.line import Line
from quoracy.sdk.membership import Note
from quoracy.sdk.session import Session
from quoracy.sdk.vitals import Vitals


class Bridge(Crossing):
    events: ClassVar[dict[str, type[MemberEvent]]] = {
        "ready": WorkerReady,
        "loading": WorkerLoading,
        "training": WorkerTraining,
        "checkpointing": WorkerCheckpointing,
        "idle": WorkerIdle,
        "left": WorkerLeft,
    }
    session: Session

    def __init__(self, session: Session, line: Line) -> None:
        super().__init__(session, line)
        self.paused = False
        self._stands: dict[str, pipe.Stand] = {}
        self._settled: dict[str, Passage] = {}
        """How each barrier ended last, for a request that crossed that news on its way."""

    def look(self, vitals: Vitals, now_us: int) -> None:
        session = self.session
        session.progress, session.vitals = vitals.look(session.standing_at(), self.paused, now_us)

    def _place(self, result: dict[str, Any]) -> int:
        return int(result["rank"])

    def _stand(self, request: pipe.Stand, now_us: int) -> None:
        before = self._stands.get(request.barrier)
        if request.fence != self.session.fence:
            why = f"asked in generation {request.fence} of the run, which is at {self.session.fence}"
            self._out.append(pipe.Done(request.number, Refusal("stale_token", why, "restore, then arrive again")))
            return
        if before is not None and before.step != request.step:
            why = f"this worker still stands at barrier {before.barrier} at step {before.step}"
            fix = f"wait there first: barrier({before.barrier!r}, {before.step})"
            self._out.append(pipe.Done(request.number, Refusal("contradiction", why, fix)))
            return
        over = self._settled.get(request.barrier)
        if (
            over is not None
            and request.after < over.generation
            and (over.step, over.fence) == (request.step, request.fence)
        ):
            self._out.append(pipe.Settled(request.number, over))
            return
        self._stands[request.barrier] = request
        if before is None:
            self.session.arrive(request.barrier, request.step, now_us)

    def _note_of_kind(self, note: Note, _now_us: int) -> None:
        match note.what:
            case "passed" | "aborted":
                stood = self._stands.pop(note.value.barrier, None)
                self._settled[note.value.barrier] = note.value
                self._out.append(pipe.Settled(0 if stood is None else stood.number, note.value))
            case "rolled-back":
                self._out.append(pipe.Fell(note.value.reason, note.value.fence))
                self._drop(Refusal("stale_token", "the run was rolled back", "restore, then arrive again"))
            case "ordered":
                order = note.value
                self.paused = order.command == "pause" or (self.paused and order.command != "resume")
                self._out.append(pipe.Ordered(order.order, order.command, order.arguments))

    def _drop(self, refusal: Refusal) -> bool:
        """A barrier's no is for whoever stood there: for those that the session does not repeat any more."""
        over = [name for name in self._stands if not self.session.waits_at(name)]
        for name in over:
            self._out.append(pipe.Done(self._stands.pop(name).number, refusal))
        return bool(over)

    def _forget(self) -> None:
        self._stands.clear()
        self._settled.clear()
        self.paused = False
