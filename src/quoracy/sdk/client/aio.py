"""A driver for scripts that await, in one event loop; and whole participations beside a loop.

The loop reads whenever it can. A call that is cancelled stops waiting, nothing else: an arrival stays an arrival, and
the next ``barrier`` at the same step goes on with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from quoracy.sdk.client.connection import Connection
from quoracy.sdk.client.driver import C, Driver
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.operation import Operation
from quoracy.sdk.client.session import Session
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.vitals import Vitals

T = TypeVar("T")


class AsyncDriver(Driver[C]):
    def __init__(
        self,
        settings: Settings,
        session: type[Session],
        client: Callable[[Settings, Any, Connection, Memory, Vitals], C],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()
        self._reads = self._writes = -1
        super().__init__(settings, session, client)
        for fd in (self._bell_read, self._dialer.wake):
            self._loop.add_reader(fd, self._on_event)

    async def _run(self, operation: Operation[T]) -> T:
        self._check_process()
        self._on_event()
        try:
            while True:
                until = next(operation)
                version = self._client.version
                self._step()
                await self._wait(version, until)
        except StopIteration as stop:
            result: T = stop.value
            self._step()
            return result
        finally:
            operation.close()
            if not self._closed:
                self._deliver()

    async def _wait(self, version: int, until: float | None) -> None:
        while self._client.version == version and not self._released:
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            happened = self._loop.create_future()
            self._waiting.add(happened)
            timer = self._loop.call_later(self._wait_s(until), _resolve, happened)
            try:
                await happened
            finally:
                timer.cancel()
                self._waiting.discard(happened)
            if not self._released:
                self._step()

    def _refresh(self) -> None:
        """A script that does not let the loop read still gets the newest."""
        self._check_process()
        self._on_event()

    def _glance(self) -> None:
        self._on_event()

    def _on_event(self) -> None:
        """A socket can be read or written, or somebody rang."""
        if self._released:
            return
        version = self._client.version
        if self._rang():
            self._client.version += 1
        self._read()
        self._step()
        if self._client.version != version:
            for happened in self._waiting:
                _resolve(happened)

    def _step(self) -> None:
        if self._released:
            return
        self._progress()
        fd = -1 if self._sock is None else self._sock.fileno()
        if self._unsent and self._writes != fd:
            self._loop.add_writer(fd, self._on_event)
            self._writes = fd
        elif not self._unsent and self._writes >= 0:
            self._loop.remove_writer(self._writes)
            self._writes = -1

    def _connected(self) -> None:
        if self._sock is not None:
            self._reads = self._sock.fileno()
            self._loop.add_reader(self._reads, self._on_event)

    def _disconnecting(self) -> None:
        if self._reads >= 0:
            self._loop.remove_reader(self._reads)
        if self._writes >= 0:
            self._loop.remove_writer(self._writes)
        self._reads = self._writes = -1

    def _end(self) -> None:
        if not self._released:
            for fd in (self._bell_read, self._dialer.wake):
                self._loop.remove_reader(fd)
            self._release()
        for happened in self._waiting:
            _resolve(happened)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class TakesPart(Protocol):
    """A participant, or a member of a witnessed run."""

    def take_part(self) -> Any: ...

    def drain(self) -> None: ...


async def take_part_async(prepare: Callable[..., TakesPart], *given: Any, **options: Any) -> Any:
    """Until the run is over. Fetching, training and storing block, so they have a thread of their own. Cancelled, it
    leaves as after SIGTERM: what is under way has ``drain_s`` to end. ``prepare``: makes it, with these arguments."""
    member = await asyncio.to_thread(prepare, *given, **{"handle_sigterm": False} | options)
    under_way = asyncio.ensure_future(asyncio.to_thread(member.take_part))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        member.drain()
        await asyncio.wait((under_way,))
        raise
