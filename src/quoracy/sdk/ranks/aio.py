"""``quoracy.ranks_async``: the loop of ``quoracy.ranks`` for scripts that await.

    async with quoracy.ranks_async("etcd://a:2379,b:2379", run="bert", rank=3) as ranks:
        async for it in ranks.iterations():
            gradients = await compute(it)
            if await it.vote():
                optimizer.step()

The same logic, in a thread of its own. A call that is cancelled stops waiting, nothing else: an arrival stays an
arrival, and the next ``vote`` goes on with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from quoracy.core.ranks.state import Decision
from quoracy.sdk.client.errors import WorkerError, reason_of
from quoracy.sdk.ranks.api import Ranks
from quoracy.sdk.ranks.iteration import Iteration

T = TypeVar("T")


class AsyncIteration:
    """See ``Iteration``."""

    def __init__(self, ranks: AsyncRanks, blocking: Iteration) -> None:
        self._ranks = ranks
        self.blocking = blocking
        self.number = blocking.number
        self.attempt = blocking.attempt
        self.members = blocking.members
        self.index = blocking.index
        self.joined = blocking.joined
        self.donors = blocking.donors
        self.token = blocking.token
        self.addresses = blocking.addresses
        self.learner = blocking.learner
        self.group = blocking.group

    @property
    def before(self) -> Decision | None:
        return self.blocking.before

    async def vote(self, ok: bool = True) -> bool:
        return await self._ranks.call(lambda: self.blocking.vote(ok))

    async def ready(self) -> None:
        await self._ranks.call(self.blocking.ready)

    async def once(self, name: str, make: Callable[[], bytes]) -> bytes:
        """``make`` is called in another thread."""
        return await self._ranks.call(lambda: self.blocking.once(name, make))

    async def check(self) -> None:
        await self._ranks.call(self.blocking.check)

    async def missing(self) -> list[int]:
        return await self._ranks.call(self.blocking.missing)


class AsyncRanks:
    """Made by ``quoracy.ranks_async``."""

    def __init__(self, blocking: Ranks) -> None:
        self.blocking = blocking
        self.run = blocking.run
        self.rank = blocking.rank
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"quoracy-rank-{blocking.rank}")

    @property
    def ended(self) -> WorkerError | None:
        return self.blocking.ended

    @property
    def draining(self) -> bool:
        return self.blocking.draining

    def drain(self) -> None:
        self.blocking.drain()

    async def __aenter__(self) -> AsyncRanks:
        """Signals belong to the main thread, so their handler is set here."""
        self.blocking.prepare()
        try:
            await self.call(self.blocking.open)
        except BaseException:
            await self._close("it did not begin")
            raise
        return self

    async def __aexit__(
        self, _sort: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._close(reason_of(error))

    async def _close(self, reason: str) -> None:
        try:
            await asyncio.shield(self._submit(lambda: self.blocking.part_ways(reason)))
        finally:
            self.blocking.unprepare()
            self._thread.shutdown()

    async def iterations(self) -> AsyncIterator[AsyncIteration]:
        blocking = await self.call(self.blocking.begin)
        while blocking is not None:
            yield AsyncIteration(self, blocking)
            current = blocking
            blocking = await self.call(lambda current=current: self.blocking.advance(current))  # type: ignore[misc]

    async def call(self, what: Callable[[], T]) -> T:
        """In the rank's own thread. Cancelled, it waits only until that thread has stopped waiting."""
        running = self._submit(what)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.blocking.stop_waiting(True)
            await asyncio.wait([running])
            self.blocking.stop_waiting(False)
            running.exception()  # what ended it, if anything, is raised again by the next call
            raise

    def _submit(self, what: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, what)


def ranks_async(store: str, run: str, rank: int, **settings: Any) -> AsyncRanks:
    """As ``quoracy.ranks``, to be entered with ``async with``."""
    return AsyncRanks(Ranks(store, run, rank, **settings))
