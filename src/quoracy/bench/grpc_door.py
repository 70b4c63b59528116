"""How many messages and calls a second one core takes over gRPC, beside a bare echo on the same library.

The load is made of plain sockets that speak just enough HTTP/2, since a client of the library itself is slower than
the server it should load. Two ways of asking:

- closed loop, for the highest rate: each of 300 connections has one message under way, and sends the next when that is
  answered; the same is then done to a bare ``grpc.aio`` echo, whose rate is the most that any server on it could have;
- open loop, for how long it takes: heartbeats are sent when they are due, at the target's rate, whether or not earlier
  ones were answered, and a late answer counts from when the heartbeat was due.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import select
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from quoracy.bench.crowd import RUN, child, clock, create_run, on_other_core, percentile
from quoracy.report import Measurement, Report
from quoracy.wire.pb import coordinator_pb2 as pb

CONNECTIONS: Final = 300
SECONDS: Final = 3.0
STREAM_TARGET: Final = 8_000
UNARY_TARGET: Final = 2_000
SERVICE: Final = "quoracy.v1.Coordinator"
ECHO: Final = "bench.Echo"

BODY, HEADERS, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
LARGEST: Final = 2**31 - 1


def bench_grpc() -> Report:
    on_other_core()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    port = _free_port()
    with child("memory", grpc={"enabled": True, "port": port}, http={"enabled": False}) as server:
        create_run(server.address(), heartbeat_timeout_s=600.0, max_workers=CONNECTIONS)
        links = [Link(port, number) for number in range(CONNECTIONS)]
        for link in links:
            link.join()
        with _polled(links) as poll:
            streamed = _as_fast_as_can_be(links, poll, _stream)
            timed = _when_due(links, poll)
        for link in links:
            link.close()
        with _crowd(port) as (callers, poll):
            called = _as_fast_as_can_be(callers, poll, _unary)
    with _echo() as port:
        with _crowd(port) as (callers, poll):
            for link in callers:
                link.open(f"/{ECHO}/Stream")
            bare_stream = _as_fast_as_can_be(callers, poll, _stream)
        with _crowd(port) as (callers, poll):
            bare_unary = _as_fast_as_can_be(callers, poll, _unary_echo)
    notes = [
        f"{CONNECTIONS} connections, one message per write, every heartbeat answered; server alone on one core.",
        f"Highest rates in a closed loop, latencies in an open one at {STREAM_TARGET} heartbeats a second.",
        "The limit is grpc.aio itself: the echo only hands bytes back, and neither reads nor decides anything.",
    ]
    return Report(
        "bench grpc",
        measurements=[
            Measurement("grpc_stream_messages_per_s", round(streamed), "messages/s", STREAM_TARGET),
            Measurement("grpc_stream_share", round(streamed / bare_stream, 2), "", None, "at least", "a bare echo"),
            Measurement("grpc_stream_p50_ms", round(timed.p50_ms, 2), "ms", None, "at most", "at the target's rate"),
            Measurement("grpc_stream_p99_ms", round(timed.p99_ms, 2), "ms", None, "at most", "at the target's rate"),
            Measurement("grpc_unary_per_s", round(called), "calls/s", UNARY_TARGET),
            Measurement("grpc_unary_share", round(called / bare_unary, 2), "", None, "at least", "a bare echo"),
            Measurement("bare_echo_stream_messages_per_s", round(bare_stream), "messages/s"),
            Measurement("bare_echo_unary_per_s", round(bare_unary), "calls/s"),
        ],
        notes=notes,
        failures=[f"{timed.unanswered} heartbeats were not answered"] if timed.unanswered else [],
    )


# -- load ----------------------------------------------------------------------------------------------------------


class Timed(NamedTuple):
    p50_ms: float
    p99_ms: float
    unanswered: int


class Link:
    """One connection with one worker, in as much HTTP/2 as that takes: literal headers, no flow control inwards."""

    def __init__(self, port: int, number: int) -> None:
        self.name = f"worker-{number:05d}"
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        settings = struct.pack(">HIHI", 1, 0, 4, LARGEST)
        room = struct.pack(">I", LARGEST - 65535)
        self.socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0, settings) + _frame(WINDOW, 0, 0, room)
        )
        self.waiting: deque[float] = deque()
        self.seq = 0
        self._stream = 1
        self._rest = b""
        self._body = b""

    def open(self, path: str) -> None:
        self.socket.sendall(_frame(HEADERS, END_HEADERS, 1, _headers(path)))

    def say(self, message: bytes) -> None:
        self.socket.send(_frame(BODY, 0, 1, _prefixed(message)))

    def call(self, headers: bytes, message: bytes) -> None:
        """On a stream of its own."""
        stream, self._stream = self._stream, self._stream + 2
        self.socket.send(
            _frame(HEADERS, END_HEADERS, stream, headers) + _frame(BODY, END_STREAM, stream, _prefixed(message))
        )

    def hear(self) -> tuple[list[bytes], int]:
        """Messages that have come, and calls that are over."""
        self._rest += self.socket.recv(65536)
        rest, at, ended = self._rest, 0, 0
        while len(rest) - at >= 9:
            size = int.from_bytes(rest[at : at + 3], "big")
            if len(rest) - at < 9 + size:
                break
            kind, flags, payload = rest[at + 3], rest[at + 4], rest[at + 9 : at + 9 + size]
            at += 9 + size
            if kind == BODY:
                self._body += payload
            elif kind == HEADERS:
                ended += flags & END_STREAM
            elif kind in (SETTINGS, PING) and not flags & ACK:
                self.socket.send(_frame(kind, ACK, 0, payload if kind == PING else b""))
            elif kind == GOAWAY:
                raise ConnectionError(f"the server sends this connection away: {payload[8:]!r}")
        self._rest = rest[at:]
        return self._messages(), ended

    def _messages(self) -> list[bytes]:
        body, at, found = self._body, 0, []
        while len(body) - at >= 5:
            end = at + 5 + int.from_bytes(body[at + 1 : at + 5], "big")
            if end > len(body):
                break
            found.append(body[at + 5 : end])
            at = end
        self._body = body[at:]
        return found

    def join(self) -> None:
        """Registered and ready, through the stream that heartbeats go through."""
        self.open(f"/{SERVICE}/Session")
        nonce = self.name.encode().ljust(16, b".")[-16:]
        register = pb.RegisterWorkerRequest(run=RUN, worker=self.name, nonce=nonce)
        ready = pb.ReportStateRequest(
            run=RUN, worker=self.name, incarnation=1, seq=1, state=pb.REPORTED_STATE_READY
        )  # fmt: skip
        both = [pb.ClientMessage(register=register), pb.ClientMessage(report=ready)]
        self.say(pb.ClientMessages(messages=both).SerializeToString())
        while True:
            messages, ended = self.hear()
            if ended:
                raise ConnectionError("the server ends the stream")
            said = [item for message in messages for item in pb.ServerMessages.FromString(message).messages]
            if any(item.standing.state == pb.WORKER_STATE_IDLE for item in said):
                return

    def beat(self) -> pb.HeartbeatRequest:
        self.seq += 1
        return pb.HeartbeatRequest(run=RUN, worker=self.name, incarnation=1, seq=self.seq)

    def close(self) -> None:
        self.socket.close()


def _stream(link: Link) -> None:
    link.say(pb.ClientMessages(messages=[pb.ClientMessage(heartbeat=link.beat())]).SerializeToString())


def _unary(link: Link) -> None:
    link.call(_HEARTBEAT, link.beat().SerializeToString())


def _unary_echo(link: Link) -> None:
    link.call(_ECHO_UNARY, link.beat().SerializeToString())


def _as_fast_as_can_be(links: list[Link], poll: select.epoll, send: Any) -> float:
    """Closed loop: one under way on each connection. Per second."""
    by_fd = {link.socket.fileno(): link for link in links}
    for link in links:
        send(link)
    began, done = clock(), 0
    while clock() - began < SECONDS:
        for fd, _ in poll.poll(0.1):
            link = by_fd[fd]
            messages, ended = link.hear()
            if ended and send is _stream:
                raise ConnectionError("the server ends the stream")
            answered = len(messages) if send is _stream else ended
            done += answered
            for _ in range(answered):
                send(link)
    seconds = clock() - began
    while any(poll.poll(0.2)):
        for fd, _ in poll.poll(0.0):
            by_fd[fd].hear()
    return done / seconds


def _when_due(links: list[Link], poll: select.epoll) -> Timed:
    """Open loop, at the target's rate."""
    by_fd = {link.socket.fileno(): link for link in links}
    latencies: list[float] = []
    due = began = clock()
    sent = 0
    end = began + SECONDS
    while (now := clock()) < end or (any(link.waiting for link in links) and now < end + 5.0):
        while due <= now and due < end:
            link = links[sent % len(links)]
            link.waiting.append(due)
            _stream(link)
            sent += 1
            due += 1.0 / STREAM_TARGET
        for fd, _ in poll.poll(0.0 if now < end else 0.1):
            link = by_fd[fd]
            messages, _ = link.hear()
            said = [item for message in messages for item in pb.ServerMessages.FromString(message).messages]
            beats = sum(item.HasField("heartbeat") for item in said)
            now = clock()
            latencies += [now - link.waiting.popleft() for _ in range(min(beats, len(link.waiting)))]
    return Timed(percentile(latencies, 0.5) * 1000, percentile(latencies, 0.99) * 1000, sent - len(latencies))


