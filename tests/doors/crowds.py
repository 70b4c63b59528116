"""Crowds of idle clients, each of which is told something: which of them are in, and what the others heard."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections import Counter
from typing import Any

import grpc
import msgspec

from quoracy.wire.pb import coordinator_pb2 as pb

AT_ONCE = 100
"""Who comes at the same moment: a listening socket has room for so many, and one loop can look after them. A client of
grpc.aio that is refused before it has written loses the refusal, so nobody may wait long for its turn to write."""
PATIENCE_S = 60.0
SESSION = "/quoracy.v1.Coordinator/Session"


def room_for(files: int) -> None:
    """Files of this process. What is allowed already is not taken away."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(files + 1000, hard)), hard))


class Readers:
    """Event streams over bare sockets. ``told`` counts answers: status and code of the problem, or what went wrong."""

    def __init__(self, port: int, path: str = "/api/runs/demo/events") -> None:
        self._port = port
        self._ask = f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".encode()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self.told: Counter[tuple[int, str]] = Counter()
        self.inside: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def come(self, count: int) -> None:
        room_for(count)
        await asyncio.gather(*(self._one() for _ in range(count)))

    async def _one(self) -> None:
        async with self._gate:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    answer = await self._asked()
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                answer = (0, repr(error)[:60])
            self.told[answer] += 1

    async def _asked(self) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(self._ask)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ")[1])
        if status == 200:
            await reader.readuntil(b"event: position\n")
            self.inside.append((reader, writer))
            return status, ""
        body = await reader.read()
        writer.close()
        return status, msgspec.json.decode(body)["code"]

    async def hear(self, what: bytes) -> int:
        """How many of those inside get to read this."""
        async with asyncio.timeout(PATIENCE_S):
            return len(await asyncio.gather(*(reader.readuntil(what) for reader, _ in self.inside)))

    async def __aenter__(self) -> Readers:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for _, writer in self.inside:
            writer.close()
        for _, writer in self.inside:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Sessions:
    """Session streams of grpc.aio, each of one worker that says hello. ``told`` counts status and code."""

    def __init__(self, address: str, channels: int = 1) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        self._channels = [grpc.aio.insecure_channel(address, options) for _ in range(channels)]
        self._gate = asyncio.Semaphore(AT_ONCE)
        self.told: Counter[tuple[str, str]] = Counter()
        self.inside: list[Any] = []

    async def come(self, count: int) -> None:
        room_for(count)
        await asyncio.gather(*(self._one(number) for number in range(count)))

    async def _one(self, number: int) -> None:
        hello = pb.ClientMessage(hello=pb.Hello(run="demo", worker=f"w{number}"))
        channel = self._channels[number % len(self._channels)]
        async with self._gate:
            call: Any = channel.stream_stream(SESSION, None, pb.ServerMessages.FromString)(None, timeout=2 * PATIENCE_S)
            try:
                await call.write(pb.ClientMessages(messages=[hello]).SerializeToString())
                batch = await call.read()
            except grpc.aio.AioRpcError as error:
                self.told[error.code().name, _code(error)] += 1
                return
        self.told["OK", str(batch.messages[0].WhichOneof("message"))] += 1
        self.inside.append(call)

    async def __aenter__(self) -> Sessions:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for call in self.inside:
            call.cancel()
        self.inside.clear()  # a call holds its connection
        for channel in self._channels:
            await channel.close(None)


def _code(error: grpc.aio.AioRpcError) -> str:
    metadata: Any = error.trailing_metadata()
    found = [value for name, value in metadata if name == "quoracy-error-bin"]
    return pb.ErrorDetail.FromString(bytes(found[0])).code if found else str(error.details())
