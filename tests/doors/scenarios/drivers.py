"""The same handful of things to do, through each door. Every one answers with what came of it: plain values, or the
code of the refusal."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol, Self

import grpc
import msgspec
from google.protobuf import struct_pb2
from tests.doors.talk import RUN, Talk

from quoracy.coordinator import Coordinator
from quoracy.core.cluster.events import (
    Arrive,
    Heartbeat,
    HeartbeatSeen,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerReady,
    WorkerRegistered,
    WorkerTraining,
)
from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.core.members import Cause
from quoracy.core.messages import Declined, Told
from quoracy.wire.pb import coordinator_pb2 as pb
from quoracy.wire.pb.coordinator_pb2_grpc import CoordinatorStub

PATIENCE_S = 20.0
MOVES = {
    "ready": WorkerReady,
    "idle": WorkerIdle,
    "loading": WorkerLoading,
    "training": WorkerTraining,
    "checkpointing": WorkerCheckpointing,
}
Outcome = Any
"""The code of a refusal as text, or what was answered."""


class Driver(Protocol):
    def create(self, config: dict[str, Any], request: str) -> Outcome: ...
    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        """Incarnation, rank and fence."""

    def move(self, member: str, life: int, seq: int, state: str, fence: int = 0) -> Outcome:
        """The entry."""

    def beat(self, member: str, life: int, seq: int, order: int = 0) -> Outcome:
        """The order that waits: number and command."""

    def arrive(self, member: str, life: int, step: int, after: int | None = 0, fence: int = 0) -> Future[Outcome]:
        """Released, generation, step, place, of how many."""

    def leave(self, member: str, life: int, seq: int, reason: str) -> Outcome: ...
    def order(self, command: str, member: str, request: str) -> Outcome: ...
    def roll_back(self, reason: str, request: str) -> Outcome: ...
    def stop(self, reason: str, request: str) -> Outcome: ...


class _Closing:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(8)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
        self._pool.shutdown()

    def close(self) -> None: ...


# -- TCP -----------------------------------------------------------------------------------------------------------


class TcpDriver(_Closing):
    """Every member on a connection of its own."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__()
        self._url = coordinator.url
        self._talks: dict[tuple[str, int], Talk] = {}

    def close(self) -> None:
        for talk in self._talks.values():
            talk.socket.close()

    def _talk(self, member: str, life: int = 0) -> Talk:
        if (member, life) not in self._talks:
            self._talks[member, life] = Talk(self._url)
        return self._talks[member, life]

    def _ask(self, what: str, **arguments: Any) -> Outcome:
        with Talk(self._url) as talk:
            replied = talk.ask(what, **arguments)
        return replied.refusal.code if replied.refusal else replied.value

    def create(self, config: dict[str, Any], request: str) -> Outcome:
        shown = self._ask("create", config=config, request=request)
        return shown if isinstance(shown, str) else shown["run"]

    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        talk = Talk(self._url)
        answer = talk.call(Cause(member, supersedes, 0), WorkerRegistered(member, supersedes, nonce))
        if isinstance(answer, Refusal):
            talk.socket.close()
            return answer.code
        life = answer.result["incarnation"]
        before = self._talks.pop((member, life), None)
        if before is not None:
            before.socket.close()
        self._talks[member, life] = talk
        return life, answer.result["rank"], answer.result["fence"]

    def _call(self, member: str, life: int, seq: int, event: Any) -> Outcome:
        answer = self._talk(member, life).call(Cause(member, life, seq), event)
        return answer.code if isinstance(answer, Refusal) else answer.entry

    def move(self, member: str, life: int, seq: int, state: str, fence: int = 0) -> Outcome:
        more = (fence,) if state in ("idle", "loading") else ()
        return self._call(member, life, seq, MOVES[state](member, life, *more))

    def leave(self, member: str, life: int, seq: int, reason: str) -> Outcome:
        return self._call(member, life, seq, WorkerLeft(member, life, reason))

    def beat(self, member: str, life: int, seq: int, order: int = 0) -> Outcome:
        talk = self._talk(member, life)
        talk.sign(Heartbeat(member, life, seq, order=order))
        heard = talk.hear(Told, Declined, where=lambda m: m.topic == "heartbeat")
        if isinstance(heard, Declined):
            return heard.refusal.code
        seen = msgspec.convert(heard.value, HeartbeatSeen)
        return seen.order, seen.command

    def arrive(self, member: str, life: int, step: int, after: int | None = 0, fence: int = 0) -> Future[Outcome]:
        talk = self._talk(member, life)
        talk.sign(Arrive(member, life, "step", step, after, fence))
        return self._pool.submit(self._passed, talk, after, step, fence)

    def _passed(self, talk: Talk, after: int | None, step: int, fence: int) -> Outcome:
        def ends(message: Any) -> bool:
            if isinstance(message, Declined):
                return bool(message.topic == "barrier/step")
            value = message.value
            if message.topic == "standing":
                return bool(value["fence"] > fence)
            new = value["step"] == step if after is None else value["generation"] > after
            return message.topic == "barrier/step" and new and value["fence"] == fence

        heard = talk.hear(Told, Declined, where=ends)
        if isinstance(heard, Declined):
            return heard.refusal.code
        return "stale_token" if heard.topic == "standing" else _passage(msgspec.convert(heard.value, Passage))

    def order(self, command: str, member: str, request: str) -> Outcome:
        return _entry(self._ask("order", command=command, member=member, request=request))

    def roll_back(self, reason: str, request: str) -> Outcome:
        return _entry(self._ask("roll-back", reason=reason, request=request))

    def stop(self, reason: str, request: str) -> Outcome:
        return _entry(self._ask("stop", reason=reason, request=request))


