"""One member's side of the conversation, without I/O: joining, numbering, repeating, beating, giving up.

What the kinds have in common. A shell hands in what arrived (``receive``) and the time (``tick``), sends what ``take``
returns, and reads ``notes`` for what the training script has to know. The rules that every kind's member keeps:

- One command at a time, repeated until it is answered; the answer may come from another host than the one first asked.
- Newest wins. A member that learns that it was superseded ends, and never joins again.
- A member that was given up (its host could not hear it for too long) begins a new life with a new nonce. Whatever
  the old life had not been answered is void, and the script is told.
- A join that stays unanswered may have happened. If such a member then finds its id at another life, it cannot know
  whether it was superseded, and ends: two processes under one name must not take turns.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from quoracy.core.codec import digest, encode, us
from quoracy.core.errors import Refusal, Retry
from quoracy.core.machine import Join, MemberEvent, Signal
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Answered, Call, Declined, Hello, Moved, Sign, ToHost, Told, ToMember, Welcome


class Stage(Enum):
    LOOKING = "Looking"
    JOINING = "Joining"
    JOINED = "Joined"
    ENDED = "Ended"


class Note(msgspec.Struct, frozen=True):
    """Something the script has to know. ``what`` is one of: joined, answered, refused, lost, ended, moved; a kind adds
    its own."""

    what: str
    value: Any = None


class Pending(msgspec.Struct):
    """Something sent that has not been answered. ``since_us``: for the first time."""

    message: ToHost
    sent_us: int
    since_us: int = 0


class Session:
    joins: ClassVar[type[Join]]
    """How a member of this kind begins a life, and ends one."""
    leaves: ClassVar[type[MemberEvent]]

    def __init__(
        self,
        run: str,
        member: str,
        secret: bytes,
        retry_us: int = 1_000_000,
        key: bytes = b"",
        about: dict[str, Any] | None = None,
    ) -> None:
        """``secret``: random bytes of this process. Nonces of its lives are made from it. ``about``: what a join says
        beside who joins."""
        self.run = run
        self.member = member
        self.stage = Stage.LOOKING
        self.incarnation = 0
        self.standing: Any = None
        """What the run thinks of this member, as the kind shows it."""
        self.notes: deque[Note] = deque()
        self.beat_interval_us = retry_us
        self.beat_timeout_us = 0
        """Silent for so long, this member is given up; 0 before it has joined."""
        self.progress = 0
        self.vitals: dict[str, Any] = {}
        """Further fields of the next heartbeats."""
        self.beats_elsewhere = False
        """A process beside this one sends the heartbeats of this incarnation."""
        self._secret = secret
        self._key = key
        self._about = about or {}
        self._token = ""
        self._retry_us = retry_us
        self._lives = 0
        self._nonce = self._draw_nonce()
        self._unsure = False
        self._hello: Pending | None = None
        self._join: Pending | None = None
        self._seq = 0
        self._wishes: deque[tuple[type[MemberEvent], dict[str, Any]]] = deque()
        self._command: Pending | None = None
        self._leaving = False
        self._beats = 0
        self._beat_us = 0
        self._out: list[ToHost] = []

    # -- what a kind adds -------------------------------------------------------------------------------------------

    def _beat(self, seq: int) -> Signal:
        """The next heartbeat."""
        raise NotImplementedError

    def _stand(self, value: Any, now_us: int) -> None:
        """Its standing, as the host sees it. It may be one of another life."""
        raise NotImplementedError

    def _told(self, topic: str, value: Any) -> None:
        """Something else that it is shown."""

    def _fields(self, _event: type[MemberEvent], fields: dict[str, Any]) -> dict[str, Any]:
        """Of a command that is about to be sent."""
        return fields

    def _arrived(self, result: dict[str, Any]) -> None:
        """A life has begun, with this answer."""

    def _forget(self) -> None:
        """A life is over: whatever of it was open is void."""

    def _open(self) -> list[Pending]:
        """Everything that is repeated until it is answered."""
        return [pending for pending in (self._hello, self._join, self._command) if pending is not None]

    # -- what a script asks for -------------------------------------------------------------------------------------

    def connect(self, now_us: int) -> None:
        """A connection was made, for the first time or again: say who is there, and repeat what is open."""
        if self.stage is Stage.ENDED:
            return
        self._unsure = self._unsure or self._join is not None
        self._hello = None
        repeated = self._open()
        self._send_hello(now_us)
        for pending in repeated:
            self._repeat(pending, now_us)

    def granted(self, incarnation: int, token: str) -> None:
        """The token that proves, on the next connection, that this is that life."""
        if incarnation == self.incarnation:
            self._token = token

    @property
    def lives(self) -> int:
        return self._lives

    @property
    def token(self) -> str:
        return self._token

    def wish(self, event: type[MemberEvent], **fields: Any) -> int:
        """A command of this member, sent when the ones before it are answered. Returns the number it will have."""
        self._wishes.append((event, fields))
        return self._seq + len(self._wishes)

    def leave(self, reason: str = "") -> None:
        self.wish(self.leaves, reason=reason)

    def give_up(self) -> None:
        """The shell knows that nobody will answer any more, and has said so."""
        self.stage = Stage.ENDED

    def wishes(self) -> bool:
        """Whether a command waits for ``tick`` to send it."""
        return bool(self._wishes)

    def is_joined(self) -> bool:
        return self.stage is Stage.JOINED

    def idle(self) -> bool:
        """No command is open or waits to be sent."""
        return self._command is None and not self._wishes

    def has_to_say(self) -> bool:
        """Something waits to be sent."""
        return bool(self._out or self._wishes)

    def open_command(self) -> Cause | None:
        message = None if self._command is None else self._command.message
        return message.cause if isinstance(message, Call) else None

    def waited_us(self, now_us: int) -> int:
        """How long the open command has not been answered."""
        return 0 if self._command is None else now_us - self._command.since_us

    # -- what a shell does ------------------------------------------------------------------------------------------

    def take(self) -> list[ToHost]:
        out, self._out = self._out, []
        return out

    def tick(self, now_us: int) -> None:
        """Repeat what was not answered, beat, and send the next command."""
        if self.stage is Stage.ENDED:
            return
        for pending in self._open():
            if now_us - pending.sent_us >= self._retry_us:
                self._unsure = self._unsure or pending is self._join
                self._repeat(pending, now_us)
        if self.stage is not Stage.JOINED:
            return
        if now_us >= self._beat_us:
            self._beat_us = now_us + self.beat_interval_us
            if not self.beats_elsewhere:
                self._beats = max(self._beats + 1, now_us)
                self._sign(self._beat(self._beats))
        if self._command is None and self._wishes:
            event, fields = self._wishes.popleft()
            self._leaving = event is self.leaves
            self._seq += 1
            cause = Cause(self.member, self.incarnation, self._seq)
            body = Raw(encode(event(self.member, self.incarnation, **self._fields(event, fields))))
            self._command = Pending(Call(self.run, cause, body), now_us, now_us)
            self._out.append(self._command.message)

    def beat_due(self, now_us: int) -> bool:
        """Whether the next ``tick`` sends a heartbeat, unless ``beats_elsewhere``. Whoever knows more for it says so
        before."""
        return self.stage is Stage.JOINED and now_us >= self._beat_us

    def probe(self, now_us: int) -> None:
        """Ask whether anybody is there, and how things stand: the answer to a hello shows everything."""
        if self._hello is None and self.stage is not Stage.ENDED:
            self._send_hello(now_us)

    def wake_us(self) -> int | None:
        """When to ``tick`` next."""
        if self.stage is Stage.ENDED:
            return None
        times = [pending.sent_us + self._retry_us for pending in self._open()]
        if self.stage is Stage.JOINED and not self.beats_elsewhere:
            times.append(self._beat_us)
        return min(times, default=None)

    def receive(self, message: ToMember, now_us: int) -> None:
        if self.stage is Stage.ENDED:
            return
        match message:
            case Told(member=self.member) if message.topic == "standing":
                self._stand(message.value, now_us)
            case Told(member=self.member, incarnation=self.incarnation):
                self._told(message.topic, message.value)
            case Welcome():
                self._welcome(message, now_us)
            case Answered(cause=cause, answer=answer) if cause.member == self.member:
                if cause.seq == 0:
                    self._join_answered(cause, answer, now_us)
                else:
                    self._answered(cause, answer)
            case Declined(member=self.member, incarnation=self.incarnation):
                self._declined(message, now_us)
            case Moved(address=address):
                self._note("moved", address)
            case _:
                pass
        if self._wishes or now_us >= self._beat_us:
            self.tick(now_us)

    # -- joining ----------------------------------------------------------------------------------------------------

    def _draw_nonce(self) -> bytes:
        return digest(self._secret, b"life", self._lives.to_bytes(8, "big"))[:16]

    def _send_hello(self, now_us: int) -> None:
        self._hello = Pending(Hello(self.run, self.member, self.incarnation, self._token), now_us)
        self._out.append(self._hello.message)

    def _welcome(self, welcome: Welcome, now_us: int) -> None:
        self._hello = None
        if self.stage is Stage.JOINED:
            if welcome.incarnation > self.incarnation:
                self._superseded(welcome.incarnation)
        elif self.stage is Stage.LOOKING:
            self.stage = Stage.JOINING
            known = welcome.incarnation
            event = self.joins(self.member, known, self._nonce, self._key, **self._about)
            self._join = Pending(Call(self.run, Cause(self.member, known, 0), Raw(encode(event))), now_us)
            self._out.append(self._join.message)

    def _join_answered(self, cause: Cause, answer: Accepted | Refusal, now_us: int) -> None:
        join = None if self._join is None else self._join.message
        if not isinstance(join, Call) or join.cause != cause:
            return
        if isinstance(answer, Refusal):
            if answer.code == "stale_join" and not self._unsure:
                self._join = None
                self.stage = Stage.LOOKING
                self._send_hello(now_us)
            elif answer.retry is Retry.OVER or answer.code == "stale_join":
                self._end(answer)
            else:
                self._note("refused", answer)
            return
        result = answer.result or {}
        self._join = None
        self._unsure = False
        self.stage = Stage.JOINED
        self.incarnation = result["incarnation"]
        self.beat_interval_us = us(result["heartbeat_interval_s"])
        self.beat_timeout_us = us(result.get("heartbeat_timeout_s", 0))
        self._beat_us = now_us
        self._arrived(result)
        self._note("joined", result)

    def _new_life(self, why: str, now_us: int) -> None:
        """Given up by the host. What the old life had open is void."""
        self._lives += 1
        self._nonce = self._draw_nonce()
        self.stage = Stage.LOOKING
        self.incarnation = 0
        self.standing = None
        self._token = ""
        self._unsure = False
        self._join = self._command = None
        self._seq = 0
        self._wishes.clear()
        self._forget()
        self._note("lost", why)
        self._send_hello(now_us)

    def _superseded(self, newer: int) -> None:
        why = f"incarnation {self.incarnation} of {self.member} was superseded by incarnation {newer}"
        self._end(Refusal("superseded", why, "exit: a newer process has taken this id"))

    def _end(self, why: Refusal) -> None:
        self.stage = Stage.ENDED
        self._hello = self._join = self._command = None
        self._forget()
        self._note("ended", why)

    # -- answers ----------------------------------------------------------------------------------------------------

    def _answered(self, cause: Cause, answer: Accepted | Refusal) -> None:
        if self._command is None or self.open_command() != cause:
            return
        if isinstance(answer, Refusal) and (answer.retry is Retry.LATER or answer.code == "bad_token"):
            return  # not decided: sent again; whether this connection may speak at all, the answer to its hello says
        self._command = None
        if isinstance(answer, Refusal) and answer.retry is Retry.OVER:
            self._end(answer)
            return
        self._note("answered", (cause, answer))
        if self._leaving and isinstance(answer, Accepted):
            self._end(Refusal("member_gone", f"{self.member} has left", "nothing"))

    def _declined(self, declined: Declined, now_us: int) -> None:
        code, retry = declined.refusal.code, declined.refusal.retry
        if retry is Retry.OVER:
            self._end(declined.refusal)
        elif code == "member_gone" and self.stage is Stage.JOINED:
            self._new_life(declined.refusal.why, now_us)
        elif code == "stale_token":
            self._send_hello(now_us)
        elif code == "bad_token" and declined.topic == "hello" and self.stage is Stage.JOINED:
            self._new_life(declined.refusal.why, now_us)
        elif retry is not Retry.LATER:
            self._turned_down(declined.topic)
            self._note("refused", declined.refusal)

    def _turned_down(self, topic: str) -> None:
        """A signal about this will not be taken in."""

    def _sign(self, signal: Signal) -> Sign:
        sign = Sign.of(self.run, signal)
        self._out.append(sign)
        return sign

    def _repeat(self, pending: Pending, now_us: int) -> None:
        pending.sent_us = now_us
        self._out.append(pending.message)

    def _note(self, what: str, value: Any = None) -> None:
        self.notes.append(Note(what, value))
