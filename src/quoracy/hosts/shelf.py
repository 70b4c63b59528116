"""The object store as the server itself uses it: for those who get and put weights through a door.

Whatever may block is done on a few threads, never on the event loop. The store is opened when it is needed first: most
servers have no federated run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from quoracy.objects import open_objects
from quoracy.ports import Objects

T = TypeVar("T")
THREADS: Final = 16


class Shelf:
    def __init__(self, url: str) -> None:
        self.url = url
        self._objects: Objects | None = None
        self._opening = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    async def do(self, work: Callable[[Objects], T]) -> T:
        """Raises what the store raises. Whoever is cancelled meanwhile goes when the work is done: until then a thread
        may use what it was given."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "quoracy-weights")
        doing = asyncio.get_running_loop().run_in_executor(self._pool, lambda: work(self._open()))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait((doing,))
            raise

    def _open(self) -> Objects:
        with self._opening:
            if self._objects is None:
                self._objects = open_objects(self.url)
            return self._objects

    async def close(self) -> None:
        """What is under way is finished."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)
        objects, self._objects = self._objects, None
        if objects is not None:
            objects.close()
