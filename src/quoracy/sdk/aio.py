"""The worker of a training script that awaits: the same calls as ``Worker``, for one event loop.

A call that is cancelled stops waiting, nothing else: an arrival stays an arrival, and the next ``barrier`` at the same
step goes on with it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from types import TracebackType
from typing import TypeVar

from quoracy.core.cluster.views import Passage
from quoracy.sdk.base import BaseWorker, OnOrder
from quoracy.sdk.companion import CHUNK, WATCH_S
from quoracy.sdk.errors import Closed, WorkerError, reason_of
from quoracy.sdk.flowing import Flow
from quoracy.sdk.settings import Settings

T = TypeVar("T")


class AsyncWorker(BaseWorker):
    """Made by ``quoracy.connect_async``."""

    def __init__(self, settings: Settings, *, auto: bool, on_order: OnOrder | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()
        super().__init__(settings, auto=auto, on_order=on_order)
        self._loop.add_reader(self._bell_read, self._on_bell)
        self._listen()

    # -- barriers and states ----------------------------------------------------------------------------------------

    async def barrier(self, name: str, step: int, timeout_s: float | None = None) -> Passage:
        """See ``Worker.barrier``."""
        return await self._run(self._flows.barrier(name, step, timeout_s))

    async def next_step(self, barrier: str) -> int:
        return await self._run(self._flows.next_step(barrier))

    async def ready(self) -> None:
        await self._run(self._flows.ready())

    async def recovered(self) -> None:
        await self._run(self._flows.recovered())

    async def loading(self) -> None:
        await self._run(self._flows.state("loading"))

    async def training(self) -> None:
        await self._run(self._flows.state("training"))

    async def checkpointing(self) -> None:
        await self._run(self._flows.state("checkpointing"))

    async def idle(self) -> None:
        await self._run(self._flows.state("idle"))

    # -- coming and going -------------------------------------------------------------------------------------------

    async def begin(self, handle_sigterm: bool | None) -> None:
        """What ``connect_async`` awaits."""
        try:
            self._drain.install(handle_sigterm)
            await self._run(self._flows.begin())
        except BaseException as error:
            await self.close(reason_of(error))
            raise

    async def leave(self, reason: str = "done") -> None:
        await self._run(self._flows.leave(reason, Closed(f"{self.member} has left: {reason}")))

    async def close(self, reason: str = "done") -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        try:
            await self.leave(reason)
        except WorkerError:
            pass
        finally:
            self._deafen()
            self._loop.remove_reader(self._bell_read)
            self._mirror.bye()
            self._flush(self._child)
            await asyncio.shield(asyncio.to_thread(self._child.wait, self._mirror.settings.patience.leave_s))
            self._release()
            self._wake()

    async def __aenter__(self) -> AsyncWorker:
        return self

    async def __aexit__(
        self, _sort: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close(reason_of(error))

    # -- waiting ----------------------------------------------------------------------------------------------------

    async def _run(self, flow: Flow[T]) -> T:
        self._check_process()
        self._refresh()
        try:
            while True:
                until = next(flow)
                self._flush(self._child)
                await self._wait(self._mirror.version, until)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            flow.close()
            if not self._closed:
                self._deliver()

    async def _wait(self, version: int, until: float | None) -> None:
        while self._mirror.version == version and not self._released:
            left_s = WATCH_S if until is None else min(WATCH_S, until - self._loop.time())
            if left_s <= 0:
                return
            news = self._loop.create_future()
            self._waiting.add(news)
            timer = self._loop.call_later(left_s, _resolve, news)
            try:
                await news
            finally:
                timer.cancel()
                self._waiting.discard(news)
            if self._mirror.version == version and left_s >= WATCH_S and self._sidecar_stands_still():
                self._swap("it stands still")

    def _refresh(self) -> None:
        """The loop reads whenever it can; a script that does not let it still gets the newest."""
        self._check_process()
        if not self._released and self._child.sock.fileno() >= 0:
            self._on_readable()

    def _glance(self) -> None:
        """The loop looks by itself."""

    def _listen(self) -> None:
        self._child.sock.setblocking(False)
        self._loop.add_reader(self._child.sock.fileno(), self._on_readable)

    def _deafen(self) -> None:
        if self._child.sock.fileno() >= 0:
            self._loop.remove_reader(self._child.sock.fileno())

    def _on_readable(self) -> None:
        try:
            chunk = self._child.sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if chunk:
            self._still = 0
            self._mirror.feed(chunk)
        else:
            self._swap("it is gone")
        self._wake()

    def _on_bell(self) -> None:
        self._rang()
        self._mirror.version += 1
        self._wake()

    def _swap(self, why: str) -> None:
        self._deafen()
        self._replace_child(why)
        if self._child.sock.fileno() >= 0:
            self._listen()

    def _wake(self) -> None:
        for news in self._waiting:
            _resolve(news)


class Connecting:
    """What ``connect_async`` returns: to be awaited, or entered with ``async with``."""

    def __init__(
        self, settings: Settings, *, auto: bool, handle_sigterm: bool | None, on_order: OnOrder | None
    ) -> None:
        self._settings = settings
        self._auto = auto
        self._handle_sigterm = handle_sigterm
        self._on_order = on_order
        self._worker: AsyncWorker | None = None

    def __await__(self) -> Generator[None, None, AsyncWorker]:
        return self._begin().__await__()

    async def __aenter__(self) -> AsyncWorker:
        return await self._begin()

    async def __aexit__(
        self, _sort: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            await self._worker.close(reason_of(error))

    async def _begin(self) -> AsyncWorker:
        worker = AsyncWorker(self._settings, auto=self._auto, on_order=self._on_order)
        await worker.begin(self._handle_sigterm)
        self._worker = worker
        return worker


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
