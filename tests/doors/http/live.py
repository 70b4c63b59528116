"""A coordinator with its HTTP door, and a reader of event streams: real sockets, waited for and never slept for."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import httpx
from tests.e2e.command import until

from quoracy.config import ConnectionLimits, Http
from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refusal
from quoracy.doors.auth import Meter
from quoracy.doors.calls import Calls
from quoracy.doors.http import HttpDoor
from quoracy.hosts.metrics import Metrics
from quoracy.ports.series import Series

PATIENCE_S = 30.0


class Live(NamedTuple):
    """A running coordinator, and a client without a token."""

    coordinator: Coordinator
    url: str
    http: httpx.Client

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def on_loop(self, work: Callable[[], None]) -> None:
        """Inside the coordinator's event loop."""
        done = threading.Event()

        def both() -> None:
            work()
            done.set()

        self.coordinator._loop.call_soon_threadsafe(both)
        assert done.wait(PATIENCE_S)


@contextmanager
def live(folder: Path, verify: ssl.SSLContext | bool = True, **settings: Any) -> Iterator[Live]:
    http = {"enabled": True, "port": 0, **settings.pop("http", {})}
    with Coordinator(folder=folder, http=http, **settings) as coordinator:
        url = coordinator._open().addresses["http"]
        with httpx.Client(base_url=url, timeout=PATIENCE_S, verify=verify, trust_env=False) as client:
            yield Live(coordinator, url, client)


@contextmanager
def door(folder: Path, series: Series, metrics: Metrics | None, **settings: Any) -> Iterator[Live]:
    """A door made by hand, beside those of the coordinator."""
    with Coordinator(folder=folder, **settings) as coordinator:
        coordinator.create("demo")
        service, limits = coordinator._open().service, ConnectionLimits()
        service.series = series

        async def start() -> tuple[HttpDoor, str]:
            opened = HttpDoor(service, Calls(service), limits, Http(), Meter(limits), metrics=metrics)
            host, port = await opened.open("127.0.0.1", 0)
            await opened.listen()
            return opened, f"http://{host}:{port}"

        opened, url = coordinator._wait(start())
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
                yield Live(coordinator, url, client)
        finally:
            coordinator._wait(opened.close(Refusal("draining", "the test is over", "nothing")))


class Event(NamedTuple):
    kind: str
    id: str
    value: Any


class Stream:
    """An event stream as a browser reads it. ``comments`` counts what is not an event."""

    def __init__(self, url: str, path: str, last: str = "", **headers: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False)
        wanted = {**headers, **({"last-event-id": last} if last else {})}
        request = self._client.build_request("GET", path, headers=wanted)
        try:
            self.response = self._client.send(request, stream=True)
        except httpx.TransportError:
            self._client.close()
            raise
        self.comments = 0
        self.retry = ""
        self.last = last
        self._lines = self.response.iter_lines()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.response.close()
        self._client.close()

    def next(self) -> Event:
        """The next event. Raises httpx.TransportError when the connection breaks, StopIteration when it ends."""
        kind, value = "message", ""
        for line in self._lines:
            name, _, rest = line.partition(": ")
            if line.startswith(":"):
                self.comments += 1
            elif name == "event":
                kind = rest
            elif name == "data":
                value = rest
            elif name == "id":
                self.last = rest
            elif name == "retry":
                self.retry = rest
            elif not line and value:
                return Event(kind, self.last, json.loads(value))
        raise StopIteration

    def take(self, count: int, kind: str = "entry") -> list[Event]:
        found: list[Event] = []
        while len(found) < count:
            event = self.next()
            if event.kind == kind:
                found.append(event)
        return found


def raw(port: int, sent: bytes, read_all: bool = True) -> bytes:
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line:
        line.sendall(sent)
        got = b""
        while chunk := line.recv(65536):
            got += chunk
            if not read_all and b"\r\n\r\n" in got:
                break
        return got


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The response is this problem, whole: nobody has to guess what to do."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = response.json()
    assert told["code"] == code, told
    assert told["type"] == f"/problems/{code}"
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    assert told["fix"]
    return told


__all__ = ["Event", "Live", "Stream", "door", "free_port", "live", "problem", "raw", "until"]
