"""Protobuf messages from and to the core's own. No decisions here, only names and units.

What comes in is not checked here either: ranges and lengths are checked where they are on every door, when the
message or the event inside it is decoded.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import json_format, struct_pb2
from msgspec import Raw

from quoracy.core.bounds import exact
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
from quoracy.core.cluster.state import Order
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.codec import encode
from quoracy.core.errors import MAX_SHOWN, Refusal, Refused
from quoracy.core.machine import Event, MemberEvent
from quoracy.core.members import Accepted, Cause, joined_as
from quoracy.core.messages import Answered, Call, Declined, Hello, Moved, Told, Welcome
from quoracy.doors.calls import Registered
from quoracy.doors.grpc.errors import detail
from quoracy.wire.messages import Goodbye, Granted, ToServer, to_server
from quoracy.wire.pb import coordinator_pb2 as pb

_REPORTS: Final[dict[int, type[MemberEvent]]] = {
    pb.REPORTED_STATE_READY: WorkerReady,
    pb.REPORTED_STATE_LOADING: WorkerLoading,
    pb.REPORTED_STATE_TRAINING: WorkerTraining,
    pb.REPORTED_STATE_CHECKPOINTING: WorkerCheckpointing,
    pb.REPORTED_STATE_IDLE: WorkerIdle,
}
_COMMANDS: Final = {
    "stop": pb.ORDER_COMMAND_STOP,
    "pause": pb.ORDER_COMMAND_PAUSE,
    "resume": pb.ORDER_COMMAND_RESUME,
    "reconfigure": pb.ORDER_COMMAND_RECONFIGURE,
    "checkpoint": pb.ORDER_COMMAND_CHECKPOINT,
}
COMMAND_NAMES: Final = {number: name for name, number in _COMMANDS.items()}
_STATES: Final = {
    "Initializing": pb.WORKER_STATE_INITIALIZING,
    "Idle": pb.WORKER_STATE_IDLE,
    "LoadingData": pb.WORKER_STATE_LOADING_DATA,
    "Training": pb.WORKER_STATE_TRAINING,
    "Checkpointing": pb.WORKER_STATE_CHECKPOINTING,
    "Recovering": pb.WORKER_STATE_RECOVERING,
    "Failed": pb.WORKER_STATE_FAILED,
    "Left": pb.WORKER_STATE_LEFT,
}


# -- in ------------------------------------------------------------------------------------------------------------


def join_of(said: pb.RegisterWorkerRequest) -> WorkerRegistered:
    member = said.worker or f"w-{said.nonce.hex()[:16]}"
    proof = said.challenge + said.signature if said.key else b""
    return WorkerRegistered(
        member, said.supersedes, said.nonce, said.key, proof, said.address, said.gpus, dict(sorted(said.labels.items()))
    )


def report_of(said: pb.ReportStateRequest) -> MemberEvent | Refusal:
    kind = _REPORTS.get(said.state)
    if kind is None:
        why = f"state = {said.state} says nothing"
        return Refusal("malformed", why, "send one of: ready, loading, training, checkpointing, idle")
    if "fence" in kind.__struct_fields__:
        return kind(said.worker, said.incarnation, said.fence)  # type: ignore[call-arg]
    return kind(said.worker, said.incarnation)


def left_of(said: pb.DeregisterRequest) -> WorkerLeft:
    return WorkerLeft(said.worker, said.incarnation, said.reason)


def heartbeat_of(said: pb.HeartbeatRequest) -> Heartbeat:
    return Heartbeat(
        said.worker, said.incarnation, said.seq, said.step, said.epoch, said.progress, said.cpu, said.gpu, said.memory,
        said.task, said.order, dict(said.metrics) if said.metrics else {},
    )  # fmt: skip


def arrive_of(said: pb.WaitAtBarrierRequest) -> Arrive | Refusal:
    if not said.HasField("step"):
        return Refusal("malformed", "step is not set", "say where the training is: 0 for the first step")
    after = said.after if said.HasField("after") else None
    return Arrive(said.worker, said.incarnation, said.barrier, said.step, after, said.fence)


def hello_of(said: pb.Hello) -> ToServer | Refusal:
    return checked(Hello(said.run, said.worker, said.incarnation, said.token))


def call_of(run: str, cause: Cause, event: Event) -> ToServer | Refusal:
    return checked(Call(run, cause, Raw(encode(event))))


def checked(message: Hello | Call) -> ToServer | Refusal:
    """As it would have come through the TCP door: within its ranges, or a refusal that names the field."""
    return to_server.read(encode(message))


def plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Protobuf's own tables know only fractions: a whole one was meant as a whole number. They have no order either:
    sorted, the same request gives the same bytes. Raises Refused."""
    try:
        table: dict[str, Any] = _whole(json_format.MessageToDict(struct))
    except (ValueError, json_format.Error) as error:
        raise Refused(Refusal("malformed", str(error)[:MAX_SHOWN], "send finite numbers")) from None
    return table


