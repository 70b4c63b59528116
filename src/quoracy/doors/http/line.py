"""One connection: uvicorn's, with limits of its own.

It is counted like those of every other door, first by its address and then by its token. Headers have a size, and a
request a time in which it must have come: whoever sends a byte a minute would hold a place that others need. Whoever
sends more bytes than it may is read more slowly; only too many messages are refused. What is no HTTP at all is told so
in the same words as everything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import httptools
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from quoracy.core.errors import Refusal
from quoracy.doors.auth import Identity
from quoracy.doors.http.intake import PIECE_BYTES, Intake
from quoracy.doors.http.problems import MEDIA, Trouble
from quoracy.hosts.log import Log
from quoracy.hosts.server import now_us

if TYPE_CHECKING:
    from quoracy.doors.http.door import HttpDoor

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 100
MAX_URL_BYTES: Final = 8 * 1024
SPARE: Final = 512
"""Connections beyond the limit that are told so when they have asked for something. More are told at once."""
LEAST_WAIT_S: Final = 0.001
HEAD_END: Final = b"\r\n\r\n"
LARGE_BYTES: Final = 16 * 1024
"""Read at once: there may be a body behind the head."""
TURNED_AWAY_S: Final = 1.0
"""So long each of them stays: a request that meets a closed connection may cost its sender the answer."""


class Line(HttpToolsProtocol):
    def __init__(self, door: HttpDoor, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._door = door
        self.logger = door.logger
        self.access_log = False
        self.address = "?"
        self.counted_as = ""
        self.stranger: Refusal | None = None
        """Why it needs a token, if it does."""
        self._refusal: Refusal | None = None
        self._turned_away: asyncio.TimerHandle | None = None
        self._told = False
        self._in_head = False
        self._head_bytes = 0
        self._begun = 0
        self.since_us = now_us()
        """When what is under way began: the connection, or the request that has not come whole."""
        self._stuck_us = 0
        self._unsent = 0
        self.on_lost: list[Callable[[], object]] = []
        self.patient = False
        """Something large comes in: whoever takes it counts it, and reads as fast as it may come."""
        self._held: deque[bytes] = deque()
        """What was read, and is not looked at before it is within the limits."""
        self._rest: memoryview | None = None
        """What was read behind a head, and is not with the parser yet."""

    # -- life -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else "?"
        self.stranger = self._door.stranger(self.client, self.server)
        self._refusal = self._door.meter.connect(self.address, now_us())
        if self._refusal is None:
            self.counted_as = self.address
            return
        self._turned_away = self.loop.call_later(TURNED_AWAY_S, self._turn_away)
        self._door.turned_away += 1
        if self._door.turned_away > SPARE and transport.can_write_eof():
            transport.write(whole(Trouble(self._refusal), self._door.gate.fixed_headers))
            transport.write_eof()
            self._told = True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turned_away is not None:
            self._turned_away.cancel()
            self._door.turned_away -= 1
        if self.counted_as:
            self._door.meter.disconnect(self.counted_as)
            self.counted_as = ""
        super().connection_lost(exc)
        for told in self.on_lost:
            told()

    def count_by(self, identity: Identity) -> None:
        """From here on limits are counted by the token: many people may share an address. Raises Trouble."""
        if not identity.id or identity.id == self.counted_as:
            return
        refusal = self._door.meter.connect(identity.id, now_us())
        if refusal is not None:
            raise Trouble(refusal, headers=((b"connection", b"close"),))
        self._door.meter.disconnect(self.counted_as)
        self.counted_as = identity.id

    def lost(self) -> bool:
        return bool(self.transport.is_closing())

    # -- in ---------------------------------------------------------------------------------------------------------

    def data_received(self, chunk: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._refusal is not None:
            self._turn_away()
            return
        if self._held:
            self._held.append(chunk)
            self.flow.pause_reading()
            return
        self._weigh(chunk)

    def _weigh(self, chunk: bytes) -> None:
        """Look at it if it is within the limits. If it has too many bytes, wait, and read nothing meanwhile."""
        meter, at_us = self._door.meter, now_us()
        refusal = None if self.patient else meter.spend(self.counted_as, 1, len(chunk), at_us)
        if refusal is None:
            self._look_at(chunk, at_us)
        elif meter.wait_us(self.counted_as, 1, 0, at_us):
            self.refuse(Trouble(refusal))
        else:
            self._held.appendleft(chunk)
            self.flow.pause_reading()
            wait_us = meter.wait_us(self.counted_as, 1, len(chunk), at_us)
            self.loop.call_later(max(LEAST_WAIT_S, wait_us / 1e6), self._go_on)

    def _go_on(self) -> None:
        """With what was held. It is in order: whatever comes meanwhile is held behind it."""
        while self._held and not self.transport.is_closing() and self.counted_as:
            self.since_us = now_us()
            first = len(self._held)
            self._weigh(self._held.popleft())
            if len(self._held) == first:
                return
        if not self._held and not self.transport.is_closing():
            self.flow.resume_reading()

    def _look_at(self, chunk: bytes, at_us: int) -> None:
        meter = self._door.meter
        if self._in_head:
            self._head_bytes += len(chunk)
        self._begun = 0
        end = chunk.find(HEAD_END, 0, MAX_HEAD_BYTES) + len(HEAD_END) if len(chunk) >= LARGE_BYTES else 0
        if end < len(HEAD_END):
            super().data_received(chunk)
        else:
            super().data_received(chunk[:end])
            rest = memoryview(chunk)[end:]
            if not self._keep_from_parser(rest) and not self.transport.is_closing():
                super().data_received(rest)  # type: ignore[arg-type]
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self.refuse(_head_too_large())
        elif self._begun > 1 and (refusal := meter.spend(self.counted_as, self._begun - 1, 0, at_us)) is not None:
            self.refuse(Trouble(refusal))

    def _keep_from_parser(self, rest: memoryview) -> bool:
        """The parser copies a body twice, while everybody waits. If this is the beginning of one that goes on, whoever
        is asked for may take it as it is, in its first step; else the parser gets it after all."""
        cycle: RequestResponseCycle | None = self.cycle
        if self._begun != 1 or self._in_head or self.pipeline or cycle is None or cycle.response_complete:
            return False
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        if not length.isdigit() or len(length) > 18 or int(length) <= len(rest):
            return False
        self._rest = rest
        self.flow.pause_reading()
        self.loop.call_soon(self._parse_rest)
        return True

    def _parse_rest(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None and not self.transport.is_closing():
            self.flow.resume_reading()
            super().data_received(rest)  # type: ignore[arg-type]

    def hand_over(self, length: int, room: Callable[[], memoryview]) -> Intake | None:
        """The rest of the body, ``length`` bytes in all, goes to the intake, until that hands the connection back.
        None: all of it is here already."""
        cycle: RequestResponseCycle = self.cycle
        here = len(cycle.body) + len(self._rest or b"")
        if not cycle.more_body or self._held or self.lost() or here > min(PIECE_BYTES, length):
            return None
        self.flow.pause_reading()
        if cycle.waiting_for_100_continue:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            cycle.waiting_for_100_continue = False
        rest, self._rest = self._rest, None
        intake = Intake(self, cycle, length, room, rest or b"")
        self.transport.set_protocol(intake)
        self.flow.resume_reading()
        return intake

    def take_back(self) -> None:
        """The body has come whole, past the parser: what comes now is a new request."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.since_us = 0
        self.transport.set_protocol(self)
        self.flow.resume_reading()

    def sent_past(self, scope: Scope, count: int) -> None:
        """So many bytes of the answer have been sent without passing through here."""
        cycle: RequestResponseCycle = scope["quoracy.cycle"]
        cycle.expected_content_length -= count

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["quoracy.line"] = self  # type: ignore[typeddict-unknown-key]
        self._in_head = True
        self._head_bytes = 0
        self._begun += 1
        self.since_us = now_us()

    def on_headers_complete(self) -> None:
        self._in_head = False
        size = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.url) > MAX_URL_BYTES:
            why = f"the address has {len(self.url)} bytes"
            self.refuse(Trouble(Refusal("url_too_long", why, f"at most {MAX_URL_BYTES}")))
        elif size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self.refuse(_head_too_large())
        else:
            super().on_headers_complete()
            self.scope["quoracy.cycle"] = self.cycle  # type: ignore[typeddict-unknown-key]

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.since_us = 0
        if self.cycle is not None:
            super().on_message_complete()

    # -- out --------------------------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        self.refuse(Trouble(Refusal("malformed", f"this is no HTTP/1.1 request: {msg}", "send one as RFC 9112 says")))

    def refuse(self, trouble: Trouble) -> None:
        """Say why, then close. In the middle of an answer it cannot be said any more."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started:
                self.transport.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write(whole(trouble, self._door.gate.fixed_headers))
        self.transport.close()

    def _turn_away(self) -> None:
        if self._refusal is not None and not self._told:
            self.refuse(Trouble(self._refusal))
        self.transport.close()

    def look_after(self, at_us: int) -> None:
        """Called now and then: nobody's slowness may hold a place for ever. While it is this side that does not read,
        the other is not slow."""
        if self.lost() or self._refusal is not None:
            return
        if self.since_us and self.flow.read_paused:
            self.since_us = at_us
        wanted_s = self._door.settings.request_timeout_s
        if self.since_us and (at_us - self.since_us) / 1e6 > wanted_s:
            why = f"the request did not come whole within {wanted_s:g} s (http.request_timeout_s)"
            self.refuse(Trouble(Refusal("too_slow", why, "send it at once, or connect when there is one")))
            return
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._unsent, self._stuck_us = unsent, at_us
        elif (at_us - self._stuck_us) / 1e6 > wanted_s or unsent > self._door.limits.max_unsent_bytes:
            self._door.log.warn("a client does not read", door="http", address=self.address)
            self.transport.abort()


def whole(trouble: Trouble, fixed: list[tuple[bytes, bytes]]) -> bytes:
    """A complete answer, for where no request was read that could be answered."""
    body = trouble.body()
    lines = [STATUS_LINE[trouble.status]]
    headers = [*fixed, *trouble.headers, (b"content-type", MEDIA.encode()), (b"content-length", b"%d" % len(body))]
    lines += [b"%b: %b\r\n" % header for header in headers]
    return b"".join([*lines, b"connection: close\r\n\r\n", body])


def _head_too_large() -> Trouble:
    why = f"the headers have more than {MAX_HEAD_BYTES} bytes, or there are more than {MAX_HEADERS}"
    return Trouble(Refusal("headers_too_large", why, "send fewer"))


class ToOurLog(logging.Handler):
    """What uvicorn has to say goes where all else is said."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        said = {"why": repr(error)} if error is not None else {}
        if record.levelno >= logging.ERROR:
            self._log.error(record.getMessage().strip(), door="http", **said)
        else:
            self._log.debug(record.getMessage().strip(), door="http", **said)