def _entry(answer: Outcome) -> Outcome:
    return answer if isinstance(answer, str) else answer["entry"]


def _passage(p: Any) -> Outcome:
    return p.released, p.generation, p.step, p.order, p.of


# -- gRPC, call by call --------------------------------------------------------------------------------------------


def _refused(error: grpc.RpcError) -> str:
    trailing = dict(error.trailing_metadata())  # type: ignore[attr-defined]
    return pb.ErrorDetail.FromString(trailing["quoracy-error-bin"]).code


class GrpcDriver(_Closing):
    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__()
        self._channel = grpc.insecure_channel(coordinator.addresses["grpc"].partition("://")[2])
        self.stub = CoordinatorStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def _do(self, call: Callable[..., Any], said: Any, answer: Callable[[Any], Outcome]) -> Outcome:
        try:
            return answer(call(said, timeout=PATIENCE_S))
        except grpc.RpcError as error:
            return _refused(error)

    def create(self, config: dict[str, Any], request: str) -> Outcome:
        settings = struct_pb2.Struct()
        settings.update(config)
        said = pb.CreateRunRequest(run=RUN, config=settings, request=request)
        return self._do(self.stub.CreateRun, said, lambda answer: answer.run.run)

    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        said = pb.RegisterWorkerRequest(run=RUN, worker=member, nonce=nonce, supersedes=supersedes)
        return self._do(self.stub.RegisterWorker, said, lambda a: (a.incarnation, a.rank, a.fence))

    def move(self, member: str, life: int, seq: int, state: str, fence: int = 0) -> Outcome:
        wanted = pb.ReportedState.Value(f"REPORTED_STATE_{state.upper()}")
        said = pb.ReportStateRequest(run=RUN, worker=member, incarnation=life, seq=seq, state=wanted, fence=fence)
        return self._do(self.stub.ReportState, said, lambda a: a.entry)

    def beat(self, member: str, life: int, seq: int, order: int = 0) -> Outcome:
        said = pb.HeartbeatRequest(run=RUN, worker=member, incarnation=life, seq=seq, order=order)
        return self._do(self.stub.Heartbeat, said, lambda a: _order(a.order))

    def arrive(self, member: str, life: int, step: int, after: int | None = 0, fence: int = 0) -> Future[Outcome]:
        said = pb.WaitAtBarrierRequest(
            run=RUN, worker=member, incarnation=life, barrier="step", step=step, after=after, fence=fence
        )
        return self._pool.submit(self._do, self.stub.WaitAtBarrier, said, _passage)

    def leave(self, member: str, life: int, seq: int, reason: str) -> Outcome:
        said = pb.DeregisterRequest(run=RUN, worker=member, incarnation=life, seq=seq, reason=reason)
        return self._do(self.stub.Deregister, said, lambda a: a.entry)

    def order(self, command: str, member: str, request: str) -> Outcome:
        wanted = pb.OrderCommand.Value(f"ORDER_COMMAND_{command.upper()}")
        said = pb.OrderWorkersRequest(run=RUN, worker=member, command=wanted, request=request)
        return self._do(self.stub.OrderWorkers, said, lambda a: a.entry)

    def roll_back(self, reason: str, request: str) -> Outcome:
        said = pb.RollBackRunRequest(run=RUN, reason=reason, request=request)
        return self._do(self.stub.RollBackRun, said, lambda a: a.entry)

    def stop(self, reason: str, request: str) -> Outcome:
        return self._do(
            self.stub.StopRun, pb.StopRunRequest(run=RUN, reason=reason, request=request), lambda a: a.entry
        )


