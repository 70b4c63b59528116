"""Who may go next, and how fast: so that nobody is sent away for being fast, and nobody waits because another is.

Everyday analogy: a counter with a few clerks. Whoever has no clerk yet goes before whoever has one, and nobody has more
clerks than are left free. So one that comes with a hundred parcels gets half of the clerks when it is alone, and the
next that comes with a single one does not wait for the hundred.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

MICROSECONDS = 1_000_000


class Turns:
    """``most``: so many at once, of all identities together."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, identity: str) -> AsyncIterator[None]:
        await self._take(identity)
        try:
            yield
        finally:
            self._give_back(identity)

    def held(self, identity: str) -> int:
        return self._held.get(identity, 0)

    async def _take(self, identity: str) -> None:
        if identity not in self._waiting and self._may(identity):
            self._grant(identity)
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(identity, deque()).append(told)
        try:
            await told
        except asyncio.CancelledError:
            if told.done() and not told.cancelled():
                self._give_back(identity)
            else:
                self._forget(identity, told)
            raise

    def _may(self, identity: str) -> bool:
        return self.held(identity) < self._free

    def _grant(self, identity: str) -> None:
        self._held[identity] = self.held(identity) + 1
        self._free -= 1

    def _give_back(self, identity: str) -> None:
        self._held[identity] -= 1
        if not self._held[identity]:
            del self._held[identity]
        self._free += 1
        while self._waiting:
            first = min(self._waiting, key=self.held)
            if not self._may(first):
                return
            queue = self._waiting.pop(first)
            told = queue.popleft()
            if queue:
                self._waiting[first] = queue  # behind the others that have as many
            if not told.done():  # else it has just given up
                self._grant(first)
                told.set_result(None)

    def _forget(self, identity: str, told: asyncio.Future[None]) -> None:
        queue = self._waiting.get(identity)
        if queue is not None and told in queue:
            queue.remove(told)
            if not queue:
                del self._waiting[identity]


class Pace:
    """So many bytes a second for each identity, in the long run; 0: no limit. Each pays when it is its turn, and the
    next waits until that is over: what waits is never more than one piece of each transfer."""

    def __init__(self, bytes_per_s: int, clock_us: Callable[[], int]) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock_us = clock_us
        self._free_us: dict[str, int] = {}
        """When what each has paid for will be over. Of those that are over nothing has to be known."""

    async def pay(self, identity: str, size_bytes: int) -> None:
        if self._bytes_per_s:
            wait_us = self.owes_us(identity, size_bytes)
            if wait_us > 0:
                await asyncio.sleep(wait_us / MICROSECONDS)

    def owes_us(self, identity: str, size_bytes: int) -> int:
        """Count these bytes, and say how long to wait before they are moved."""
        now_us = self._clock_us()
        begin_us = max(now_us, self._free_us.pop(identity, 0))
        self._free_us[identity] = begin_us + size_bytes * MICROSECONDS // self._bytes_per_s
        while len(self._free_us) > 1 and next(iter(self._free_us.values())) <= now_us:
            del self._free_us[next(iter(self._free_us))]
        return begin_us - now_us
