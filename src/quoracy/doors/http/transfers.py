"""Large bodies, in and out, with as few copies as the system allows.

What comes in is read from the socket into two rooms of memory, past the parser: while one is written to disk the other
fills, and when both are full nothing is read, which slows the sender down. What goes out is sent by the kernel itself,
from the file to the socket, on a thread, so that the event loop never waits for a disk. Through TLS, or out of a store
that is no folder, it goes through memory, a piece at a time.

Everybody gets a turn (see ``turns``): whoever is faster than the others, or brings more at once, is slowed down, and
nobody is sent away for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeVar

from starlette.types import Send

from quoracy.core.errors import ObjectMissing, Refusal, Refused
from quoracy.doors.http.intake import PIECE_BYTES, Intake
from quoracy.doors.http.line import Line
from quoracy.doors.http.reading import Asked
from quoracy.doors.http.turns import Pace, Turns
from quoracy.hosts.server import now_us
from quoracy.hosts.shelf import THREADS, Shelf
from quoracy.objects.walk import Reading
from quoracy.ports import Objects

T = TypeVar("T")
Keep = Callable[[bytes | memoryview], Awaitable[None]]
Opened = Callable[[Objects], Iterator[bytes]]
SENT_BYTES: Final = 256 * 1024
"""What is handed to a connection at once: far below what may wait for a slow reader."""
WINDOW_BYTES: Final = 4 * 1024 * 1024
"""What the kernel is asked to send in one turn."""
MAX_AT_ONCE: Final = 128
"""Transfers; the next wait for their turn. Each that comes in holds two pieces."""
KEPT_ROOMS: Final = 32
"""Rooms that are used again, since new memory has to be found page for page."""
YIELDS: Final = 8
"""Turns of the loop for the head of an answer to leave: one is enough unless its reader is slow."""


class Transfers:
    """Of one door."""

    def __init__(self, shelf: Callable[[], Shelf | None], bytes_per_s: int, stuck_s: float) -> None:
        """``bytes_per_s``: of one identity, each way; 0 is no limit. ``stuck_s``: whoever takes nothing for so long is
        given up."""
        self._shelf = shelf
        self._stuck_s = stuck_s
        self._turns = Turns(MAX_AT_ONCE)
        self._work = Turns(THREADS)
        self._in = Pace(bytes_per_s, now_us)
        self._out = Pace(bytes_per_s, now_us)
        self._rooms: list[memoryview] = []

    def turn(self, asked: Asked) -> AbstractAsyncContextManager[None]:
        """One of the transfers that may be under way."""
        return self._turns.turn(asked.line.counted_as)

    async def do(self, asked: Asked, work: Callable[[Objects], T]) -> T:
        """On a thread, when it is this one's turn. Raises what the store raises."""
        shelf = self._shelf()
        if shelf is None:
            raise Refused(Refusal("not_serving", "this server keeps no weights", "ask the one that does"))
        async with self._work.turn(asked.line.counted_as):
            return await shelf.do(work)

    # -- in -----------------------------------------------------------------------------------------------------------

    async def take_in(self, asked: Asked, length: int | None, keep: Keep) -> bool:
        """Give the body to ``keep``, piece for piece; each is good until that returns. ``length``: as the head says.
        False: the connection ended before the body did, and what came of it was kept."""
        line = asked.line
        line.patient = True
        try:
            intake = None if length is None else line.hand_over(length, self._room)
            if intake is None:
                return await self._received(asked, keep)
            try:
                return await self._handed(line, intake, keep)
            finally:
                self._rooms += intake.hand_back()
                del self._rooms[KEPT_ROOMS:]
        finally:
            line.patient = False

    async def _handed(self, line: Line, intake: Intake, keep: Keep) -> bool:
        """What goes wrong with a piece is raised at the end of the body: who sends does not listen before."""
        failed: Exception | None = None
        while piece := await intake.next():
            if failed is None:
                await self._in.pay(line.counted_as, len(piece))
                try:
                    await keep(piece)
                except Exception as error:
                    failed = error
        if failed is not None:
            raise failed
        return intake.left == 0

    async def _received(self, asked: Asked, keep: Keep) -> bool:
        """Through the parser: a body that is here already, or comes in chunks."""
        line, gathered = asked.line, bytearray()
        while True:
            message = await asked.receive()
            ended = message["type"] == "http.disconnect"
            chunk: bytes = message.get("body", b"")
            gathered += chunk
            line.since_us = now_us()
            await self._in.pay(line.counted_as, len(chunk))
            more = message.get("more_body", False)
            if gathered and (len(gathered) >= PIECE_BYTES or not more):
                await keep(bytes(gathered))
                gathered.clear()
            if not more:
                line.since_us = 0
                return not ended

    def _room(self) -> memoryview:
        return self._rooms.pop() if self._rooms else memoryview(bytearray(PIECE_BYTES))

    # -- out ----------------------------------------------------------------------------------------------------------

    async def send(self, asked: Asked, send: Send, opened: Opened, first: int, count: int) -> None:
        """``count`` bytes of an object from ``first`` on, as the body of the answer whose head was sent. ``opened``:
        the object from there on. Raises OSError and what the store raises."""
        to = _socket(asked.line) if await _has_left(asked.line) else -1
        try:
            pieces, sent = await self.do(asked, partial(_begin, opened=opened, to=to, first=first, count=count))
            try:
                if sent is None:
                    await self._send_pieces(asked, send, pieces, count)
                elif isinstance(pieces, Reading):
                    await self._send_file(asked, to, pieces.fileno(), first, count, sent)
            finally:
                if isinstance(pieces, Reading):
                    pieces.close()
                elif (close := getattr(pieces, "close", None)) is not None:
                    await self.do(asked, lambda _objects: close())
        finally:
            if to >= 0:
                os.close(to)

    async def _send_file(self, asked: Asked, to: int, file: int, first: int, count: int, sent: int) -> None:
        """``sent``: how much of it has been."""
        line, done, window = asked.line, sent, min(count, WINDOW_BYTES)
        while True:
            await self._out.pay(line.counted_as, sent)
            if done == count or line.lost():
                break
            if sent < window:
                await self._room_in(line, to)
            window = min(count - done, WINDOW_BYTES)
            sent = await self.do(asked, partial(_send, to=to, file=file, at=first + done, size_bytes=window))
            done += sent
        line.sent_past(asked.scope, done)

    async def _room_in(self, line: Line, to: int) -> None:
        """Until the other side has taken some of what was sent. Raises TimeoutError."""
        loop, free = asyncio.get_running_loop(), asyncio.Event()
        line.on_lost.append(free.set)
        loop.add_writer(to, free.set)
        try:
            async with asyncio.timeout(self._stuck_s):
                await free.wait()
        finally:
            loop.remove_writer(to)
            line.on_lost.remove(free.set)

    async def _send_pieces(self, asked: Asked, send: Send, pieces: Iterator[bytes], count: int) -> None:
        left = count
        while left > 0 and not asked.line.lost():
            piece = await self.do(asked, lambda _objects: next(pieces, b""))
            if not piece:
                raise ObjectMissing("the rest of it")
            piece = piece[:left]
            left -= len(piece)
            for start in range(0, len(piece), SENT_BYTES):
                part = piece[start : start + SENT_BYTES]
                await self._out.pay(asked.line.counted_as, len(part))
                await send({"type": "http.response.body", "body": part, "more_body": True})


