"""The body of one request, straight from its connection into memory that is used again and again.

It takes the place of the parser for as long as the body is coming, and takes exactly the body: what follows it stays in
the socket, for the parser that comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from quoracy.hosts.server import now_us

if TYPE_CHECKING:
    from quoracy.doors.http.line import Line

PIECE_BYTES: Final = 1024 * 1024
"""What is gathered before it is written."""


class Intake(asyncio.BufferedProtocol):
    def __init__(
        self,
        line: Line,
        cycle: RequestResponseCycle,
        length: int,
        room: Callable[[], memoryview],
        rest: bytes | memoryview = b"",
    ) -> None:
        """``length``: of the whole body, of which the parser has given some to the cycle. ``room``: memory. ``rest``:
        what came behind that, and has not passed through the parser."""
        self._line = line
        self._cycle = cycle
        self._filling, self._spare = room(), room()
        parsed = len(cycle.body)
        self._filled = parsed + len(rest)
        self._filling[:parsed] = cycle.body
        self._filling[parsed : self._filled] = rest
        cycle.body = bytearray()
        self.left = length - self._filled
        self._over = False
        self._wake = asyncio.Event()

    async def next(self) -> memoryview:
        """The next piece; good until the one after it is asked for. Empty: there are no more, or the connection has
        ended, which ``left`` tells."""
        while self._more() and self._filled < len(self._filling):
            self._wake.clear()
            await self._wake.wait()
        piece = self._filling[: self._filled]
        self._filling, self._spare, self._filled = self._spare, self._filling, 0
        if self._more():
            self._line.flow.resume_reading()
        return piece

    def _more(self) -> bool:
        return self.left > 0 and not self._over

    def hand_back(self) -> list[memoryview]:
        """The connection belongs to its parser again; one whose body did not come whole is of no use any more. Returns
        the memory."""
        if self.left:
            self._line.transport.abort()
        elif not self._over:
            self._cycle.more_body = False
            self._line.take_back()
        return [self._filling, self._spare]

    # -- what the transport calls -------------------------------------------------------------------------------------

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._filling[self._filled : self._filled + self.left]

    def buffer_updated(self, count: int) -> None:
        self._filled += count
        self.left -= count
        self._line.since_us = now_us()
        if not self.left or self._filled == len(self._filling):
            self._line.flow.pause_reading()
            self._wake.set()

    def eof_received(self) -> None:
        self._line.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._over = True
        self._wake.set()
        self._line.connection_lost(error)

    def pause_writing(self) -> None:
        self._line.pause_writing()

    def resume_writing(self) -> None:
        self._line.resume_writing()
