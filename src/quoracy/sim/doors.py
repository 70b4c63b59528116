"""The TCP door of a simulated host: the real one (``doors.tcp``, with its outbox and its rules for heartbeat-only
connections) and the real rules of who may speak for whom (``doors.service``), over simulated streams.

What is simulated is asyncio's part: a transport that tells the door to pause when a client does not read, and time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from quoracy.config import ConnectionLimits
from quoracy.core import shell
from quoracy.core.codec import digest, encode
from quoracy.core.errors import Refusal
from quoracy.core.members import CHALLENGE_BYTES
from quoracy.core.messages import Answered, Call, Told
from quoracy.doors.auth import Identity, Role
from quoracy.doors.service import Service
from quoracy.doors.tcp import LAST_WORDS_S, Connection, TcpDoor
from quoracy.sim.streams import End
from quoracy.sim.world import MS, SECOND
from quoracy.wire.frames import frame
from quoracy.wire.messages import Goodbye, Granted

if TYPE_CHECKING:
    from quoracy.sim.hosts import SimHost

HIGH_BYTES: Final = 600
"""Unsent at the host before the door is told to pause: little, as windows are."""
LOOK_ROUND_US: Final = 500 * MS
LIMITS: Final = ConnectionLimits(greet_timeout_s=3.0, idle_timeout_s=5.0, max_unsent_bytes=64 * 1024)
MEMBER: Final = Identity(Role.MEMBER, name="member")
SECRET: Final = b"of all hosts"


class Transport:
    """What asyncio gives to a connection."""

    def __init__(self, end: End, guest: SimGuest) -> None:
        self.end = end
        self._guest = guest
        self._paused = False
        self._closing = False
        end.readable = self._readable
        end.writable = self._writable

    def set_write_buffer_limits(self, high: int) -> None:
        """Here it is ``HIGH_BYTES``."""

    def get_extra_info(self, _name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self._closing

    def write(self, chunk: bytes) -> None:
        self.end.write(chunk)
        if self.end.unsent_bytes > HIGH_BYTES and not self._paused:
            self._paused = True
            self._guest.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.end.close()
            self._lost()

    def abort(self) -> None:
        self._closing = True
        self.end.abort()
        self._lost()

    def pause_reading(self) -> None:
        self.end.readable = _ignore

    def _lost(self) -> None:
        self._guest.lost()

    def _writable(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            self._guest.resume_writing()

    def _readable(self) -> None:
        """Unless the process is stopped: then it waits in the window."""
        self._guest.door.come(self._guest)

    def take(self) -> None:
        chunk = self.end.read()
        if chunk and not self._closing:
            self._guest.data_received(chunk)
        if self.end.over and not self._closing:
            self._closing = True
            self._lost()


class SimGuest(Connection):
    """A connection at the door."""

    def __init__(self, door: SimDoor, end: End) -> None:
        super().__init__(door)
        self.door = door
        self.challenge = door.host.world.rng.randbytes(CHALLENGE_BYTES)
        self.transport = Transport(end, self)
        self.number = door.count()
        self._answers_kept = 0
        """Of what is in the outbox. They are few, or the door cuts the client off."""
        self._gone = False

    def __str__(self) -> str:
        what = "heartbeats" if self.heartbeats else "session"
        return f"{self.transport.end.other.place}'s {what} ({self.number})"

    def data_received(self, chunk: bytes) -> None:
        super().data_received(chunk)
        self.heard_us = self.door.host.clock_us()

    def _keep(self, message: Any, run: str) -> None:
        self._answers_kept += type(message) is not Told
        super()._keep(message, run)

    def _hand_over(self) -> None:
        self._answers_kept = 0
        super()._hand_over()

    def send(self, message: Any, run: str = "") -> None:
        super().send(message, run)
        host = self.door.host
        host.world.note(host.name, lambda: f"-> {self}: {message}")
        if type(message) is Told and message.topic != "heartbeat":
            self.transport.end.other.put.setdefault(message.topic, deque()).append(encode(message))

    def flush(self) -> None:
        super().flush()
        unsent_bytes = self.transport.end.unsent_bytes
        if unsent_bytes or self._outbox:
            self.door.host.checkers.unsent(str(self), unsent_bytes, len(self._outbox) - self._answers_kept)

    def close(self, refusal: Refusal) -> None:
        """As the real one, with the world's time."""
        if self._closing:
            return
        self._closing = True
        self.door.host.world.note(self.door.host.name, lambda: f"hangs up on {self}: {refusal.why}")
        self._outbox.put(frame(Goodbye(refusal)))
        self._hand_over()
        self.transport.close()
        self.door.host.world.after(round(LAST_WORDS_S * 1e6), self.transport.end.abort)

    def lost(self) -> None:
        if not self._gone:
            self._gone = True
            self.connection_lost(None)


