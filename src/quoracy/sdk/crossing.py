"""Between what the training process asks and what its membership notes, without I/O: whose request was just answered?

What the kinds have in common. A member has one command open at a time, so its commands have their numbers in the order
in which they are wished for. One that the member's own logic wished for was asked for by nobody.
"""

from __future__ import annotations

from typing import Any, ClassVar

from quoracy.core.errors import Refusal
from quoracy.core.machine import MemberEvent
from quoracy.sdk import pipe
from quoracy.sdk.line import Line, Outage, State
from quoracy.sdk.membership import Membership, Note, Stage
from quoracy.sdk.vitals import Vitals


class Crossing:
    events: ClassVar[dict[str, type[MemberEvent]]]
    """What the training process can ask for, by the name it has on the pipe."""

    def __init__(self, session: Membership, line: Line) -> None:
        self.session = session
        self.line = line
        self._commands: dict[int, int] = {}
        """Number of a command to that of the request."""
        self._out: list[pipe.ToTraining] = []
        self._standing: Any = None
        self._token = session.token
        self._turned: Refusal | None = None
        self._outage: Outage | None = None
        self._told_up = False

    # -- what a kind adds -------------------------------------------------------------------------------------------

    def look(self, vitals: Vitals, now_us: int) -> None:
        """A heartbeat is due: put into it what the training shows."""
        raise NotImplementedError

    def _place(self, result: dict[str, Any]) -> int:
        """Of the answer to a join: rank or seat."""
        raise NotImplementedError

    def _stand(self, request: pipe.Stand, _now_us: int) -> None:
        why = Refusal("malformed", f"there is no barrier {request.barrier} in a run of this kind", "do not wait for it")
        self._out.append(pipe.Done(request.number, why))

    def _offered(self, request: pipe.Offered, now_us: int) -> None:
        """Of a participant: it outlives a life."""

    def _said(self, request: pipe.Said | pipe.Look, now_us: int) -> None:
        """A signal, of a kind whose training process gives some."""

    def _note_of_kind(self, note: Note, now_us: int) -> None:
        """A note that not every kind has."""

    def _drop(self, _refusal: Refusal) -> bool:
        """Whether a refused signal was about a request of the training process; it is told, then."""
        return False

    def _forget(self) -> None:
        """A life is over."""

    # -- from the training process ----------------------------------------------------------------------------------

    def ask(self, request: pipe.Do | pipe.Stand | pipe.Offered | pipe.Said | pipe.Look, now_us: int) -> None:
        session = self.session
        if isinstance(request, pipe.Offered):
            self._offered(request, now_us)
        elif isinstance(request, pipe.Said | pipe.Look):
            self._said(request, now_us)
        elif session.stage is Stage.ENDED:
            why = self.line.over or Refusal("member_gone", f"{session.member} is over", "connect again")
            self._out.append(pipe.Done(request.number, why))
        elif request.life != session.lives:
            why = Refusal("member_gone", "the life in which this was asked is over", "ask again")
            self._out.append(pipe.Done(request.number, why))
        elif isinstance(request, pipe.Do):
            seq = session.wish(self.events[request.event], **request.fields)
            self._commands[seq] = request.number
            self.line.tick(now_us)
        else:
            self._stand(request, now_us)

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
                self._out.append(pipe.Joined(self.session.known(), self._place(note.value)))
            case "answered":
                cause, answer = note.value
                self._out.append(pipe.Done(self._commands.pop(cause.seq, 0), answer))
            case "refused":
                self._refused(note.value, now_us)
            case "lost":
                self._commands.clear()
                self._standing = self._turned = None
                self._forget()
                self._out.append(pipe.Lost(note.value))
            case "ended":
                self._out.append(pipe.Finished(note.value))
                self.line.end(note.value)
            case "moved":
                self.line.moved(note.value, now_us)
            case _:
                self._note_of_kind(note, now_us)

    def _refused(self, refusal: Refusal, now_us: int) -> None:
        """What is not about a request of the training process is about joining, and said once."""
        if self._drop(refusal):
            return
        if refusal != self._turned:
            self._turned = refusal
            self._out.append(pipe.Turned(refusal))
        if self.line.state is State.OPEN and self.session.stage is Stage.JOINED:
            self.line.turned_away(refusal, now_us)

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
