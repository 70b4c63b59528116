"""From kill -9 of the coordinator to all workers back in step: 300 sessions that reconnect by themselves."""

from __future__ import annotations

import contextlib
import select
import socket
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from quoracy.bench.crowd import RUN, Child, create_run
from quoracy.core.cluster.events import WorkerIdle, WorkerReady
from quoracy.core.messages import Answered, Declined, Moved, Told, Welcome
from quoracy.sdk.client.session import Stage
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import NEWEST, OLDEST, Greet, to_client

ROUNDS_BEFORE = 5


class Worker:
    """One session on one socket, driven by hand."""

    def __init__(self, name: str) -> None:
        self.session = WorkerSession(RUN, name, name.encode().ljust(32, b"."), retry_us=500_000)
        self.passed = 0
        self.socket: socket.socket | None = None
        self._reader = FrameReader()
        self._part = False
        self._step = 0

    def connect(self, address: tuple[str, int]) -> None:
        self.close()
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self.socket.sendall(frame(Greet(OLDEST, NEWEST)))
        self.session.connect(_now_us())
        self.flush()

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()

    def read(self) -> bool:
        """False if the other side is gone."""
        if self.socket is None:
            return False
        try:
            chunk = self.socket.recv(65536)
        except OSError:
            return False
        for body in self._reader.feed(chunk):
            message: Any = to_client.read(body)
            if isinstance(message, Welcome | Answered | Declined | Told | Moved):
                self.session.receive(message, _now_us())
        self.act()
        return bool(chunk)

    def act(self) -> None:
        session = self.session
        while session.notes:
            note = session.notes.popleft()
            if note.what == "joined":
                session.wish(WorkerReady)
            elif note.what == "passed":
                self.passed += 1
                self._step = note.value.step + 1
                session.arrive("step", self._step, _now_us())
        standing = session.standing
        if standing is not None and not self._part and session.stage is Stage.JOINED:
            if standing.state in ("Idle", "Training"):
                self._part = True
                self._step = standing.barriers.get("step", (0, -1))[1] + 1
                session.arrive("step", self._step, _now_us())
            elif standing.state == "Recovering" and session.idle():
                session.wish(WorkerIdle)
        session.tick(_now_us())
        self.flush()

    def flush(self) -> None:
        out = b"".join(frame(message) for message in self.session.take())
        if out and self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.sendall(out)


class Recovery(NamedTuple):
    whole_s: float
    start_s: float
    """Of these, until the new process listens."""


def recovery(size: int) -> Recovery:
    with tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as folder:
        first = Child(Path(folder))
        address = first.address()
        create_run(address, max_workers=size, barrier_min=size, heartbeat_timeout_s=60.0)
        workers = [Worker(f"worker-{i:04d}") for i in range(size)]
        for worker in workers:
            worker.connect(address)
        _until(workers, ROUNDS_BEFORE)
        began = time.perf_counter()
        first.kill()
        second = Child(Path(folder), port=address[1])
        start_s = time.perf_counter() - began
        passed = max(worker.passed for worker in workers)
        for worker in workers:
            worker.connect(address)
        _until(workers, passed + 1)
        back_s = time.perf_counter() - began
        second.kill()
        for worker in workers:
            worker.close()
    return Recovery(back_s, start_s)


def _until(workers: list[Worker], passed: int) -> None:
    poll = select.epoll()
    by_fd = {worker.socket.fileno(): worker for worker in workers if worker.socket is not None}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    deadline = time.monotonic() + 60
    while any(worker.passed < passed for worker in workers):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{sum(w.passed < passed for w in workers)} workers did not pass barrier {passed}")
        for fd, _ in poll.poll(0.05):
            by_fd[fd].read()
        for worker in workers:
            worker.session.tick(_now_us())
            worker.flush()
    poll.close()


def _now_us() -> int:
    return time.monotonic_ns() // 1000
