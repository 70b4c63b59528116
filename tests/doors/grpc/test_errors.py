"""Every refusal is told with the status that its code has, and with the exact code, the reason and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from tests.doors.grpc.conftest import opened
from tests.doors.grpc.talk import RUN, Talk, fresh, place, refusal, status

from quoracy.coordinator import Coordinator
from quoracy.core.errors import CATALOG, Refusal
from quoracy.doors.grpc.errors import MAX_FIX_BYTES, MAX_WHY_BYTES, detail, status_of
from quoracy.wire.pb import coordinator_pb2 as pb

S = grpc.StatusCode
LIFE: dict[str, Any] = {"run": RUN, "worker": "w1", "incarnation": 1}


def test_every_code_has_a_status_that_there_is() -> None:
    statuses = {code: status_of(Refusal(code, "why", "fix")) for code in CATALOG}
    assert S.OK not in statuses.values()
    assert statuses["superseded"] is S.ABORTED
    assert status_of(Refusal("never heard of", "why", "fix")) is S.INTERNAL


@pytest.mark.parametrize("code", CATALOG)
def test_a_detail_says_whether_sending_it_again_helps(code: str) -> None:
    told = detail(Refusal(code, "why", "fix"))
    assert pb.Retry.Name(told.retry) == f"RETRY_{CATALOG[code].retry.name}"
    assert told.retry_after_s == 0.0


def test_a_detail_says_when_to_come_again() -> None:
    told = detail(Refusal("come_later", "full", "wait", 2.5))
    assert (told.retry, told.retry_after_s) == (pb.RETRY_LATER, 2.5)


def test_a_long_reason_is_cut_to_what_metadata_can_hold() -> None:
    told = detail(Refusal("bug", "ö" * 5000, "ü" * 5000))
    assert (len(told.why.encode()), len(told.fix.encode())) == (MAX_WHY_BYTES, MAX_FIX_BYTES)
    assert set(told.why) == {"ö"}


REFUSED: list[tuple[str, grpc.StatusCode, Message]] = [
    ("unknown_run", S.NOT_FOUND, pb.GetRunRequest(run="nowhere")),
    ("unknown_run", S.NOT_FOUND, pb.RegisterWorkerRequest(run="nowhere", worker="w2", nonce=bytes(16))),
    ("malformed", S.INVALID_ARGUMENT, pb.RegisterWorkerRequest(run=RUN, worker="w2", nonce=b"short")),
    ("malformed", S.INVALID_ARGUMENT, pb.RegisterWorkerRequest(run=RUN, worker="w/2", nonce=bytes(16))),
    ("malformed", S.INVALID_ARGUMENT, pb.RegisterWorkerRequest(run=RUN, worker="w2", nonce=bytes(16), key=b"k")),
    ("malformed", S.INVALID_ARGUMENT, pb.ReportStateRequest(**LIFE, seq=0, state=pb.REPORTED_STATE_READY)),
    ("malformed", S.INVALID_ARGUMENT, pb.ReportStateRequest(**LIFE, seq=2)),
    ("malformed", S.INVALID_ARGUMENT, pb.DeregisterRequest(**LIFE)),
    ("malformed", S.INVALID_ARGUMENT, pb.HeartbeatRequest(**LIFE, seq=1, cpu=2.0)),
    ("malformed", S.INVALID_ARGUMENT, pb.HeartbeatRequest(**LIFE, seq=2**60)),
    ("malformed", S.INVALID_ARGUMENT, pb.WaitAtBarrierRequest(**LIFE, barrier="step", timeout_s=-1)),
    ("malformed", S.INVALID_ARGUMENT, pb.WaitAtBarrierRequest(**LIFE, barrier="step", timeout_s=float("nan"))),
    ("malformed", S.INVALID_ARGUMENT, pb.WaitAtBarrierRequest(**LIFE, barrier="")),
    ("malformed", S.INVALID_ARGUMENT, pb.OrderWorkersRequest(run=RUN)),
    ("malformed", S.INVALID_ARGUMENT, pb.StopRunRequest(run=RUN, reason="x" * 300)),
    ("malformed", S.INVALID_ARGUMENT, pb.WaitAtBarrierRequest(**LIFE, barrier="step")),
    ("contradiction", S.INVALID_ARGUMENT, pb.WaitAtBarrierRequest(**LIFE, barrier="step", step=0, after=7)),
    ("contradiction", S.INVALID_ARGUMENT, pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=7, seq=1)),
    ("run_exists", S.ALREADY_EXISTS, pb.CreateRunRequest(run=RUN)),
    ("stale_join", S.ABORTED, pb.RegisterWorkerRequest(run=RUN, worker="w1", supersedes=9, nonce=bytes(16))),
    ("wrong_state", S.FAILED_PRECONDITION, pb.ReportStateRequest(**LIFE, seq=2, state=pb.REPORTED_STATE_CHECKPOINTING)),
    ("sequence_gap", S.FAILED_PRECONDITION, pb.ReportStateRequest(**LIFE, seq=9, state=pb.REPORTED_STATE_IDLE)),
    ("unknown_worker", S.NOT_FOUND, pb.HeartbeatRequest(run=RUN, worker="w9", incarnation=1, seq=1)),
    ("unknown_member", S.NOT_FOUND, pb.DeregisterRequest(run=RUN, worker="w9", incarnation=1, seq=1)),
    ("unknown_worker", S.NOT_FOUND, pb.OrderWorkersRequest(run=RUN, worker="w9", command=pb.ORDER_COMMAND_PAUSE)),
    ("fleet_full", S.RESOURCE_EXHAUSTED, pb.RegisterWorkerRequest(run=RUN, worker="w3", nonce=bytes(16))),
    ("still_waiting", S.DEADLINE_EXCEEDED, pb.WaitAtBarrierRequest(**LIFE, barrier="step", step=0, timeout_s=0.05)),
]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run with its two workers, of which one waits for the other."""
    with opened(tmp_path_factory.mktemp("full")) as running, Talk(place(running)) as talk:
        talk.create(max_workers=2, heartbeat_timeout_s=60)
        talk.ready("w1")
        talk.ready("w2")
        yield talk


