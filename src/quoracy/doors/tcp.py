"""The TCP door: frames in, frames out. Hot, so it does as little as it can per message.

A connection greets first, and in time. It is closed, with the reason, when it breaks the protocol, is too
fast, or does not read what it is sent: nobody's silence may fill this server's memory.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
import ssl
from typing import Any, Final, cast

from quoracy.config import ConnectionLimits
from quoracy.core.errors import ConfigError, Refusal
from quoracy.core.members import CHALLENGE_BYTES, Cause
from quoracy.core.messages import Answered, Call, Hello, Sign
from quoracy.doors.auth import NOBODY, Identity, Meter
from quoracy.doors.service import Service
from quoracy.hosts.server import now_us
from quoracy.version import __version__
from quoracy.wire.frames import FrameReader, FrameTooLarge, frame
from quoracy.wire.messages import Ask, Goodbye, Greet, Greeted, Replied, agree, to_server

HANDSHAKE_S: Final = 10.0
LAST_WORDS_S: Final = 1.0
"""When a connection is closed: for replies under way, and for the client to take what was sent to it."""
MAX_ASKED: Final = 16
"""Questions of one connection that may wait for their replies. A reply can be a thousand times as long as its question:
without a limit a packet full of questions would fill the memory, and keep everybody waiting, before a byte is sent."""


class Connection(asyncio.Protocol):
    def __init__(self, door: TcpDoor) -> None:
        self._door = door
        self._service = door.service
        self._reader = FrameReader(door.limits.max_frame_bytes)
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._greeted = False
        self._closing = False
        self._counted = False
        self._counted_as = ""
        self.asked: set[asyncio.Task[None]] = set()
        self._joins: dict[Cause, str] = {}
        self.heard_us = now_us()
        self.identity = NOBODY
        self.challenge = secrets.token_bytes(CHALLENGE_BYTES)
        self.entered: dict[tuple[str, str], int] = {}
        self.renew_s: dict[tuple[str, str], float] = {}
        self.address = "?"
        self._stranger: Refusal | None = None

    # -- asyncio ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._door.limits.max_unsent_bytes)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "?"
        self._stranger = self._service.stranger(peer, transport.get_extra_info("sockname"))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
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
        match message:
            case Sign():
                self._service.sign(self, message)
            case Call():
                if message.cause.seq == 0:
                    self._joins[message.cause] = message.run
                self._service.call(self, message)
            case Hello():
                self._service.hello(self, message)
            case Ask():
                self._asked(message)
            case Refusal():
                self.close(message)
            case _:
                self.close(Refusal("malformed", "a second greeting", "greet once, then speak"))

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
            self.identity = identity
            software = f"quoracy {__version__}"
            self._service.server.send(self, Greeted(version, self.challenge, software, identity.role.value))  # type: ignore[arg-type]

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
            self._service.server.send(self, Replied(ask.number, None, refusal))  # type: ignore[arg-type]
            return
        task = asyncio.get_running_loop().create_task(self._ask(ask))
        self.asked.add(task)
        task.add_done_callback(self.asked.discard)

    async def _ask(self, ask: Ask) -> None:
        """Not counted any more when the reply goes out: whoever has read it may ask again."""
        replied = await self._service.ask(self.identity, ask.number, ask.what, ask.run, ask.arguments)
        self.asked.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        self._service.server.send(self, replied)  # type: ignore[arg-type]

    # -- messages out -----------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        self._out.append(frame(message))
        if type(message) is Answered and message.cause.seq == 0:
            self._service.answered(self, self._joins.pop(message.cause, ""), message)

    def flush(self) -> None:
        transport, out = self._transport, self._out
        if not out:
            return
        whole = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if transport is not None and not transport.is_closing():
            transport.write(whole)

    def pause_writing(self) -> None:
        """More than ``limits.max_unsent_bytes`` wait to be read."""
        self._service.server.log.warn("a client does not read", address=self.address)
        self.abort()

    def close(self, refusal: Refusal) -> None:
        """Say why, then close: soon also on somebody who takes nothing, and so would keep the connection for ever."""
        if self._closing:
            return
        self._closing = True
        self._door.service.server.log.info(
            "connection closed", address=self.address, code=refusal.code, why=refusal.why
        )
        self._out.append(frame(Goodbye(refusal)))
        self.flush()
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self.abort)

    def hush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

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
                backlog=2048,
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
            at_us = now_us()
            for connection in list(self.connections):
                refusal = connection.overdue(at_us)
                if refusal is not None:
                    connection.close(refusal)
                else:
                    self.service.renew(connection)


def _cannot_listen(error: OSError, host: str, port: int) -> ConfigError:
    match error.errno:
        case errno.EADDRINUSE:
            fix = "another program listens there, perhaps another quoracy serve: choose another port, or 0 for any"
            return ConfigError("listen.port", port, fix)
        case errno.EACCES:
            return ConfigError("listen.port", port, "the system does not allow it: choose a port above 1023")
    return ConfigError("listen.host", host, f"this machine cannot listen there ({error.strerror or error})")