class SimDoor(TcpDoor):
    """Of one life of a host."""

    def __init__(self, host: SimHost, session_s: float, admit: Callable[[Call], Call]) -> None:
        self.host = host
        self.session = SimService(host, session_s, admit)
        super().__init__(self.session, LIMITS)
        self.dirty: dict[SimGuest, None] = {}
        self._unread: dict[SimGuest, None] = {}
        self._counted = 0
        self._life = host.lives

    def count(self) -> int:
        self._counted += 1
        return self._counted

    def accept(self, end: End) -> None:
        guest = SimGuest(self, end)
        guest.connection_made(guest.transport)  # type: ignore[arg-type]
        guest.heard_us = self.host.clock_us()

    def come(self, guest: SimGuest) -> None:
        if self.host.is_stopped():
            self._unread[guest] = None
        elif self.host.alive and self._life == self.host.lives:
            guest.transport.take()
            self.flush()

    def catch_up(self) -> None:
        """The process goes on."""
        unread, self._unread = self._unread, {}
        for guest in unread:
            self.come(guest)

    def look_round(self) -> None:
        """As the real door does, now and then."""
        if self.host.alive and self._life == self.host.lives:
            if not self.host.is_stopped():
                self._look_round(self.host.clock_us())
                self.flush()
            self.host.world.after(LOOK_ROUND_US, self.look_round)

    def flush(self) -> None:
        """What was said in this turn."""
        while self.dirty:
            dirty, self.dirty = self.dirty, {}
            for guest in dirty:
                guest.flush()

    def say_goodbye(self) -> None:
        """The server is about to stop, and tells everybody."""
        for guest in list(self.connections):
            guest.close(Refusal("draining", "the server is about to stop", "connect again"))

    def crash(self, dark: bool) -> None:
        """The process is gone. Its system closes what it had open, unless the machine is gone as well."""
        rng = self.host.world.rng
        for guest in list(self.connections):
            end = guest.transport.end  # type: ignore[attr-defined]
            if dark:
                end.drop(here=False, there=False)
            elif rng.random() < 0.5:
                end.close()
            else:
                end.abort()
        self.connections.clear()
        self.dirty.clear()


class SimService(Service):
    """Who may speak for whom is the real service's; tokens are made of the world's time."""

    def __init__(self, host: SimHost, session_s: float, admit: Callable[[Call], Call]) -> None:
        self.server: Any = SimServer(host)
        self.tokens = True
        self.draining = False
        self.session_s = session_s
        self._host = host
        self._admit = admit

    def identify(self, _token: str, _stranger: Refusal | None) -> Identity | Refusal:
        return MEMBER

    def stranger(self, _peer: Any, _here: Any) -> Refusal | None:
        return None

    def run_to_join(self, _identity: Identity, run: str) -> Any:
        return self.server.runs[run]

    def call(self, guest: Any, call: Call) -> None:
        cause = call.cause
        if cause.seq == 0:
            call = self._admit(call)
        elif (refusal := self._check_call(guest, self.server.runs[call.run], call)) is not None:
            self._say(guest, Answered(cause, refusal))
            return
        self.server.receive(None, guest, call)

    def _now_s(self) -> float:
        """Clocks on walls are right, more or less."""
        return self._host.world.now_us / SECOND

    def _grant(self, guest: Any, run: str, member: str, incarnation: int) -> None:
        now_s = self._now_s()
        guest.renew_s[run, member] = now_s + self.session_s / 2
        token = _token(run, member, incarnation, int((now_s + self.session_s) * 1000))
        self.server.send(guest, Granted(run, member, incarnation, token))

    def renew(self, guest: Any) -> None:
        now_s = self._now_s()
        for run, member in [key for key, renew_s in guest.renew_s.items() if now_s >= renew_s]:
            self._grant(guest, run, member, guest.entered[run, member])

    def check_session(self, token: str, run: str, member: str, incarnation: int) -> int | Refusal:
        ends, _, _ = token.partition(".")
        if not ends or token != _token(run, member, incarnation, int(ends)):
            return Refusal("bad_token", f"not the token of incarnation {incarnation} of {member}", "join again")
        if self._now_s() * 1000 >= int(ends):
            return Refusal("bad_token", f"the session token of {member} expired", "join again")
        return int(ends) // 1000


class SimServer:
    """What a service needs of a server: one run."""

    def __init__(self, host: SimHost) -> None:
        self.runs = {host.run: host}
        self.log = _Log()
        self._host = host

    def receive(self, _run: Any, guest: SimGuest, message: Any) -> None:
        self._host.report(shell.Received(guest, message))

    def send(self, guest: SimGuest, message: Any) -> None:
        guest.send(message)
        guest.door.dirty[guest] = None

    def gone(self, guest: SimGuest) -> None:
        if self._host.alive and self._host.door is guest.door:
            self._host.report(shell.Disconnected(guest))


class _Log:
    def info(self, *_: Any, **__: Any) -> None:
        """Nobody reads it."""

    warn = info


def _token(run: str, member: str, incarnation: int, ends_ms: int) -> str:
    seal = digest(SECRET, f"{run} {member} {incarnation} {ends_ms}".encode())[:8].hex()
    return f"{ends_ms}.{seal}"


def _ignore() -> None:
    """It does not read any more."""
