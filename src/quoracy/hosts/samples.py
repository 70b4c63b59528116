"""The samples of runs whose data is behind the coordinator's door, as the server reads them.

Reading and packing are done on a few threads of their own, never on the event loop. A source is opened when it is
needed first, and the few that were used last stay open: two runs over the same file share it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from quoracy.core.errors import ConfigError, Refusal, Refused
from quoracy.core.witnessed.config import Config

if TYPE_CHECKING:  # brings NumPy, for which a coordinator without such runs would wait at every start
    from quoracy.learn.witnessed.trainer import Source

T = TypeVar("T")
THREADS: Final = 2
KEPT: Final = 4
"""Sources that stay open."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""Of one answer, which is made in memory."""

Place = tuple[str, int, int]
"""Where, the seed, and how many samples make a batch."""


class Samples:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._sources: OrderedDict[Place, Source] = OrderedDict()
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    async def check(self, config: Config) -> None:
        """Raises ConfigError if the samples of such a run cannot be read here."""
        if config.data.kind == "door":
            await self._do(lambda: self._open(config))

    async def batches(self, config: Config, first: int, end: int) -> bytes:
        """The samples of these batches in their order, as a safetensors file. Raises Refused."""

        def read() -> bytes:
            from quoracy.learn.witnessed.source import packed

            source = self._open(config)
            self._check_size(source, first, end)
            return packed(source, range(first, end))

        return await self._refusing(read)

    async def held_out(self, config: Config) -> bytes | None:
        """What is not trained on; None if there is nothing such. Raises Refused."""

        def read() -> bytes | None:
            from quoracy.learn.witnessed.source import packed_held_out

            return packed_held_out(self._open(config))

        return await self._refusing(read)

    def _open(self, config: Config) -> Source:
        """One thread at a time: others may wait for the same."""
        from quoracy.learn.witnessed.source import open_source

        place = (config.data.location, config.seed, config.batch_size)
        with self._lock:
            source = self._sources.pop(place, None)
            if source is None:
                source = open_source("local", place[0], seed=place[1], batch_size=place[2])
            if source is None:
                raise ConfigError("data.location", place[0], "a file or a set that the coordinator can read")
            self._sources[place] = source
            while len(self._sources) > KEPT:
                self._sources.popitem(last=False)
            return source

    def _check_size(self, source: Source, first: int, end: int) -> None:
        one_bytes = sum(array.nbytes for array in source.samples([first]).values())
        size_bytes = one_bytes * (end - first)
        if size_bytes > self._max_bytes:
            why = f"batches {first} to {end - 1} have {size_bytes} bytes; at most {self._max_bytes} are sent at once"
            most = max(1, self._max_bytes // max(1, one_bytes))
            raise Refused(Refusal("too_large", why, f"ask for at most {most} batches at once"))

    async def _refusing(self, work: Callable[[], T]) -> T:
        try:
            return await self._do(work)
        except ConfigError as error:
            why = f"the coordinator cannot read the samples: {error.field} = {error.value!r}"
            raise Refused(Refusal("config", why, error.fix)) from None

    async def _do(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, "quoracy-samples")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def close(self) -> None:
        """What is under way is finished."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)
        self._sources.clear()