async def _has_left(line: Line) -> bool:
    """Whether all that was written before is with the system now, so that nothing can overtake it."""
    for _ in range(YIELDS):
        if not line.transport.get_write_buffer_size():
            return True
        await asyncio.sleep(0)
    return False


def _socket(line: Line) -> int:
    """Another descriptor of the connection, if what is written to it goes out as it is; else -1."""
    if line.transport.get_extra_info("sslcontext") is not None or line.lost():
        return -1
    return os.dup(line.transport.get_extra_info("socket").fileno())


def _begin(objects: Objects, opened: Opened, to: int, first: int, count: int) -> tuple[Iterator[bytes], int | None]:
    """Open the object, and send what there is room for at once. None: it has to go through memory."""
    pieces = opened(objects)
    file = pieces.fileno() if isinstance(pieces, Reading) else -1
    if to < 0 or file < 0:
        return pieces, None
    return pieces, _send(objects, to, file, first, min(count, WINDOW_BYTES))


def _send(_objects: Objects, to: int, file: int, at: int, size_bytes: int) -> int:
    """As much of it as there is room for."""
    end, begin = at + size_bytes, at
    while at < end:
        try:
            sent = os.sendfile(to, file, at, end - at)
        except BlockingIOError:
            break
        if not sent:
            raise ObjectMissing("the rest of it")
        at += sent
    return at - begin
