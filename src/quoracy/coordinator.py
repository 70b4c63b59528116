"""A coordinator, put together from its parts: a store, a server, a service, its doors.

``open_coordinator`` is what `quoracy serve` runs. ``Coordinator`` is the same inside a Python program, on a thread of
its own:

    with Coordinator(folder="quoracy-data", all_apis=True) as coordinator:
        coordinator.create("demo", barrier_min=8)
        print(coordinator.addresses)
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
import uvloop

from quoracy.config import HostSettings, ServerConfig, Store, check_binding, load_config
from quoracy.config.load import log_levels
from quoracy.config.objects_url import parse_objects
from quoracy.core.errors import AWHILE_S, ConfigError, Refusal, Refused
from quoracy.core.kinds import KINDS
from quoracy.doors.auth import ANYONE, Authority, Meter, check_proof, server_context
from quoracy.doors.calls import Calls
from quoracy.doors.federated import FederatedCalls
from quoracy.doors.local_users import LocalUsers
from quoracy.doors.service import Service
from quoracy.doors.tcp import TcpDoor
from quoracy.doors.tokens import SECRET_BYTES
from quoracy.doors.witnessed import WitnessedCalls
from quoracy.hosts.carry import Retention
from quoracy.hosts.log import Log
from quoracy.hosts.recorder import Recorder, open_series
from quoracy.hosts.sampler import Sampler
from quoracy.hosts.server import Server
from quoracy.hosts.shelf import Shelf
from quoracy.hosts.workshop import Workshop
from quoracy.ports import Journal
from quoracy.stores import MemoryJournal, SqliteJournal
from quoracy.wire.messages import Replied

T = TypeVar("T")
GRPC_PORT: Final = 50051
HTTP_PORT: Final = 3000


class Door(Protocol):
    """Where people and programs come in."""

    def hush(self) -> None:
        """Let nobody in, and take nothing more: what is under way can end."""

    async def listen(self) -> None: ...

    async def close(self, refusal: Refusal) -> None: ...


class Running:
    """A coordinator that listens."""

    def __init__(self, server: Server, service: Service, drain_s: float) -> None:
        self.server = server
        self.service = service
        self.calls = Calls(service)
        self.federated = FederatedCalls(service)
        self.witnessed = WitnessedCalls(service)
        self.url = ""
        """Of the TCP door, which the SDK uses."""
        self.addresses: dict[str, str] = {}
        """By door, where it listens: tcp, grpc, http."""
        self.doors: list[Door] = []
        self._drain_s = drain_s

    async def ask(self, what: str, run: str = "", **arguments: Any) -> Any:
        """As somebody who may do everything. Raises Refused."""
        replied: Replied = await self.service.ask(ANYONE, 0, what, run, arguments)
        if replied.refusal is not None:
            raise Refused(replied.refusal)
        return replied.value

    def hush(self) -> None:
        self.server.hush()
        for door in self.doors:
            door.hush()

    async def give_up(self) -> None:
        """Whatever is still open after a failure: nobody is waited for."""
        doors, self.doors = self.doors, []
        refusal = Refusal("draining", "this server could not go on", "see its log")
        for door in doors:
            with suppress(Exception):
                await door.close(refusal)

    async def drain(self) -> None:
        """Take no new members, finish what is under way, tell everybody, and go."""
        self.service.draining = True
        self.hush()
        refusal = Refusal("draining", "this server stops", "connect again in a while; nothing is lost", AWHILE_S)
        try:
            await asyncio.wait_for(self.server.settle(), self._drain_s)
        except TimeoutError:
            why = f"what is under way is not written within {self._drain_s:g} s (host.drain_s)"
            self.server.log.warn("drained in part", why=why)
        for calls in (self.calls, self.federated, self.witnessed):
            calls.close(refusal)
        doors, self.doors = self.doors, []
        await asyncio.gather(*(door.close(refusal) for door in doors))
        await self.server.close()


@asynccontextmanager
async def open_coordinator(config: ServerConfig, log: Log | None = None) -> AsyncIterator[Running]:
    check_binding(config.listen.host, config.tls_on(), config.tokens_required(), config.access.insecure)
    journal, authority = await asyncio.to_thread(_open_store, config.store)
    log = log or Log(config.log.level, config.log.format)
    server = Server(
        journal,
        f"{socket.gethostname()}-{os.getpid()}",
        "",
        inline=config.store.kind == "memory",
        kinds=KINDS.verified_by(check_proof),
        limits=config.host.limits(),
        retention=_retention(config.host),
        log=log,
    )
    service = Service(server, authority, config.tokens_required(), config.runs)
    service.session_s = config.access.session_s
    running = Running(server, service, config.host.drain_s)
    where = None if config.store.kind == "memory" else Path(config.store.folder)
    service.series = await asyncio.to_thread(open_series, where, config.series, log)
    sampler = Sampler(server, server.metrics, Recorder(service.series, server.metrics, log), config.series)
    stack = ExitStack()
    where_objects, scratch = _place_objects(config.store, stack)
    service.shelf = Shelf(where_objects)
    service.modules = config.workshop.modules
    if not (config.tokens_required() or config.access.insecure):
        service.local_users = LocalUsers()
        stack.callback(service.local_users.close)
        if service.local_users.blind:
            log.warn("nobody comes in without a token", why=service.local_users.blind)
    workshop = Workshop(server, where_objects, scratch, config.workshop)
    try:
        await _open_doors(running, config)
        server.address = running.url
        service.http = _reachable(running.addresses.get("http", ""), running.url)
        await server.start()
        sampler.start()
        for door in running.doors:
            await door.listen()
        yield running
        await running.drain()
    finally:
        await running.give_up()
        await sampler.close()
        await workshop.close()
        await server.close()
        await service.shelf.close()
        await service.samples.close()
        service.series.close()
        stack.close()
        journal.close()


def _open_store(store: Store) -> tuple[Journal, Authority]:
    """The journal, and what tokens are made from: the same for all servers that may serve its runs."""
    if store.kind == "etcd":
        from quoracy.stores.etcd import EtcdJournal

        journal = EtcdJournal(store.etcd, ca=store.etcd_ca, cert=store.etcd_cert, key=store.etcd_key)
        try:
            return journal, Authority(journal.shared_secret(lambda: secrets.token_bytes(SECRET_BYTES)))
        except BaseException:
            journal.close()
            raise
    folder = Path(store.folder)
    return MemoryJournal() if store.kind == "memory" else SqliteJournal(folder), Authority.open(folder)


def _place_objects(store: Store, stack: ExitStack) -> tuple[str, Path]:
    """The URL of the object store, and a folder for what is in the making. Objects of a server that forgets its runs
    are forgotten too, but they are files: another process must see them. Nothing is made before it is needed."""
    address = parse_objects(store.objects or str(Path(store.folder) / "objects"))
    folder = Path(store.folder)
    if address.kind == "memory" or (store.kind == "memory" and not store.objects):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="quoracy-objects-")))
        address = parse_objects(str(folder / "objects"))
    if address.kind == "file":
        address = msgspec.structs.replace(address, folder=str(Path(address.folder).resolve()))
    return str(address), folder / "workshop"


def _reachable(http: str, url: str) -> str:
    """The address of the HTTP door for members: where it listens on all addresses, by the name the server goes by."""
    host = urlsplit(http).hostname if http else None
    advertised = urlsplit(url).hostname
    if host in ("0.0.0.0", "::") and advertised and advertised != host:  # noqa: S104 - compared, not bound
        return f"{http.partition('://')[0]}://{_joined(advertised, urlsplit(http).port or 0)}"
    return http


def open_authority(store: Store) -> Authority:
    """What tokens of these servers are made from, for whoever is no server."""
    if store.kind != "etcd":
        return Authority.open(Path(store.folder))
    journal, authority = _open_store(store)
    journal.close()
    return authority


async def _open_doors(running: Running, config: ServerConfig) -> None:
    """Each takes its address; nobody is let in yet. A door that is not wanted is not even loaded."""
    listen, service = config.listen, running.service
    tls = config.tls if config.tls_on() else None
    context = server_context(Path(tls.cert), Path(tls.key)) if tls else None
    meter = Meter(config.limits)
    tcp = TcpDoor(service, config.limits, meter)
    running.doors.append(tcp)
    service.server.metrics.watch("connections", "tcp", lambda: len(tcp.connections))
    place = await tcp.open(listen.host, listen.port, context)
    running.addresses["tcp"] = f"{'tcps' if tls else 'tcp'}://{_joined(*place)}"
    running.url = listen.advertise or running.addresses["tcp"]
    if config.grpc.enabled:
        from quoracy.doors.grpc import GrpcDoor

        kinds = (running.federated, running.witnessed)
        grpc = GrpcDoor(service, running.calls, config.limits, config.grpc, meter, *kinds)
        running.doors.append(grpc)
        service.server.metrics.watch("connections", "grpc", lambda: len(grpc.streams))
        place = await _wished(config.grpc.port, GRPC_PORT, lambda port: grpc.open(listen.host, port, tls))
        running.addresses["grpc"] = f"{'grpcs' if tls else 'grpc'}://{_joined(*place)}"
    if config.http.enabled:
        from quoracy.doors.http import HttpDoor

        http = HttpDoor(service, running.calls, config.limits, config.http, meter, service.server.metrics)
        running.doors.append(http)
        service.server.metrics.watch("connections", "http", lambda: len(http.connections))
        place = await _wished(config.http.port, HTTP_PORT, lambda port: http.open(listen.host, port, tls))
        running.addresses["http"] = f"{'https' if tls else 'http'}://{_joined(*place)}"


async def _wished(port: int | str, usual: int, take: Callable[[int], Awaitable[tuple[str, int]]]) -> tuple[str, int]:
    """``auto``: the usual port, or any if another program has it. A port that was asked for by number is a must."""
    if isinstance(port, int):
        return await take(port)
    try:
        return await take(usual)
    except ConfigError:
        return await take(0)


def _joined(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _retention(host: HostSettings) -> Retention:
    return Retention(host.segment_entries, None if host.keep_segments == "all" else int(host.keep_segments))


class Coordinator:
    """A coordinator on a thread of this process."""

    def __init__(
        self,
        folder: str | Path | None = None,
        port: int = 0,
        store: str = "sqlite",
        *,
        all_apis: bool = False,
        max_workers: int | None = None,
        heartbeat_timeout_s: float | None = None,
        checkpoints: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        **overrides: Any,
    ) -> None:
        """``folder``: for journals; or QUORACY_DATA, or ``quoracy-data``. ``port``: of the TCP door. ``store``: sqlite,
        memory, or etcd://.
        ``all_apis``: gRPC and HTTP as well, each on its usual port, or on any if another program has that.
        ``max_workers``, ``heartbeat_timeout_s``: of new ``cluster`` runs, where ``create`` says nothing else.
        ``checkpoints``: the object store, a folder or ``s3://bucket/prefix``; weights of federated runs are there too.
        ``environ``: what is read as the environment, which is the process's own: see the head of
        docs/reference/quoracy.toml. Arguments win over it.
        ``overrides``: every other setting, as in the configuration file: ``http={"port": 8080}``. Raises ConfigErrors.
        """
        environ = os.environ if environ is None else environ
        kept = {"kind": "etcd", "etcd": store} if "://" in store else {"kind": store}
        wanted = {
            "listen.port": port,
            **{f"store.{name}": value for name, value in kept.items()},
            "store.folder": folder,
            "store.objects": checkpoints,
            "runs.cluster.max_workers": max_workers,
            "runs.cluster.heartbeat_timeout_s": heartbeat_timeout_s,
            "grpc.enabled": all_apis or "grpc" in overrides,
            "http.enabled": all_apis or "http" in overrides,
            "log.level": None if any(log_levels(environ)) else "warn",
        }
        settings = wanted | overrides
        self._config = load_config(None, settings, environ)
        self._loop = uvloop.new_event_loop()
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._running: Running | None = None
        self._thread = threading.Thread(target=self._run, name="quoracy-coordinator", daemon=True)

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

    @property
    def addresses(self) -> dict[str, str]:
        """Where each door listens: tcp, and grpc and http if they were asked for."""
        return self._open().addresses

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
