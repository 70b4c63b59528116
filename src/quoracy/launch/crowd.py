"""Many participants in one process: for experiments and measurements, where a process for each would be too many.

The same session as ``quoracy.participate``, driven by asyncio: each participant has its own connection, its own life
and its own place in the rounds. They take turns at training, in one thread, so a round of n participants takes n
trainings. Their heartbeats come from this process too: one whose training holds the GIL for longer than the time-out is
given up.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final, cast

import msgspec

from quoracy.core.errors import Refusal
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.connection import Connection
from quoracy.sdk.client.driver import log
from quoracy.sdk.client.session import Note
from quoracy.sdk.federated.session import Offer, ParticipantSession, Work

RETRY_US: Final = 1_000_000
EXPECTED: Final = frozenset({"run_closed", "member_gone"})
"""Ends that need no word: the run is over, or it was asked to leave."""
LEAST_S: Final = 0.001
"""Between two looks at the clock: timers of one participant must not starve another."""

Serve = Callable[[str, Work], Offer]
"""Do this work for this participant: fetch, train, upload. On the training thread."""


class Fate(msgspec.Struct):
    """What became of a participant."""

    admitted: int = 0
    refused: list[str] = []
    dropped: int = 0
    ended: Refusal | None = None


class Crowd:
    """``members``: by id, what the join says of them, such as ``{"initial": True}``."""

    def __init__(
        self,
        addresses: list[Address],
        run: str,
        members: Mapping[str, dict[str, Any]],
        serve: Serve,
        token: str = "",
        together: int = 64,
    ) -> None:
        """``together``: so many dial at the same time, for the sake of whoever has to answer."""
        self.dialing = asyncio.Semaphore(together)
        self.fates = {member: Fate() for member in members}
        self._serve = serve
        self._training: Executor = ThreadPoolExecutor(1, "quoracy-training")
        self._seats = [_Seat(self, addresses, run, member, about, token) for member, about in members.items()]

    async def run(self) -> dict[str, Fate]:
        """Until all of them have ended: the run is over, or does not want them any more."""
        try:
            await asyncio.gather(*(seat.run() for seat in self._seats))
        finally:
            self._training.shutdown(wait=False, cancel_futures=True)
        return self.fates

    def stop(self) -> None:
        """End without a word, as if killed."""
        for seat in self._seats:
            seat.vanish()

    async def work(self, member: str, work: Work) -> Offer:
        return await asyncio.get_running_loop().run_in_executor(self._training, self._serve, member, work)


class _Seat(asyncio.Protocol):
    """One participant: its line, and one timer for whatever is next."""

    def __init__(
        self, crowd: Crowd, addresses: list[Address], run: str, member: str, about: dict[str, Any], token: str
    ) -> None:
        self._crowd = crowd
        self._fate = crowd.fates[member]
        self._session = ParticipantSession(run, member, secrets.token_bytes(32), RETRY_US, b"", about)
        self._connection = Connection(self._session, addresses, token, None, random.SystemRandom().random, now_us())
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        self._turn()
        await self._over.wait()
        if self._timer is not None:
            self._timer.cancel()
        self._hang_up()

    def vanish(self) -> None:
        self._over.set()

    async def _dial(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with self._crowd.dialing:
                await loop.create_connection(lambda: self, address.host, address.port)
        except OSError as error:
            self._connection.failed(error.strerror or str(error), now_us())
        self._turn()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what asyncio reports ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connected(now_us())

    def data_received(self, chunk: bytes) -> None:
        self._connection.received(chunk, now_us())
        self._turn()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is not None and not self._over.is_set():
            self._transport = None
            self._connection.closed(str(error or "it closed the connection"), now_us())
            self._turn()

    # -- what follows -----------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self._over.is_set():
            return
        connection, notes = self._connection, self._session.notes
        connection.tick(now_us())
        while notes:
            self._hear(notes.popleft())
        if connection.over is not None:
            self._ended(connection.over)
        if connection.close_wanted:
            connection.close_wanted = False
            self._hang_up()
        if (out := connection.take_out()) and self._transport is not None:
            self._transport.write(out)
        if (address := connection.connect_to(now_us())) is not None:
            self._start(self._dial(address))
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_us = self._connection.wake_us()
        if wake_us is not None:
            delay_s = max(LEAST_S, (wake_us - now_us()) / 1e6)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._turn)

    def _hang_up(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _hear(self, note: Note) -> None:
        match note.what:
            case "train":
                self._start(self._train(note.value))
            case "verdict":
                if note.value.admitted:
                    self._fate.admitted += note.value.round >= 0  # weights to begin with are no update
                else:
                    self._fate.refused.append(note.value.why)
            case "drop":
                self._fate.dropped += 1
            case "moved":
                self._connection.moved(note.value, now_us())
            case "ended":
                self._ended(note.value)

    def _ended(self, why: Refusal) -> None:
        if self._over.is_set():
            return
        if why.code not in EXPECTED:
            log.warning("%s is out: %s [%s]", self._session.member, why.why, why.code)
        self._fate.ended = why
        self._over.set()

    async def _train(self, work: Work) -> None:
        """One whose training fails leaves, and says why: the round must not wait for it."""
        try:
            offer = await self._crowd.work(self._session.member, work)
        except Exception as error:
            log.warning("%s: its training failed: %s", self._session.member, error)
            self._session.leave(f"its training failed: {error}"[:256])
            self._turn()
            return
        if not self._over.is_set():
            if not self._session.offer(offer):
                self._fate.dropped += 1
            self._turn()


def now_us() -> int:
    return time.monotonic_ns() // 1000
