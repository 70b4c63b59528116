"""The worker of a training script that awaits: the same calls as ``Worker``, for one event loop."""

from __future__ import annotations

import os
from collections.abc import Generator
from types import TracebackType

from quoracy.core.cluster.views import Passage
from quoracy.sdk.client.aio import AsyncDriver
from quoracy.sdk.client.errors import Closed, WorkerError, reason_of
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.cluster.client import WorkerClient
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.sdk.cluster.worker import BaseWorker, OnOrder


class AsyncWorker(AsyncDriver[WorkerClient], BaseWorker):
    """Made by ``quoracy.connect_async``."""

    def __init__(self, settings: Settings, *, auto: bool, on_order: OnOrder | None) -> None:
        super().__init__(settings, WorkerSession, WorkerClient)
        self._prepare(auto, on_order)

    # -- barriers and states ----------------------------------------------------------------------------------------

    async def barrier(self, name: str, step: int, timeout_s: float | None = None) -> Passage:
        """See ``Worker.barrier``."""
        return await self._run(self._operations.barrier(name, step, timeout_s))

    async def next_step(self, barrier: str) -> int:
        return await self._run(self._operations.next_step(barrier))

    async def ready(self) -> None:
        await self._run(self._operations.ready())

    async def recovered(self) -> None:
        await self._run(self._operations.recovered())

    async def loading(self) -> None:
        await self._run(self._operations.state("loading"))

    async def training(self) -> None:
        await self._run(self._operations.state("training"))

    async def checkpointing(self) -> None:
        await self._run(self._operations.state("checkpointing"))

    async def idle(self) -> None:
        await self._run(self._operations.state("idle"))

    # -- coming and going -------------------------------------------------------------------------------------------

    async def begin(self, handle_sigterm: bool | None) -> None:
        """What ``connect_async`` awaits."""
        try:
            self._drain.install(handle_sigterm)
            await self._run(self._operations.begin())
        except BaseException as error:
            await self.close(reason_of(error))
            raise

    async def leave(self, reason: str = "done") -> None:
        await self._run(self._operations.leave(reason, Closed(f"{self.member} has left: {reason}")))

    async def close(self, reason: str = "done") -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        try:
            await self.leave(reason)
        except WorkerError:
            pass
        finally:
            self._end()

    async def __aenter__(self) -> AsyncWorker:
        return self

    async def __aexit__(
        self, _sort: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close(reason_of(error))


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
