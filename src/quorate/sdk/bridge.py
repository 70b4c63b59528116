"""Between what the training process asks and what its session notes, without I/O: whose request was just answered?

Commands are answered in the order in which they were asked for, because a session has one open at a time. At a barrier
there is one request at most: whoever asks again, at the same step, takes the place of the one who asked before.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from quorate.core.cluster.events import (
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerReady,
    WorkerTraining,
)
from quorate.core.cluster.views import Passage, Standing
from quorate.core.errors import Refusal
from quorate.core.machine import MemberEvent
from quorate.sdk import pipe
from quorate.sdk.line import Line, Outage, State
from quorate.sdk.session import Note, Session, Stage

EVENTS: Final[dict[str, type[MemberEvent]]] = {
    "ready": WorkerReady,
    "loading": WorkerLoading,
    "training": WorkerTraining,
    "checkpointing": WorkerCheckpointing,
    "idle": WorkerIdle,
    "left": WorkerLeft,
}


class Bridge:
    def __init__(self, session: Session, line: Line) -> None:
        self.session = session
        self.line = line
        self.paused = False
        self._commands: deque[int] = deque()
        self._stands: dict[str, pipe.Stand] = {}
        self._settled: dict[str, Passage] = {}
        """How each barrier ended last, for a request that crossed that news on its way."""
        self._out: list[pipe.ToTraining] = []
        self._standing: Standing | None = None
        self._token = session.token
        self._turned: Refusal | None = None
        self._outage: Outage | None = None
        self._told_up = False

    # -- from the training process ----------------------------------------------------------------------------------

    def ask(self, request: pipe.Do | pipe.Stand, now_us: int) -> None:
        session = self.session
        if session.stage is Stage.ENDED:
            why = self.line.over or Refusal("member_gone", f"{session.member} is over", "connect again")
            self._out.append(pipe.Done(request.number, why))
        elif request.life != session.lives:
            why = Refusal("member_gone", "the life in which this was asked is over", "ask again")
            self._out.append(pipe.Done(request.number, why))
        elif isinstance(request, pipe.Do):
            self._commands.append(request.number)
            session.wish(EVENTS[request.event], **request.fields)
            self.line.tick(now_us)
        else:
            self._stand(request, now_us)

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

    # -- to the training process ------------------------------------------------------------------------------------

    def tell(self, now_us: int) -> list[pipe.ToTraining]:
        """What the training process has to know, in the order in which it happened."""
        notes = self.session.notes
        while notes:
            self._note(notes.popleft(), now_us)
        session = self.session
        if session.standing is not None and session.standing is not self._standing:
            self._standing = session.standing
            self._out.append(pipe.Stands(session.standing))
        if session.token != self._token:
            self._token = session.token
            self._out.append(pipe.Token(session.token))
        self._tell_line()
        out, self._out = self._out, []
        return out

    def _note(self, note: Note, now_us: int) -> None:
        match note.what:
            case "joined":
                self._out.append(pipe.Joined(self.session.known(), note.value["rank"]))
            case "answered":
                self._out.append(pipe.Done(self._commands.popleft(), note.value[1]))
            case "passed" | "aborted":
                stood = self._stands.pop(note.value.barrier, None)
                self._settled[note.value.barrier] = note.value
                self._out.append(pipe.Settled(0 if stood is None else stood.number, note.value))
            case "rolled-back":
                self._out.append(pipe.Fell(note.value.reason, note.value.fence))
                self._drop_stands(Refusal("stale_token", "the run was rolled back", "restore, then arrive again"))
            case "ordered":
                order = note.value
                self.paused = order.command == "pause" or (self.paused and order.command != "resume")
                self._out.append(pipe.Ordered(order.order, order.command, order.arguments))
            case "refused":
                self._refused(note.value, now_us)
            case "lost":
                self._commands.clear()
                self._stands.clear()
                self._settled.clear()
                self._standing = self._turned = None
                self.paused = False
                self._out.append(pipe.Lost(note.value))
            case "ended":
                self._out.append(pipe.Finished(note.value))
                self.line.end(note.value)
            case "moved":
                self.line.moved(note.value, now_us)

    def _refused(self, refusal: Refusal, now_us: int) -> None:
        """A barrier's no is for whoever stood there; any other is about joining, and said once."""
        if self._drop_stands(refusal):
            return
        if refusal != self._turned:
            self._turned = refusal
            self._out.append(pipe.Turned(refusal))
        if self.line.state is State.OPEN and self.session.stage is Stage.JOINED:
            self.line.turned_away(refusal, now_us)

    def _drop_stands(self, refusal: Refusal) -> bool:
        """Those that the session does not repeat any more."""
        over = [name for name in self._stands if not self.session.waits_at(name)]
        for name in over:
            self._out.append(pipe.Done(self._stands.pop(name).number, refusal))
        return bool(over)

    def _tell_line(self) -> None:
        """A long outage is told ever more seldom: a training that does not listen must not drown in it."""
        if self.line.over is not None and self.session.stage is not Stage.ENDED:
            self._out.append(pipe.Finished(self.line.over))
            self.session.give_up()
        before, outage = self._outage, self.line.outage
        if outage is None:
            if not self._told_up and self.line.state is State.UP:
                self._told_up = True
                self._out.append(pipe.Up())
        elif outage.tries and outage != before and _worth_telling(outage, before):
            self._told_up = False
            self._out.append(outage)
        self._outage = outage


def _worth_telling(outage: Outage, before: Outage | None) -> bool:
    """A new one, one with another reason, or the second, fourth, eighth... try."""
    news = before is None or (outage.since_us, outage.why) != (before.since_us, before.why)
    return news or outage.tries & (outage.tries - 1) == 0
