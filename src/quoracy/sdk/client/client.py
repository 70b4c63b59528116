"""A session over its connection, as those who wait see it, without I/O.

The session decides what is sent and what it means; the connection carries it. Here is what a script has asked for and
not been told yet: requests under way, answers that came, bad news. Nothing that the session knows is kept twice.

``Client`` is what the kinds have in common; each adds what only its members are told. A driver calls ``received``,
``connected`` and the others with what happened, ``tick`` with the time, and then looks at ``connection`` for what to
do.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from quoracy.core.errors import QuoracyError, Refusal
from quoracy.core.machine import MemberEvent
from quoracy.core.members import Accepted
from quoracy.core.messages import Told
from quoracy.sdk.client.connection import Connection, Outage, State
from quoracy.sdk.client.errors import ended_by
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.session import Note, Session, Stage
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.vitals import Vitals

S = TypeVar("S", bound=Session)
Answer = Accepted | Refusal
Request = tuple[int, int]
"""A command: how many incarnations this process had before, and the command's number in this one."""


class Client(Generic[S]):
    called: ClassVar[str] = "member"
    heartbeat: ClassVar[str]
    """Module that makes the heartbeats of this kind: see ``client.heartbeat``."""

    def __init__(self, settings: Settings, session: S, connection: Connection, memory: Memory, vitals: Vitals) -> None:
        self.settings = settings
        self.session = session
        self.connection = connection
        self.memory = memory
        self.ended: QuoracyError | None = None
        self.finished = False
        """The session is over, and answers nothing more."""
        self.found = False
        """A coordinator has answered at least once."""
        self.connections = 0
        """How often."""
        self.refused: Refusal | None = None
        """Why the last join or hello was turned away. Tried again, but whoever connects for the first time is told."""
        self.version = 0
        """Counts what happened: whoever waits for something waits for it to change."""
        self._vitals = vitals
        self._wanted: set[Request] = set()
        self._answers: dict[Request, Answer] = {}
        self._up = False
        self._outage: Outage | None = None
        self._told_incarnation = 0
        self._answer_count = 0

    # -- what a script asks -----------------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """0 while a new one begins."""
        return self.session.incarnation

    @property
    def token(self) -> str:
        return self.session.token

    @property
    def joined(self) -> bool:
        return self.session.incarnation > 0

    @property
    def outage(self) -> Outage | None:
        """None while the coordinator answers, or was not looked for yet."""
        outage = self.connection.outage
        return outage if outage is not None and outage.tries else None

    def command(self, event: type[MemberEvent], **fields: Any) -> Request:
        session = self.session
        request = (session.lives, session.wish(event, **fields))
        self._wanted.add(request)
        if session.stage is Stage.ENDED:
            why = self.connection.over or Refusal("member_gone", f"{session.member} is over", "connect again")
            self._answers[request] = why
        return request

    def answer(self, request: Request) -> Answer | None:
        """Given once."""
        answer = self._answers.pop(request, None)
        if answer is not None:
            self._wanted.discard(request)
        return answer

    def abandon(self, request: Request) -> None:
        """Nobody waits for this any more. It happens all the same: what was sent cannot be taken back."""
        self._wanted.discard(request)
        self._answers.pop(request, None)

    # -- what a driver reports --------------------------------------------------------------------------------------

    def received(self, chunk: bytes, now_us: int) -> None:
        if self.session.beat_due(now_us):
            self._look_at_beats(now_us)
        self.connection.received(chunk, now_us)
        self.settle(now_us)

    def tick(self, now_us: int) -> None:
        """What the heartbeat process has left in memory, and what the time brings."""
        self._look_at_beats(now_us)
        self.connection.tick(now_us)
        self.settle(now_us)

    def settle(self, now_us: int) -> None:
        """Read what the session notes."""
        notes = self.session.notes
        while notes:
            self._note(notes.popleft(), now_us)
            self.version += 1
        self._look_at_connection()

    # -- the heartbeat process --------------------------------------------------------------------------------------

    def _look_at_beats(self, now_us: int) -> None:
        """Until the process beside this one beats for this incarnation, and when it cannot, the session does."""
        session, memory = self.session, self.memory
        session.beats_elsewhere = memory.beats_for(session.incarnation, now_us, 2 * session.beat_interval_us)
        if not session.beats_elsewhere and session.beat_due(now_us):
            session.vitals = self._heartbeat_fields(now_us)
        if not session.incarnation:
            return
        count = memory.answer_count()
        if count != self._answer_count:
            self._answer_count = count
            self._hear_of_beats(now_us)

    def _hear_of_beats(self, now_us: int) -> None:
        """What the coordinator answers heartbeats with is the session's, whoever has sent them."""
        session, memory = self.session, self.memory
        token = memory.read_token()
        if token is not None and token[0] == session.incarnation and token[1] != session.token:
            session.granted(*token)
        if memory.dead_incarnation() == session.incarnation:
            session.probe(now_us)
        said = memory.read_answer()
        if said is None or said[0] != session.incarnation:
            return
        if said[1] is None:
            session.probe(now_us)
        else:
            session.receive(Told(session.member, session.incarnation, "heartbeat", said[1]), now_us)

    def _heartbeat_fields(self, now_us: int) -> dict[str, Any]:
        """What the next heartbeat says of the training."""
        raise NotImplementedError

    # -- what happened ----------------------------------------------------------------------------------------------

    def _look_at_connection(self) -> None:
        connection, session = self.connection, self.session
        if connection.over is not None and session.stage is not Stage.ENDED:
            session.give_up()
            self._finish(connection.over)
        if connection.outage is not self._outage:
            self._outage = connection.outage
            self.version += 1
        up = connection.state is State.UP
        if up and not self._up:
            self.found = True
            self.connections += 1
            self.version += 1
        self._up = up
        if session.incarnation != self._told_incarnation:
            self._told_incarnation = session.incarnation
            self.version += 1

    def _note(self, note: Note, now_us: int) -> None:
        session = self.session
        match note.what:
            case "joined":
                self.refused = None
                self._joined(note.value)
            case "answered":
                cause, answer = note.value
                self._answered((session.lives, cause.seq), answer)
            case "refused":
                self._refused(note.value, now_us)
            case "lost":
                self._lost(str(note.value))
            case "ended":
                self._finish(note.value)
                self.connection.end(note.value)
            case "moved":
                self.connection.moved(note.value, now_us)
            case _:
                self._note_of_kind(note)

    def _answered(self, request: Request, answer: Answer) -> None:
        if request in self._wanted:
            self._answers[request] = answer

    def _refused(self, refusal: Refusal, now_us: int) -> None:
        """What is not about a request is about joining."""
        if self._refused_of_kind(refusal):
            return
        self.refused = refusal
        if self.connection.state is State.OPEN and self.session.stage is Stage.JOINED:
            self.connection.turned_away(refusal, now_us)

    def _lost(self, why: str) -> None:
        """Everything that was open is void."""
        self.refused = None
        over = Refusal("member_gone", f"the coordinator gave this {self.called} up: {why}", "recover and go on")
        for request in self._wanted - self._answers.keys():
            self._answers[request] = over
        self._lost_of_kind(over)

    def _finish(self, refusal: Refusal) -> None:
        self.finished = True
        self.ended = self.ended or ended_by(refusal)
        for request in self._wanted - self._answers.keys():
            self._answers[request] = refusal
        self.version += 1

    # -- what a kind adds -------------------------------------------------------------------------------------------

    def _joined(self, result: dict[str, Any]) -> None:
        """An incarnation has begun, with this answer."""

    def _note_of_kind(self, note: Note) -> None:
        """A note that not every kind has."""

    def _refused_of_kind(self, _refusal: Refusal) -> bool:
        """Whether a refused signal was about something that the script waits for."""
        return False

    def _lost_of_kind(self, over: Refusal) -> None:
        """The incarnation is over, and another one begins."""
