"""A coordinator, put together from its parts: a store, a server, a service, a door.

``open_coordinator`` is what `quorate serve` runs. ``Coordinator`` is the same inside a Python program, on a thread of
its own:

    with Coordinator(folder="quorate-data") as coordinator:
        coordinator.create("demo", barrier_min=8)
        print(coordinator.url)
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import uvloop

from quorate.config import ServerConfig, check_binding, load_config
from quorate.core.errors import Refusal, Refused
from quorate.doors.auth import ANYONE, Authority, server_context
from quorate.doors.service import Service
from quorate.doors.tcp import TcpDoor
from quorate.hosts.log import Log
from quorate.hosts.server import Server
from quorate.ports import Journal
from quorate.stores import MemoryJournal, SqliteJournal
from quorate.wire.messages import Replied

T = TypeVar("T")


class Running:
    """A coordinator that listens."""

    def __init__(self, server: Server, service: Service, door: TcpDoor, url: str, drain_s: float) -> None:
        self.server = server
        self.service = service
        self.door = door
        self.url = url
        self._drain_s = drain_s

    async def ask(self, what: str, run: str = "", **arguments: Any) -> Any:
        """As somebody who may do everything. Raises Refused."""
        replied: Replied = await self.service.ask(ANYONE, 0, what, run, arguments)
        if replied.refusal is not None:
            raise Refused(replied.refusal)
        return replied.value

    async def drain(self) -> None:
        """Take no new members, finish what is under way, tell everybody, and go."""
        self.service.draining = True
        self.door.hush()
        refusal = Refusal("draining", "this server stops", "connect again in a while; nothing is lost")
        try:
            await asyncio.wait_for(self.server.settle(), self._drain_s)
        except TimeoutError:
            why = f"what is under way is not written within {self._drain_s:g} s (host.drain_s)"
            self.server.log.warn("drained in part", why=why)
        await self.door.close(refusal)
        await self.server.close()


@asynccontextmanager
async def open_coordinator(config: ServerConfig, log: Log | None = None) -> AsyncIterator[Running]:
    listen, tls_on = config.listen, config.tls_on()
    check_binding(listen.host, tls_on, config.tokens_required(), config.access.insecure)
    folder = Path(config.store.folder)
    journal: Journal = MemoryJournal() if config.store.kind == "memory" else SqliteJournal(folder)
    authority = Authority.open(folder)
    log = log or Log(config.log.level, config.log.format)
    name = f"{socket.gethostname()}-{os.getpid()}"
    server = Server(journal, name, "", inline=config.store.kind == "memory", limits=config.host.limits(), log=log)
    service = Service(server, authority, config.tokens_required(), config.runs)
    door = TcpDoor(service, config.limits)
    context = server_context(Path(config.tls.cert), Path(config.tls.key)) if tls_on else None
    try:
        host, port = await door.open(listen.host, listen.port, context)
        scheme = "tcps" if tls_on else "tcp"
        url = listen.advertise or f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        server.address = url
        await server.start()
        await door.listen()
        running = Running(server, service, door, url, config.host.drain_s)
        yield running
        await running.drain()
    finally:
        door.hush()
        await server.close()
        journal.close()


class Coordinator:
    """A coordinator on a thread of this process. Settings as in the configuration file, by keyword."""

    def __init__(self, folder: str | Path = "quorate-data", port: int = 0, store: str = "sqlite", **overrides: Any):
        settings = {"store": {"folder": str(folder), "kind": store}, "listen": {"port": port}} | overrides
        settings.setdefault("log", {"level": "warn"})
        self._config = load_config(None, settings, {})
        self._loop = uvloop.new_event_loop()
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._running: Running | None = None
        self._thread = threading.Thread(target=self._run, name="quorate-coordinator", daemon=True)

    def __enter__(self) -> Coordinator:
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return self._open().url

    def create(self, run: str, kind: str = "cluster", **config: Any) -> dict[str, Any]:
        shown: dict[str, Any] = self._wait(self._open().ask("create", run, kind=kind, config=config))
        return shown

    def show(self, run: str) -> dict[str, Any]:
        shown: dict[str, Any] = self._wait(self._open().ask("show", run))
        return shown

    def explain(self, run: str) -> str:
        return str(self.show(run)["explanation"]["sentence"])

    def ask(self, what: str, run: str = "", **arguments: Any) -> Any:
        return self._wait(self._open().ask(what, run, **arguments))

    def _open(self) -> Running:
        if self._running is None:
            raise Refused(Refusal("not_serving", "the coordinator is not running", "use it inside its with block"))
        return self._running

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._running = None
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        async with open_coordinator(self._config) as self._running:
            self._started.set()
            await self._stopping.wait()


def plain(config: ServerConfig) -> dict[str, Any]:
    """The settings as plain values, to be shown or passed on."""
    shown: dict[str, Any] = msgspec.to_builtins(config)
    return shown
