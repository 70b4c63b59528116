"""A bare gRPC client for tests: says exactly what it is told to, and waits for exactly what is expected."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from quoracy.coordinator import Coordinator
from quoracy.doors.grpc import GrpcDoor
from quoracy.wire.pb import coordinator_pb2 as pb

RUN = "demo"
PATIENCE_S = 20.0
SERVICE = "quoracy.v1.Coordinator"

M = TypeVar("M", bound=Message)


def place(coordinator: Coordinator) -> str:
    return str(coordinator._open().addresses["grpc"].partition("//")[2])


def door(coordinator: Coordinator) -> GrpcDoor:
    return next(door for door in coordinator._open().doors if isinstance(door, GrpcDoor))


class NotHeard(AssertionError):
    pass


def refusal(error: grpc.RpcError) -> pb.ErrorDetail:
    metadata: Any = error.trailing_metadata() or ()
    found = [value for name, value in metadata if name == "quoracy-error-bin"]
    assert len(found) == 1, error.details()
    return pb.ErrorDetail.FromString(bytes(found[0]))


def status(error: grpc.RpcError) -> grpc.StatusCode:
    return error.code()


class Talk:
    def __init__(self, address: str, token: str = "", channel: grpc.Channel | None = None) -> None:
        self.channel = channel or grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)])
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.channel.close()

    def call(self, request: Message, timeout_s: float = PATIENCE_S) -> Any:
        """The method is the one that the request is for."""
        name = request.DESCRIPTOR.name.removesuffix("Request")
        answer: Any = getattr(pb, f"{name}Response")
        return self.raw(name, request.SerializeToString(), answer.FromString, timeout_s)

    def raw(self, method: str, request: bytes, read: Any = None, timeout_s: float = PATIENCE_S) -> Any:
        call = self.channel.unary_unary(f"/{SERVICE}/{method}", None, read)
        return call(request, timeout=timeout_s, metadata=self._metadata)

    def refused(self, request: Message, timeout_s: float = PATIENCE_S) -> tuple[grpc.StatusCode, pb.ErrorDetail]:
        """How it was refused; that it was is a must."""
        with pytest.raises(grpc.RpcError) as caught:
            self.call(request, timeout_s)
        told = refusal(caught.value)
        assert told.why in str(caught.value)
        assert told.fix
        return status(caught.value), told

    # -- a worker's calls -------------------------------------------------------------------------------------------

    def create(self, run: str = RUN, **config: Any) -> pb.Run:
        request = pb.CreateRunRequest(run=run)
        request.config.update(config)
        created: pb.Run = self.call(request).run
        return created

    def join(self, worker: str = "w1", nonce: bytes = b"", **more: Any) -> pb.RegisterWorkerResponse:
        request = pb.RegisterWorkerRequest(run=RUN, worker=worker, nonce=nonce or fresh(), **more)
        joined: pb.RegisterWorkerResponse = self.call(request)
        return joined

    def report(self, worker: str, seq: int, state: pb.ReportedState, incarnation: int = 1) -> int:
        request = pb.ReportStateRequest(run=RUN, worker=worker, incarnation=incarnation, seq=seq, state=state)
        return int(self.call(request).entry)

    def ready(self, worker: str = "w1") -> pb.RegisterWorkerResponse:
        """Joined, and taking part."""
        joined = self.join(worker)
        self.report(worker, 1, pb.REPORTED_STATE_READY, joined.incarnation)
        return joined

    def session(self, timeout_s: float = PATIENCE_S) -> Chat:
        return Chat(self.channel, self._metadata, timeout_s)


class Chat:
    """A Session stream."""

    def __init__(self, channel: grpc.Channel, metadata: Any, timeout_s: float) -> None:
        self._out: queue.Queue[bytes | None] = queue.Queue()
        call = channel.stream_stream(f"/{SERVICE}/Session", None, pb.ServerMessages.FromString)
        self.stream: Any = call(self._all(), timeout=timeout_s, metadata=metadata)
        self._kept: list[pb.ServerMessage] = []

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._out.put(None)
        self.stream.cancel()

    def _all(self) -> Iterator[bytes]:
        while (message := self._out.get()) is not None:
            yield message

    def say(self, **items: Message) -> None:
        """One write."""
        messages = [pb.ClientMessage(**{name: item}) for name, item in items.items()]  # type: ignore[arg-type]
        self._out.put(pb.ClientMessages(messages=messages).SerializeToString())

    def raw(self, message: bytes) -> None:
        self._out.put(message)

    def done(self) -> None:
        """Nothing more will be said."""
        self._out.put(None)

    def hear(self, what: str) -> pb.ServerMessage:
        """The next of this sort; others before it are dropped."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            while self._kept:
                message = self._kept.pop(0)
                if message.WhichOneof("message") == what:
                    return message
            try:
                self._kept += next(self.stream).messages
            except StopIteration:
                raise NotHeard(f"the stream ended before any {what}") from None
        raise NotHeard(f"no {what} within {PATIENCE_S} s")

    def ended(self) -> tuple[grpc.StatusCode, pb.ErrorDetail]:
        """How the server ended it, whatever it says before."""
        try:
            for batch in self.stream:
                self._kept += batch.messages
        except grpc.RpcError as error:
            return status(error), refusal(error)
        raise NotHeard("the stream ended without a reason")

    def said(self, what: str) -> list[pb.ServerMessage]:
        """All of this sort that came and were not taken."""
        return [message for message in self._kept if message.WhichOneof("message") == what]

    def ready(self, worker: str = "w1") -> pb.RegisterWorkerResponse:
        """Joined through this stream, and taking part."""
        self.say(hello=pb.Hello(run=RUN, worker=worker))
        known = self.hear("welcome").welcome.incarnation
        self.say(
            register=pb.RegisterWorkerRequest(run=RUN, worker=worker, supersedes=known, nonce=fresh()),
            report=pb.ReportStateRequest(
                run=RUN, worker=worker, incarnation=known + 1, seq=1, state=pb.REPORTED_STATE_READY
            ),
        )
        joined = self.hear("answered").answered.accepted.registered
        while self.hear("standing").standing.state == pb.WORKER_STATE_INITIALIZING:
            pass
        return joined

    def beat(self, worker: str, seq: int, incarnation: int = 1) -> pb.HeartbeatResponse:
        beat = pb.HeartbeatRequest(run=RUN, worker=worker, incarnation=incarnation, seq=seq)
        self.say(heartbeat=beat)
        return self.hear("heartbeat").heartbeat


def fresh() -> bytes:
    """A nonce that no other life has."""
    return time.monotonic_ns().to_bytes(16, "big")
