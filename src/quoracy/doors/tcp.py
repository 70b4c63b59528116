"""The TCP door: frames in, frames out. Hot, so it does as little as it can per message.

A connection greets first, and in time. It is closed, with the reason, when it breaks the protocol, is too
fast, or does not read the answers to what it asks: nobody's silence may fill this server's memory. Views do not count:
of those that are not read only the newest are kept (``outbox``), because a training that computes for hours reads
nothing meanwhile.

A member may have a second connection that carries heartbeats only (``Greet.heartbeats``): nothing but them is taken
there, no views go there, and as long as they come the other one may be silent.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from quoracy.config import ConnectionLimits
from quoracy.core.errors import ConfigError, Refusal
from quoracy.core.members import CHALLENGE_BYTES
from quoracy.core.messages import Answered, Call, Declined, Hello, Sign
from quoracy.doors.auth import NOBODY, Identity, Meter
from quoracy.doors.outbox import HIGH_WATER_BYTES, Outbox, view_of
from quoracy.doors.service import Service
from quoracy.hosts.server import now_us
from quoracy.version import __version__
from quoracy.wire.frames import FrameReader, FrameTooLarge, frame
from quoracy.wire.messages import Ask, Goodbye, Greet, Greeted, Replied, agree, to_server

HANDSHAKE_S: Final = 30.0
"""For the TLS handshake. After a restart a thousand come at once and share a processor; a handshake that is given up
begins anew, and makes it worse."""
BACKLOG: Final = 4096
"""Connections that may wait to be accepted: more than a fleet has, since all of them come at once after a restart. The
system may allow fewer (net.core.somaxconn)."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""Seconds until the system asks whether a silent client is still there, seconds between questions, how many remain
unanswered before it is gone. What lies between, such as NAT, forgets silent connections after minutes."""
LAST_WORDS_S: Final = 1.0
"""When a connection is closed: for replies under way, and for the client to take what was sent to it."""
ONLY_HEARTBEATS: Final = Refusal(
    "heartbeats_only", "this connection was opened for heartbeats only", "say it on the session's own connection"
)
MAX_ASKED: Final = 16
"""Questions of one connection that may wait for their replies. A reply can be a thousand times as long as its question:
without a limit a packet full of questions would fill the memory, and keep everybody waiting, before a byte is sent."""


class Connection(asyncio.Protocol):
    def __init__(self, door: TcpDoor) -> None:
        self._door = door
        self._service = door.service
        self._reader = FrameReader(door.limits.max_frame_bytes)
        self._out: list[bytes] = []
        """Said in this turn of the loop."""
        self._outbox = Outbox()
        """Said while the client does not read."""
        self._paused = False
        self._transport: asyncio.Transport | None = None
        self._greeted = False
        self._closing = False
        self._counted = False
        self._counted_as = ""
        self.asked: set[asyncio.Task[None]] = set()
        self.heard_us = now_us()
        self.heartbeats = False
        self.identity = NOBODY
        self.challenge = secrets.token_bytes(CHALLENGE_BYTES)
        self.entered: dict[tuple[str, str], int] = {}
        self.renew_s: dict[tuple[str, str], float] = {}
        self.address = "?"
        self._stranger: Refusal | None = None

    # -- asyncio ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "?"
        self._stranger = self._service.stranger(peer, transport.get_extra_info("sockname"))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE:
                if hasattr(socket, option):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._counted_as = self.address
        refusal = self._door.meter.connect(self.address, now_us())
        self._counted = refusal is None
        self._door.connections[self] = None
        if refusal is not None:
            self.close(refusal)

    def connection_lost(self, _error: Exception | None) -> None:
        self._door.connections.pop(self, None)
        if self._counted:
            self._door.meter.disconnect(self._counted_as)
        self._transport = None
        for task in self.asked:
            task.cancel()
        self._service.server.gone(self)

    def data_received(self, chunk: bytes) -> None:
        if self._closing:
            return
        self.heard_us = now_us()
        try:
            frames = self._reader.feed(chunk)
        except FrameTooLarge as error:
            self.close(Refusal("too_large", str(error), "send less at a time"))
            return
        refusal = self._door.meter.spend(self._counted_as, len(frames), len(chunk), self.heard_us)
        if refusal is not None:
            self.close(refusal)
            return
        for payload in frames:
            self._take(to_server.read(payload))

    # -- messages in ------------------------------------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        if self._closing:
            return
        if not self._greeted:
            self._greet(message)
            return
        if self.heartbeats:
            self._take_heartbeat(message)
            return
        match message:
            case Sign():
                self._service.sign(self, message)
            case Call():
                self._service.call(self, message)
            case Hello():
                self._service.hello(self, message)
            case Ask():
                self._asked(message)
            case _:
                self._unfit(message)

    def _take_heartbeat(self, message: Any) -> None:
        """On a connection for heartbeats only: all else is refused, and changes nothing."""
        match message:
            case Sign(member=member, incarnation=incarnation):
                if message.is_heartbeat():
                    self._service.sign(self, message)
                else:
                    self._answer(Declined(member, incarnation, "signal", ONLY_HEARTBEATS))
            case Hello():
                self._service.hello(self, msgspec.structs.replace(message, views=False))
            case Call(cause=cause):
                self._answer(Answered(cause, ONLY_HEARTBEATS))
            case Ask(number=number):
                self._answer(Replied(number, None, ONLY_HEARTBEATS))
            case _:
                self._unfit(message)

    def _unfit(self, message: Any) -> None:
        known = isinstance(message, Refusal)
        self.close(message if known else Refusal("malformed", "a second greeting", "greet once, then speak"))

    def _answer(self, message: Any) -> None:
        self._service.server.send(self, message)

    def _greet(self, message: Any) -> None:
        if isinstance(message, Refusal):
            self.close(message)
            return
        if not isinstance(message, Greet):
            self.close(Refusal("malformed", f"{type(message).__name__} before a greeting", "greet first"))
            return
        version = agree(message.oldest, message.newest)
        identity = self._service.identify(message.token, self._stranger)
        for outcome in (version, identity):
            if isinstance(outcome, Refusal):
                self.close(outcome)
                return
        if isinstance(identity, Identity) and isinstance(version, int):
            if (refusal := self._count_by(identity)) is not None:
                self.close(refusal)
                return
            self._greeted = True
            self.heartbeats = message.heartbeats
            self.identity = identity
            software = f"quoracy {__version__}"
            self._answer(Greeted(version, self.challenge, software, identity.role.value))

    def _count_by(self, identity: Identity) -> Refusal | None:
        """From here on limits are counted by the token, if there is one: many people may share an address."""
        if not identity.id:
            return None
        refusal = self._door.meter.connect(identity.id, now_us())
        if refusal is None:
            self._door.meter.disconnect(self._counted_as)
            self._counted_as = identity.id
        return refusal

    def _asked(self, ask: Ask) -> None:
        if len(self.asked) >= MAX_ASKED:
            why = f"{MAX_ASKED} questions of this connection wait for their replies"
            refusal = Refusal("overloaded", why, "read a reply before the next question")
            self._answer(Replied(ask.number, None, refusal))
            return
        task = asyncio.get_running_loop().create_task(self._ask(ask))
        self.asked.add(task)
        task.add_done_callback(self.asked.discard)

    async def _ask(self, ask: Ask) -> None:
        """Not counted any more when the reply goes out: whoever has read it may ask again."""
        replied = await self._service.ask(self.identity, ask.number, ask.what, ask.run, ask.arguments)
        self.asked.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        self._answer(replied)

    # -- messages out -----------------------------------------------------------------------------------------------

    def send(self, message: Any, run: str = "") -> None:
        if self._paused:
            self._keep(message, run)
        else:
            self._out.append(frame(message))
        if type(message) is Answered and message.cause.seq == 0:
            self._service.answered(self, run, message)

    def _keep(self, message: Any, run: str) -> None:
        """Until the client reads. More than ``limits.max_unsent_bytes`` of answers are too much."""
        self._outbox.put(frame(message), view_of(message, run))
        if self._outbox.answer_bytes > self._door.limits.max_unsent_bytes and not self._closing:
            self._closing = True
            self._service.server.log.warn("a client does not read", address=self.address)
            self.abort()

    def flush(self) -> None:
        transport, out = self._transport, self._out
        if not out:
            return
        whole = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if transport is not None and not transport.is_closing():
            transport.write(whole)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._hand_over()

    def _hand_over(self) -> None:
        """What was kept, behind what was said before it."""
        self._out += self._outbox.take()
        self.flush()

    def close(self, refusal: Refusal) -> None:
        """Say why, then close: soon also on somebody who takes nothing, and so would keep the connection for ever."""
        if self._closing:
            return
        self._closing = True
        self._door.service.server.log.info(
            "connection closed", address=self.address, code=refusal.code, why=refusal.why
        )
        self._outbox.put(frame(Goodbye(refusal)))
        self._hand_over()
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self.abort)

    def hush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def beating(self, at_us: int) -> Iterator[tuple[str, str, int]]:
        """Whose heartbeats come through it: run, member and incarnation."""
        if self.heartbeats and self.overdue(at_us) is None:
            yield from ((run, member, incarnation) for (run, member), incarnation in self.entered.items())

    def overdue(self, at_us: int) -> Refusal | None:
        silent_s = (at_us - self.heard_us) / 1e6
        greet_s = self._door.limits.greet_timeout_s
        if not self._greeted and silent_s > greet_s:
            return Refusal("malformed", f"no greeting within {greet_s:g} s", "greet at once")
        idle_s = self._door.limits.idle_timeout_s
        if silent_s > idle_s:
            return Refusal("malformed", f"nothing was said for {idle_s:g} s", "beat, or connect again when needed")
        return None


class TcpDoor:
    def __init__(self, service: Service, limits: ConnectionLimits, meter: Meter | None = None) -> None:
        """``meter``: shared with other doors, since limits are meant for all of them together."""
        self.service = service
        self.limits = limits
        self.meter = meter or Meter(limits)
        self.connections: dict[Connection, None] = {}
        self._listener: asyncio.Server | None = None
        self._patrol: asyncio.Task[None] | None = None

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """Take the address; nobody is let in before ``listen``. Port 0 takes a free one; returns what it is. Raises
        ConfigError."""
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                lambda: Connection(self),
                host,
                port,
                ssl=tls,
                backlog=BACKLOG,
                ssl_handshake_timeout=HANDSHAKE_S if tls else None,
                start_serving=False,
            )
        except OSError as error:
            raise _cannot_listen(error, host, port) from None
        bound = self._listener.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    async def listen(self) -> None:
        """Let people in."""
        if self._listener is not None:
            place = self._listener.sockets[0].getsockname()
            try:
                await self._listener.start_serving()
            except OSError as error:
                raise _cannot_listen(error, str(place[0]), int(place[1])) from None
        self._patrol = asyncio.get_running_loop().create_task(self._walk())

    def hush(self) -> None:
        """Let nobody in, and read nothing more: what is under way can end."""
        if self._patrol is not None:
            self._patrol.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.hush()

    async def close(self, refusal: Refusal) -> None:
        """Reply to what was asked, tell everybody why, and go. Whoever does not listen is not waited for."""
        self.hush()
        asked = [task for connection in self.connections for task in connection.asked]
        if asked:
            await asyncio.wait(asked, timeout=LAST_WORDS_S)
        for connection in list(self.connections):
            connection.close(refusal)
        deadline_us = now_us() + round(LAST_WORDS_S * 1e6)
        while self.connections and now_us() < deadline_us:
            await asyncio.sleep(0.005)
        for connection in list(self.connections):
            connection.abort()

    async def _walk(self) -> None:
        """Half-open connections do not stay for ever."""
        while True:
            await asyncio.sleep(min(self.limits.greet_timeout_s, self.limits.idle_timeout_s) / 4)
            self._look_round(now_us())

    def _look_round(self, at_us: int) -> None:
        overdue = [(each, why) for each in self.connections if (why := each.overdue(at_us)) is not None]
        if overdue:
            beating = {life for each in self.connections for life in each.beating(at_us)}
            for connection, refusal in overdue:
                if not any((*who, life) in beating for who, life in connection.entered.items()):
                    connection.close(refusal)
        for connection in list(self.connections):
            self.service.renew(connection)


def _cannot_listen(error: OSError, host: str, port: int) -> ConfigError:
    match error.errno:
        case errno.EADDRINUSE:
            fix = "another program listens there, perhaps another quoracy serve: choose another port, or 0 for any"
            return ConfigError("listen.port", port, fix)
        case errno.EACCES:
            return ConfigError("listen.port", port, "the system does not allow it: choose a port above 1023")
    return ConfigError("listen.host", host, f"this machine cannot listen there ({error.strerror or error})")
