"""A crowd of connections from one process, on plain sockets and epoll: cheap enough to load a server on the other core.

Every connection is one worker with one message per write. Replies come back in order, so a reply belongs to the oldest
message that has none.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from quoracy.core.cluster.events import Arrive, Heartbeat, WorkerReady, WorkerRegistered
from quoracy.core.codec import encode
from quoracy.core.members import Cause
from quoracy.core.messages import Answered, Call, Sign, Told
from quoracy.trust import client_context
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import NEWEST, OLDEST, Ask, Goodbye, Greet, Replied, to_client

RUN = "bench"
UNLIMITED = {"messages_per_s": 10_000_000, "burst_messages": 10_000_000, "max_connections_per_identity": 10_000}
LARGE = 1 << 24
"""Sequence numbers begin here, so that all are written with the same number of bytes."""
WARM = 10
"""Rounds of a barrier that are not counted."""
SETTLE_S = 0.003
"""Before the last one comes to a barrier, so that all others stand there."""


class Child:
    """The coordinator's process."""

    def __init__(self, folder: Path, store: str = "sqlite", port: int = 0, **settings: Any) -> None:
        self.folder = folder
        wanted = {
            "listen": {"port": port}, "store": {"kind": store, "folder": str(folder)}, "log": {"level": "error"},
            "limits": UNLIMITED,
        } | settings  # fmt: skip
        command = [sys.executable, "-m", "quoracy.bench.child", msgspec.json.encode(wanted).decode()]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        if self.process.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        self.url = self.process.stdout.readline().decode().strip()
        if not self.url:
            raise RuntimeError("the coordinator did not start")

    def address(self) -> tuple[str, int]:
        host, _, port = self.url.rpartition("/")[2].rpartition(":")
        return host, int(port)

    def rss_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_s(self) -> float:
        """What it has used of its core so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> dict[str, Any]:
        """What it measured of itself."""
        out, _ = self.process.communicate(b"", timeout=60)
        measured: dict[str, Any] = msgspec.json.decode(out.splitlines()[-1])
        return measured

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def child(store: str = "sqlite", **settings: Any) -> Iterator[Child]:
    """In a fresh folder under the working directory, so that it is on the disk people care about."""
    with tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as folder:
        started = Child(Path(folder), store, **settings)
        try:
            yield started
        finally:
            if started.process.poll() is None:
                started.kill()


class Link:
    """One worker's connection."""

    def __init__(self, address: tuple[str, int], name: str, ca: Path | None = None) -> None:
        self.name = name
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if ca is not None:
            self.socket = client_context(ca).wrap_socket(self.socket, server_hostname="localhost")
        self.waiting: deque[float] = deque()
        self._reader = FrameReader()
        self._kept: list[Any] = []
        self.say(Greet(OLDEST, NEWEST))
        self.hear(lambda m: not isinstance(m, Goodbye))

    def say(self, message: Any) -> None:
        self.socket.sendall(frame(message))

    def hear(self, wanted: Any) -> Any:
        """Blocks until such a message comes; others are dropped."""
        while True:
            while self._kept:
                message = self._kept.pop(0)
                if wanted(message):
                    return message
            self._kept += [to_client.read(body) for body in self._reader.feed(self.socket.recv(65536))]

    def ask(self, what: str, **arguments: Any) -> Any:
        self.say(Ask(1, what, RUN, arguments))
        replied: Replied = self.hear(lambda m: isinstance(m, Replied))
        if replied.refusal is not None:
            raise RuntimeError(str(replied.refusal))
        return replied.value

    def join(self) -> None:
        """Registered and ready: barriers wait for it."""
        nonce = self.name.encode().ljust(16, b".")[-16:]
        self.say(Call(RUN, Cause(self.name, 0, 0), Raw(encode(WorkerRegistered(self.name, 0, nonce)))))
        self.hear(lambda m: isinstance(m, Answered))
        self.say(Call(RUN, Cause(self.name, 1, 1), Raw(encode(WorkerReady(self.name, 1)))))
        self.hear(lambda m: isinstance(m, Told) and m.value["state"] == "Idle")

    def close(self) -> None:
        self.socket.close()

    def replies(self) -> int:
        """How many whole messages have come, without blocking."""
        try:
            return len(self._reader.feed(self.socket.recv(65536)))
        except (BlockingIOError, ssl.SSLWantReadError):
            return 0

    def beats(self) -> Beats:
        return Beats(self.name)

    def arrival(self, step: int) -> bytes:
        return frame(Sign.of(RUN, Arrive(self.name, 1, "step", step, step)))


class Beats:
    """A worker's heartbeats as ready-made frames: only the number changes."""

    def __init__(self, name: str) -> None:
        one, two = (frame(Sign.of(RUN, Heartbeat(name, 1, LARGE + k))) for k in (0x010203, 0x040506))
        self._frame = bytearray(one)
        self._at = next(i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b) - 1
        self._seq = LARGE

    def next(self) -> bytes:
        self._seq += 1
        self._frame[self._at : self._at + 4] = self._seq.to_bytes(4, "big")
        return bytes(self._frame)


class Crowd:
    def __init__(self, address: tuple[str, int], size: int, ca: Path | None = None) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
        self.links = [Link(address, f"worker-{i:05d}", ca) for i in range(size)]
        for link in self.links:
            link.join()
        self.by_fd = {link.socket.fileno(): link for link in self.links}
        self.poll = select.epoll()
        for link in self.links:
            link.socket.setblocking(False)
            self.poll.register(link.socket.fileno(), select.EPOLLIN)

    def close(self) -> None:
        self.poll.close()
        for link in self.links:
            link.close()


def create_run(address: tuple[str, int], ca: Path | None = None, **config: Any) -> None:
    maker = Link(address, "maker", ca)
    maker.ask("create", config=config)
    maker.close()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def on_other_core() -> None:
    """The load on the core the server is not on."""
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {1})


@contextlib.contextmanager
def on_server_core() -> Iterator[None]:
    """Processes started meanwhile are where our own server would be."""
    here = os.sched_getaffinity(0)
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {0})
    try:
        yield
    finally:
        os.sched_setaffinity(0, here)


def clock() -> float:
    return time.perf_counter()