@contextlib.contextmanager
def _polled(links: list[Link]) -> Iterator[select.epoll]:
    poll = select.epoll()
    for link in links:
        poll.register(link.socket.fileno(), select.EPOLLIN)
    try:
        yield poll
    finally:
        poll.close()


@contextlib.contextmanager
def _crowd(port: int) -> Iterator[tuple[list[Link], select.epoll]]:
    links = [Link(port, number) for number in range(CONNECTIONS)]
    for link in links:
        link.seq = 1 << 32  # higher than any heartbeat before
    with _polled(links) as poll:
        yield links, poll
    for link in links:
        link.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _prefixed(message: bytes) -> bytes:
    return b"\x00" + struct.pack(">I", len(message)) + message


def _headers(path: str) -> bytes:
    """Written out in full each time, so that nothing has to be remembered."""
    fields = {
        ":method": "POST", ":scheme": "http", ":path": path, ":authority": "bench", "te": "trailers",
        "content-type": "application/grpc",
    }  # fmt: skip
    return b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )


_HEARTBEAT: Final = _headers(f"/{SERVICE}/Heartbeat")
_ECHO_UNARY: Final = _headers(f"/{ECHO}/Unary")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- the limit -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _echo() -> Iterator[int]:
    command = [sys.executable, "-m", "quoracy.bench.grpc_door"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
    try:
        if process.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


async def _serve_echo() -> None:
    import grpc

    async def stream(requests: Any, context: Any) -> None:
        async for message in requests:
            await context.write(message)

    async def unary(message: bytes, _context: Any) -> bytes:
        return message

    handlers = {
        "Stream": grpc.stream_stream_rpc_method_handler(stream),
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(ECHO, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    import uvloop

    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {0})
    uvloop.run(_serve_echo())