@pytest.mark.parametrize(("code", "status", "request_"), REFUSED, ids=[f"{c}-{i}" for i, (c, *_) in enumerate(REFUSED)])
def test_a_refusal_has_its_status_and_its_code(
    full: Talk, code: str, status: grpc.StatusCode, request_: Message
) -> None:
    was, told = full.refused(request_)
    assert (was, told.code) == (status, code), told


def test_whoever_waits_is_told_what_for_before_the_deadline_of_its_own_call(full: Talk) -> None:
    was, told = full.refused(pb.WaitAtBarrierRequest(**LIFE, barrier="step", step=0), timeout_s=1.0)
    assert (was, told.code) == (S.DEADLINE_EXCEEDED, "still_waiting")
    assert "w2" in told.why


def test_what_is_no_setting_is_refused_by_field(talk: Talk) -> None:
    request = pb.CreateRunRequest(run="other")
    request.config.update({"barrier_min": 0})
    assert "barrier_min" in talk.refused(request)[1].why
    request.config.update({"barrier_min": 1.5})
    was, told = talk.refused(request)
    assert (was, told.code) == (S.INVALID_ARGUMENT, "config")


def test_a_life_that_is_over_and_one_that_was_superseded(talk: Talk) -> None:
    talk.ready("w1")
    talk.join("w1")
    assert talk.refused(pb.HeartbeatRequest(**LIFE, seq=1))[:1] == (S.ABORTED,)
    assert talk.refused(pb.HeartbeatRequest(**LIFE, seq=1))[1].code == "superseded"
    left = pb.DeregisterRequest(run=RUN, worker="w1", incarnation=2, seq=1)
    assert talk.call(left) == talk.call(left)
    gone = talk.refused(pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=2, seq=1))
    assert (gone[0], gone[1].code) == (S.FAILED_PRECONDITION, "member_gone")


def test_a_repeated_command_gets_its_answer_and_an_older_one_none(talk: Talk) -> None:
    talk.join("w1")
    entry = talk.report("w1", 1, pb.REPORTED_STATE_READY)
    assert talk.report("w1", 1, pb.REPORTED_STATE_READY) == entry
    talk.report("w1", 2, pb.REPORTED_STATE_LOADING)
    old = talk.refused(pb.ReportStateRequest(**LIFE, seq=1, state=pb.REPORTED_STATE_READY))
    assert (old[0], old[1].code) == (S.OUT_OF_RANGE, "answer_forgotten")