def _order(order: pb.Order) -> Outcome:
    return order.number, pb.OrderCommand.Name(order.command).removeprefix("ORDER_COMMAND_").lower().replace(
        "unspecified", ""
    )


# -- gRPC, one stream per member -----------------------------------------------------------------------------------


class _Stream:
    def __init__(self, stub: CoordinatorStub) -> None:
        self._out: SimpleQueue[pb.ClientMessages | None] = SimpleQueue()
        self._call = stub.Session(iter(self._out.get, None), timeout=60.0)
        self._heard: list[pb.ServerMessage] = []

    def say(self, **message: Any) -> None:
        self._out.put(pb.ClientMessages(messages=[pb.ClientMessage(**message)]))

    def hear(self, wanted: Callable[[pb.ServerMessage], bool]) -> pb.ServerMessage:
        while True:
            while self._heard:
                message = self._heard.pop(0)
                if wanted(message):
                    return message
            self._heard += next(self._call).messages

    def close(self) -> None:
        self._out.put(None)
        self._call.cancel()


class StreamDriver(GrpcDriver):
    """Members speak through the Session stream; people through single calls."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator)
        self._streams: dict[tuple[str, int], _Stream] = {}

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()
        super().close()

    def _stream(self, member: str, life: int) -> _Stream:
        if (member, life) not in self._streams:
            self._streams[member, life] = _Stream(self.stub)
        return self._streams[member, life]

    def _answer(self, stream: _Stream, seq: int) -> Outcome:
        heard = stream.hear(lambda m: m.WhichOneof("message") == "answered" and m.answered.seq == seq).answered
        return heard.refused.code if heard.WhichOneof("answer") == "refused" else heard.accepted

    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        stream = _Stream(self.stub)
        stream.say(register=pb.RegisterWorkerRequest(run=RUN, worker=member, nonce=nonce, supersedes=supersedes))
        answer = self._answer(stream, 0)
        if isinstance(answer, str):
            stream.close()
            return answer
        got = answer.registered
        before = self._streams.pop((member, got.incarnation), None)
        if before is not None:
            before.close()
        self._streams[member, got.incarnation] = stream
        return got.incarnation, got.rank, got.fence

    def move(self, member: str, life: int, seq: int, state: str, fence: int = 0) -> Outcome:
        stream = self._stream(member, life)
        wanted = pb.ReportedState.Value(f"REPORTED_STATE_{state.upper()}")
        stream.say(
            report=pb.ReportStateRequest(run=RUN, worker=member, incarnation=life, seq=seq, state=wanted, fence=fence)
        )
        answer = self._answer(stream, seq)
        return answer if isinstance(answer, str) else answer.entry

    def leave(self, member: str, life: int, seq: int, reason: str) -> Outcome:
        stream = self._stream(member, life)
        stream.say(leave=pb.DeregisterRequest(run=RUN, worker=member, incarnation=life, seq=seq, reason=reason))
        answer = self._answer(stream, seq)
        return answer if isinstance(answer, str) else answer.entry

    def beat(self, member: str, life: int, seq: int, order: int = 0) -> Outcome:
        stream = self._stream(member, life)
        stream.say(heartbeat=pb.HeartbeatRequest(run=RUN, worker=member, incarnation=life, seq=seq, order=order))
        heard = stream.hear(
            lambda m: (
                m.WhichOneof("message") == "heartbeat"
                or (m.WhichOneof("message") == "declined" and m.declined.topic == "heartbeat")
            )
        )
        if heard.WhichOneof("message") == "declined":
            return heard.declined.error.code
        return _order(heard.heartbeat.order)

    def arrive(self, member: str, life: int, step: int, after: int | None = 0, fence: int = 0) -> Future[Outcome]:
        stream = self._stream(member, life)
        stream.say(
            arrive=pb.WaitAtBarrierRequest(
                run=RUN, worker=member, incarnation=life, barrier="step", step=step, after=after, fence=fence
            )
        )
        return self._pool.submit(self._passed, stream, after, step, fence)

    def _passed(self, stream: _Stream, after: int | None, step: int, fence: int) -> Outcome:
        def ends(message: pb.ServerMessage) -> bool:
            match message.WhichOneof("message"):
                case "declined":
                    return message.declined.topic == "barrier/step"
                case "standing":
                    return message.standing.fence > fence
                case "passage":
                    new = message.passage.step == step if after is None else message.passage.generation > after
                    return new and message.passage.fence == fence
            return False

        heard = stream.hear(ends)
        match heard.WhichOneof("message"):
            case "declined":
                return heard.declined.error.code
            case "standing":
                return "stale_token"
        return _passage(heard.passage)


# -- HTTP ----------------------------------------------------------------------------------------------------------


class HttpDriver(_Closing):
    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__()
        self._place = coordinator.addresses["http"].partition("://")[2]

    def _post(self, path: str, body: dict[str, Any], key: str = "") -> Outcome:
        connection = http.client.HTTPConnection(self._place, timeout=PATIENCE_S)
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        return answer["code"] if response.status >= 400 else answer

    def create(self, config: dict[str, Any], request: str) -> Outcome:
        shown = self._post("/api/runs", {"run": RUN, "config": config}, request)
        return shown if isinstance(shown, str) else shown["run"]

    def join(self, member: str, nonce: bytes, supersedes: int) -> Outcome:
        body = {"member": member, "nonce": nonce.hex(), "supersedes": supersedes}
        answer = self._post(f"/api/runs/{RUN}/workers", body)
        if isinstance(answer, str):
            return answer
        return answer["incarnation"], answer["result"]["rank"], answer["result"]["fence"]

    def _of(self, member: str, what: str, body: dict[str, Any]) -> Outcome:
        return self._post(f"/api/runs/{RUN}/workers/{member}/{what}", body)

    def move(self, member: str, life: int, seq: int, state: str, fence: int = 0) -> Outcome:
        return _entry(self._of(member, "state", {"incarnation": life, "seq": seq, "state": state, "fence": fence}))

    def leave(self, member: str, life: int, seq: int, reason: str) -> Outcome:
        return _entry(self._of(member, "leave", {"incarnation": life, "seq": seq, "reason": reason}))

    def beat(self, member: str, life: int, seq: int, order: int = 0) -> Outcome:
        answer = self._of(member, "heartbeat", {"incarnation": life, "seq": seq, "order": order})
        return answer if isinstance(answer, str) else (answer["order"], answer["command"])

    def arrive(self, member: str, life: int, step: int, after: int | None = 0, fence: int = 0) -> Future[Outcome]:
        body = {"incarnation": life, "step": step, "after": after, "fence": fence}
        return self._pool.submit(self._passed, member, body)

    def _passed(self, member: str, body: dict[str, Any]) -> Outcome:
        answer = self._of(member, "barriers/step", body)
        return answer if isinstance(answer, str) else _passage(msgspec.convert(answer, Passage))

    def order(self, command: str, member: str, request: str) -> Outcome:
        return _entry(self._post(f"/api/runs/{RUN}/orders", {"command": command, "member": member}, request))

    def roll_back(self, reason: str, request: str) -> Outcome:
        return _entry(self._post(f"/api/runs/{RUN}/roll-back", {"reason": reason}, request))

    def stop(self, reason: str, request: str) -> Outcome:
        return _entry(self._post(f"/api/runs/{RUN}/stop", {"reason": reason}, request))


DRIVERS = {"tcp": TcpDriver, "grpc": GrpcDriver, "grpc stream": StreamDriver, "http": HttpDriver}
