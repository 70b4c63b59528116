"""The HTTP door: uvicorn inside the coordinator's event loop, with sockets, signals and limits that are ours."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn

from quoracy.config import ConnectionLimits, Http, Tls
from quoracy.core.errors import ConfigError, Refusal
from quoracy.doors.auth import Meter, server_context
from quoracy.doors.calls import Calls
from quoracy.doors.http.gate import Gate
from quoracy.doors.http.house import House, Metrics
from quoracy.doors.http.line import Line, ToOurLog
from quoracy.doors.http.login import Login
from quoracy.doors.http.openapi import OPENAPI
from quoracy.doors.http.places import router
from quoracy.doors.http.routes import PAGES, ROUTES
from quoracy.doors.http.streams import Streams
from quoracy.doors.http.transfers import Transfers
from quoracy.doors.service import Service
from quoracy.hosts.relayed import Relayed
from quoracy.hosts.server import now_us

LAST_WORDS_S: Final = 1.0
"""When the door closes: for answers under way, and for each client to take what was sent to it."""
PATROL_S: Final = 1.0
BACKLOG: Final = 2048


class HttpDoor:
    def __init__(
        self,
        service: Service,
        calls: Calls,
        limits: ConnectionLimits,
        settings: Http,
        meter: Meter,
        metrics: Metrics | None = None,
    ) -> None:
        """Series are read through the service, as all that is asked."""
        self.limits = limits
        self.settings = settings
        self.meter = meter
        self.turned_away = 0
        """Connections beyond the limits that are still open."""
        self.stranger = service.stranger
        """Why a connection between two ends needs a token, if it does."""
        self.log = service.server.log
        self.logger = logging.Logger("quoracy.http")
        self.logger.addHandler(ToOurLog(self.log))
        self.gate = Gate(service, settings, self.log)
        self.login = Login(service, self.gate)
        self.streams = Streams(service, self.gate, settings.max_streams)
        largest = min(settings.relay_blob_bytes, settings.relay_total_bytes)
        relayed = Relayed(settings.relay_total_bytes)
        transfers = Transfers(lambda: service.shelf, limits.weights_bytes_per_s, settings.request_timeout_s)
        house = House(
            service, calls, limits, self.gate, self.login, self.streams, metrics, relayed, largest, transfers
        )  # fmt: skip
        self.gate.app = router(house, (*ROUTES, OPENAPI, *PAGES))
        self._sockets: list[socket.socket] = []
        self._uvicorn: uvicorn.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._tls: Tls | None = None

    # -- life -------------------------------------------------------------------------------------------------------

    async def open(self, host: str, port: int, tls: Tls | None = None) -> tuple[str, int]:
        """Take the address; nobody is let in before ``listen``. Port 0 takes a free one; returns what it is. Raises
        ConfigError."""
        self._tls = tls
        self.gate.secure(tls is not None)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, place in dict.fromkeys(found):
                self._take(family, kind, protocol, (*place[:1], port, *place[2:]))
                port = int(self._sockets[0].getsockname()[1])
        except OSError as error:
            self._let_go()
            raise _cannot_listen(error, host, port) from None
        bound = self._sockets[0].getsockname()
        self.login.port = int(bound[1])
        return str(bound[0]), int(bound[1])

    def _take(self, family: int, kind: int, protocol: int, place: tuple[object, ...]) -> None:
        taken = socket.socket(family, kind, protocol)
        self._sockets.append(taken)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind(place)
        taken.setblocking(False)

    async def listen(self) -> None:
        """Let people in."""
        config = uvicorn.Config(
            self.gate,
            http=partial(Line, self),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            interface="asgi3",
            loop="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=max(1, round(self.limits.idle_timeout_s)),
        )
        config.load()
        if self._tls is not None:
            config.ssl = server_context(Path(self._tls.cert), Path(self._tls.key))
        server = self._uvicorn = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        try:
            await server.startup(sockets=list(self._sockets))
        except OSError as error:
            place = self._sockets[0].getsockname()
            raise _cannot_listen(error, str(place[0]), int(place[1])) from None
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in (self._walk(server), self.streams.beat())]

    @property
    def connections(self) -> set[object]:
        return set() if self._uvicorn is None else set(self._uvicorn.server_state.connections)

    def hush(self) -> None:
        """Let nobody in any more: what is under way can end."""
        for task in self._tasks:
            task.cancel()
        if self._uvicorn is not None:
            for server in self._uvicorn.servers:
                server.close()
        self._let_go()

    async def close(self, refusal: Refusal) -> None:
        """End streams and waits with the reason, finish answers, and go. Whoever does not listen is not waited for."""
        self.hush()
        self.streams.close(refusal)
        if self._uvicorn is None:
            return
        state = self._uvicorn.server_state
        for line in list(state.connections):
            line.shutdown()
        deadline_us = now_us() + round(LAST_WORDS_S * 1e6)
        while (state.connections or state.tasks) and now_us() < deadline_us:
            await asyncio.sleep(0.005)
        for line in list(state.connections):
            line.transport.abort()
        for task in list(state.tasks):
            task.cancel()

    def _let_go(self) -> None:
        for taken in self._sockets:
            taken.close()
        self._sockets = []

    async def _walk(self, server: uvicorn.Server) -> None:
        """Nobody's slowness may hold a place for ever. The date in answers is as new as the last round."""
        while True:
            await server.on_tick(0)
            await asyncio.sleep(min(PATROL_S, self.settings.request_timeout_s / 4))
            at_us = now_us()
            for line in list(server.server_state.connections):
                if isinstance(line, Line):
                    line.look_after(at_us)


def _cannot_listen(error: OSError, host: str, port: int) -> ConfigError:
    match error.errno:
        case errno.EADDRINUSE:
            fix = "another program listens there: choose another port, or 0 for any, or auto"
            return ConfigError("http.port", port, fix)
        case errno.EACCES:
            return ConfigError("http.port", port, "the system does not allow it: choose a port above 1023")
    return ConfigError("listen.host", host, f"this machine cannot listen there ({error.strerror or error})")