def _whole(value: Any) -> Any:
    match value:
        case float():
            return exact(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {name: _whole(value[name]) for name in sorted(value)}
    return value


# -- out, to members -----------------------------------------------------------------------------------------------


def registered(known: Registered) -> pb.RegisterWorkerResponse:
    response = _assigned(known.run, known.member, known.entry, known.result)
    response.token = known.token
    _mark(response.barriers, known.barriers)
    return response


def _assigned(run: str, member: str, entry: int, result: dict[str, Any]) -> pb.RegisterWorkerResponse:
    return pb.RegisterWorkerResponse(
        run=run, worker=member, incarnation=result["incarnation"], rank=result["rank"], seat=result["seat"],
        fence=result["fence"], heartbeat_interval_s=result["heartbeat_interval_s"],
        heartbeat_timeout_s=result["heartbeat_timeout_s"], entry=entry,
    )  # fmt: skip


def reported(entry: int, standing: Standing) -> pb.ReportStateResponse:
    response = pb.ReportStateResponse(entry=entry, state=_STATES.get(standing.state), fence=standing.fence)
    _mark(response.barriers, standing.barriers)
    return response


def seen(known: HeartbeatSeen, token: str = "") -> pb.HeartbeatResponse:
    if not known.order:
        return pb.HeartbeatResponse(seq=known.seq, token=token)
    order = Order(known.order, known.command, known.arguments, known.fence)
    return pb.HeartbeatResponse(seq=known.seq, order=ordered(order), token=token)


def ordered(order: Order) -> pb.Order:
    said = pb.Order(number=order.number, command=_COMMANDS.get(order.command), fence=order.fence)
    if order.arguments:
        said.arguments.update(order.arguments)
    return said


def passed(passage: Passage) -> pb.WaitAtBarrierResponse:
    return pb.WaitAtBarrierResponse(
        barrier=passage.barrier, generation=passage.generation, step=passage.step, released=passage.released,
        order=passage.order, of=passage.of, reason=passage.reason, fence=passage.fence,
    )  # fmt: skip


def stands(standing: Standing) -> pb.Standing:
    said = pb.Standing(
        incarnation=standing.incarnation, state=_STATES.get(standing.state), rank=max(standing.rank, 0),
        reason=standing.reason, fence=standing.fence, closed=standing.run == "Closed",
    )  # fmt: skip
    _mark(said.barriers, standing.barriers)
    return said


def _mark(marks: Any, barriers: dict[str, tuple[int, int]]) -> None:
    for name, (generation, step) in barriers.items():
        marks[name].generation = generation
        marks[name].step = step


def item(message: Any, run: str, challenge: bytes) -> pb.ServerMessage | None:
    """What a host says to a member, on a stream; None if there is nothing to say. ``run``: of a join's answer."""
    match message:
        case Told(member=member, incarnation=incarnation, value=value):
            return _told(member, incarnation, value)
        case Answered(cause=cause, answer=answer):
            incarnation = cause.incarnation
            if isinstance(answer, Refusal):
                said = pb.Answered(seq=cause.seq, refused=detail(answer))
            else:
                said = pb.Answered(seq=cause.seq, accepted=_accepted(run, cause, answer))
                incarnation = incarnation if cause.seq else joined_as(answer)
            return pb.ServerMessage(worker=cause.member, incarnation=incarnation, answered=said)
        case Welcome(member=member, incarnation=incarnation):
            welcome = pb.Welcome(incarnation=incarnation, term=message.term, entry=message.entry, challenge=challenge)
            return pb.ServerMessage(worker=member, incarnation=incarnation, welcome=welcome)
        case Granted(member=member, incarnation=incarnation):
            granted = pb.Granted(run=message.run, token=message.token)
            return pb.ServerMessage(worker=member, incarnation=incarnation, granted=granted)
        case Declined(member=member, incarnation=incarnation):
            declined = pb.Declined(topic=message.topic, error=detail(message.refusal))
            return pb.ServerMessage(worker=member, incarnation=incarnation, declined=declined)
        case Moved():
            return pb.ServerMessage(moved=pb.Moved(run=message.run, term=message.term, address=message.address))
        case Goodbye(refusal=refusal):
            return pb.ServerMessage(goodbye=pb.Goodbye(error=detail(refusal)))
    return None


def _told(member: str, incarnation: int, value: Any) -> pb.ServerMessage | None:
    match value:
        case HeartbeatSeen():
            return pb.ServerMessage(worker=member, incarnation=incarnation, heartbeat=seen(value))
        case Passage():
            return pb.ServerMessage(worker=member, incarnation=incarnation, passage=passed(value))
        case Standing():
            return pb.ServerMessage(worker=member, incarnation=incarnation, standing=stands(value))
        case Order():
            return pb.ServerMessage(worker=member, incarnation=incarnation, order=ordered(value))
    return None


def _accepted(run: str, cause: Cause, answer: Accepted) -> pb.Accepted:
    if cause.seq or not answer.result:
        return pb.Accepted(entry=answer.entry)
    return pb.Accepted(entry=answer.entry, registered=_assigned(run, cause.member, answer.entry, answer.result))


# -- out, to people ------------------------------------------------------------------------------------------------


def shown_run(shown: dict[str, Any]) -> pb.Run:
    """From what ``show`` or ``runs`` answers; of many runs the lists are only counted."""
    workers, barriers = shown.get("workers", 0), shown.get("barriers", 0)
    run = pb.Run(
        run=shown["run"], kind=shown.get("kind", ""), rules=shown.get("rules", 0), label=shown.get("label", ""),
        entry=shown.get("entry", 0), at_s=shown.get("at_us", 0) / 1e6, term=shown.get("term", 0),
        host=shown.get("host", ""), address=shown.get("address", ""), phase=shown.get("phase", ""),
        fence=shown.get("generation", 0), here=shown.get("here", 0), taking_part=shown.get("taking_part", 0),
        explanation=_explanation(shown["explanation"]),
        worker_count=len(workers) if isinstance(workers, list) else workers,
        barrier_count=len(barriers) if isinstance(barriers, list) else barriers,
    )  # fmt: skip
    if isinstance(workers, list):
        run.workers.extend(map(_worker, workers))
    if isinstance(barriers, list):
        run.barriers.extend(map(_barrier, barriers))
    return run


def _explanation(explained: dict[str, Any]) -> pb.Explanation:
    waits = [
        pb.Wait(
            what=wait["what"], missing=wait["missing"], waited_s=wait["waited_us"] / 1e6,
            left_s=None if wait["left_us"] is None else wait["left_us"] / 1e6, then=wait["then"],
        )
        for wait in explained.get("waits", ())
    ]  # fmt: skip
    return pb.Explanation(sentence=explained["sentence"], waits=waits)


def _worker(worker: dict[str, Any]) -> pb.Worker:
    fields = {name: value for name, value in worker.items() if name in _WORKER_FIELDS}
    return pb.Worker(worker=worker["id"], state=_STATES.get(worker["state"]), **fields)


def _barrier(barrier: dict[str, Any]) -> pb.Barrier:
    fields = {name: value for name, value in barrier.items() if name in _BARRIER_FIELDS and value is not None}
    return pb.Barrier(barrier=barrier["name"], **fields)


_WORKER_FIELDS: Final = frozenset(pb.Worker.DESCRIPTOR.fields_by_name) - {"worker", "state"}
_BARRIER_FIELDS: Final = frozenset(pb.Barrier.DESCRIPTOR.fields_by_name) - {"barrier"}
