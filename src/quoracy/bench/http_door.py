"""What the HTTP door costs: questions a second on one core, beside a bare server that says hello; and what fifty
readers of an event stream cost the coordinator while ten entries a second are written to disk.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from quoracy.bench.crowd import RUN, Child, child, clock, create_run, on_other_core
from quoracy.report import Measurement, Report

CONNECTIONS = 32
SECONDS = 3.0
ROUNDS = 3
"""Of each figure, alternating; the best counts, since others share this machine."""
READERS = 50
UPDATES_PER_S = 10
STREAM_SECONDS = 5.0
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


def bench_http() -> Report:
    on_other_core()
    port = _free_port()
    with child(http={"port": port}, grpc={"enabled": False}) as server, _bare() as bare:
        create_run(server.address())
        status: list[float] = []
        hello: list[float] = []
        for _ in range(ROUNDS):
            hello.append(_questions(bare, "/"))
            status.append(_questions(port, "/api/status"))
        quiet, crowded, missed = _streams(server, port)
    best, bound = max(status), max(hello)
    share = max(0.0, crowded - quiet)
    note = (
        f"{CONNECTIONS} connections with keep-alive, one question under way on each; server alone on one core. "
        f"The bare server is uvicorn and starlette with one route and three headers. With {UPDATES_PER_S} entries a "
        f"second the coordinator used {quiet:.1%} of a core without readers, and {crowded:.1%} with {READERS}."
    )
    limit = (
        "The limit is the interpreter: by a profile of /api/status three fifths of a question are uvicorn, starlette "
        "and the loop, a third is our own door (hosts, login, limits, headers), and the answer itself a sixteenth."
    )
    failures = [f"{missed} events did not reach a reader"] if missed else []
    return Report(
        "bench http",
        measurements=[
            Measurement("http_status_per_s", round(best), "questions/s", 2000),
            Measurement("bare_hello_per_s", round(bound), "questions/s"),
            Measurement("http_status_ratio", round(best / bound, 3), "", None, "at least", "of the bare server"),
            Measurement("sse_core_share", round(share, 4), "", 0.10, "at most", "of a core, for 50 readers"),
        ],
        notes=[note, limit],
        failures=failures,
    )


# -- questions -----------------------------------------------------------------------------------------------------


class _Asker:
    """One connection with one question under way."""

    def __init__(self, port: int, question: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._question = question
        self._got = b""

    def ask(self) -> None:
        self.socket.sendall(self._question)

    def answered(self) -> bool:
        """Whether a whole answer has come; it must be a good one."""
        self._got += self.socket.recv(65536)
        head, found, rest = self._got.partition(_HEAD_END)
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the server answered {head.splitlines()[0]!r}")
        length = int(head[head.index(_LENGTH) + len(_LENGTH) :].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return False
        self._got = b""
        return True


def _questions(port: int, path: str) -> float:
    """Answers a second."""
    question = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
    askers = [_Asker(port, question) for _ in range(CONNECTIONS)]
    by_fd = {asker.socket.fileno(): asker for asker in askers}
    poll = select.epoll()
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    for asker in askers:
        asker.ask()
    began, answers = clock(), 0
    while clock() - began < SECONDS:
        for fd, _ in poll.poll(1.0):
            if by_fd[fd].answered():
                answers += 1
                by_fd[fd].ask()
    per_s = answers / (clock() - began)
    poll.close()
    for asker in askers:
        asker.socket.close()
    return per_s


# -- streams -------------------------------------------------------------------------------------------------------


def _streams(server: Child, port: int) -> tuple[float, float, int]:
    """The share of a core without and with readers, and how many events did not come."""
    orders = _Orders(port)
    quiet = _share(server, orders)
    readers = [_reader(port) for _ in range(READERS)]
    before = orders.given
    crowded = _share(server, orders)
    wanted = orders.given - before
    missed = sum(max(0, wanted - _events(reader)) for reader in readers)
    for reader in readers:
        reader.close()
    return quiet, crowded, missed


class _Orders:
    """Each order is one entry."""

    def __init__(self, port: int) -> None:
        body = msgspec.json.encode({"command": "pause"})
        head = f"POST /api/runs/{RUN}/orders HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        self._asker = _Asker(port, f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.given = 0

    def give(self) -> None:
        self._asker.ask()
        while not self._asker.answered():
            pass
        self.given += 1


def _share(server: Child, orders: _Orders) -> float:
    """Of one core, over a while in which entries are written at an even pace."""
    began_cpu_s, began = _cpu_s(server.process.pid), clock()
    due = began
    while (now := clock()) < began + STREAM_SECONDS:
        if due <= now:
            orders.give()
            due += 1 / UPDATES_PER_S
        time.sleep(max(0.0, min(due - clock(), 0.02)))
    return (_cpu_s(server.process.pid) - began_cpu_s) / (clock() - began)


def _reader(port: int) -> socket.socket:
    reader = socket.create_connection(("127.0.0.1", port))
    reader.sendall(f"GET /api/runs/{RUN}/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode())
    got = b""
    while b"event: position" not in got:
        got += reader.recv(65536)
    return reader


def _events(reader: socket.socket) -> int:
    """What has come meanwhile: it waits in the socket, which is large enough for it."""
    reader.settimeout(1.0)
    got = b""
    with contextlib.suppress(TimeoutError):
        while chunk := reader.recv(1 << 20):
            got += chunk
            reader.settimeout(0.1)
    return got.count(b"event: entry")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- the bare server -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _bare() -> Iterator[int]:
    """On the same core as the coordinator, which rests meanwhile."""
    port = _free_port()
    program = "from quoracy.bench.http_door import say_hello; say_hello()"
    process = subprocess.Popen([sys.executable, "-c", program, str(port)])  # noqa: S603
    try:
        deadline = clock() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if process.poll() is not None or clock() > deadline:
                    raise RuntimeError("the bare server did not start") from None
                time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def say_hello() -> None:
    """The bare server: what there is without any of our own."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def hello(_request: Any) -> JSONResponse:
        return JSONResponse({"hello": "world"})

    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {0})
    app = Starlette(routes=[Route("/", hello)])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="error")