def test_after_a_roll_back_older_fences_are_void(talk: Talk) -> None:
    talk.ready("w1")
    talk.call(pb.RollBackRunRequest(run=RUN, reason="bad loss"))
    arrive = pb.WaitAtBarrierRequest(**LIFE, barrier="step", step=0)
    assert talk.refused(arrive)[1].code == "stale_token"
    stale = talk.refused(pb.ReportStateRequest(**LIFE, seq=2, state=pb.REPORTED_STATE_IDLE, fence=0))
    assert (stale[0], stale[1].code) == (S.ABORTED, "stale_token")
    talk.call(pb.ReportStateRequest(**LIFE, seq=3, state=pb.REPORTED_STATE_IDLE, fence=1))
    arrive.fence = 1
    assert talk.call(arrive).released


def test_a_run_that_is_over_takes_nobody_in(talk: Talk) -> None:
    talk.call(pb.StopRunRequest(run=RUN, reason="enough"))
    closed = talk.refused(pb.RegisterWorkerRequest(run=RUN, worker="w1", nonce=fresh()))
    assert (closed[0], closed[1].code) == (S.FAILED_PRECONDITION, "run_closed")


def test_one_request_means_one_thing(talk: Talk) -> None:
    stop = pb.RollBackRunRequest(run=RUN, reason="once", request="r1")
    assert talk.call(stop).entry == talk.call(stop).entry
    stop.reason = "twice"
    again = talk.refused(stop)
    assert (again[0], again[1].code) == (S.INVALID_ARGUMENT, "contradiction")


def test_the_same_request_is_the_same_in_whatever_order_its_arguments_travel(talk: Talk) -> None:
    names = [f"name-{number}" for number in range(20)]
    entries = set()
    for order in (names, names[::-1], names[7:] + names[:7]):
        request = pb.OrderWorkersRequest(run=RUN, command=pb.ORDER_COMMAND_RECONFIGURE, request="r2")
        for name in order:
            request.arguments[name] = 1
        entries.add(talk.call(request).entry)
    assert len(entries) == 1


def test_whoever_calls_too_often_is_told_so(tmp_path: Path) -> None:
    limits = {"messages_per_s": 1, "burst_messages": 3}
    with opened(tmp_path, limits=limits) as running, Talk(place(running)) as talk:
        for _ in range(3):
            talk.call(pb.GetStatusRequest())
        was, told = talk.refused(pb.GetStatusRequest())
        assert (was, told.code) == (S.RESOURCE_EXHAUSTED, "too_fast")
        assert "127.0.0.1" in told.why


def test_a_host_that_follows_says_who_serves(tmp_path: Path) -> None:
    with opened(tmp_path) as serving, Talk(place(serving)) as there:
        there.create()
        with opened(tmp_path) as following, Talk(place(following)) as here:
            was, told = here.refused(pb.RegisterWorkerRequest(run=RUN, worker="w1", nonce=fresh()))
            assert (was, told.code, told.address) == (S.UNAVAILABLE, "not_serving", serving.url)


@pytest.mark.parametrize("method", ["RegisterWorker", "Heartbeat", "GetRun", "CreateRun", "WaitAtBarrier"])
def test_bytes_that_are_no_message_are_refused_and_harm_nobody(
    coordinator: Coordinator, talk: Talk, method: str
) -> None:
    for bad in (b"\xff\xff\xff", b"\x0a\x05abc", b"\x0a\x02\xff\xfe"):
        with pytest.raises(grpc.RpcError) as caught:
            talk.raw(method, bad)
        assert status(caught.value) is S.INVALID_ARGUMENT
        assert f"{method}Request" in refusal(caught.value).why
    assert coordinator.ask("status")["serving"]


def test_an_unknown_method_is_unimplemented(talk: Talk) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        talk.raw("Dance", b"")
    assert status(caught.value) is S.UNIMPLEMENTED


def test_a_message_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"max_frame_bytes": 4096}) as running, Talk(place(running)) as talk:
        talk.create()
        with pytest.raises(grpc.RpcError) as caught:
            talk.raw("GetRun", bytes(8192))
        assert status(caught.value) is S.RESOURCE_EXHAUSTED
        assert talk.call(pb.GetStatusRequest()).serving
