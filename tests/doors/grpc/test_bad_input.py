"""Whatever comes in, the door answers with a reason, never with a bug, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.grpc.conftest import opened
from tests.doors.grpc.talk import PATIENCE_S, RUN, SERVICE, Talk, place

from quoracy.coordinator import Coordinator
from quoracy.wire.pb import coordinator_pb2 as pb

S = grpc.StatusCode
OURS_TO_MEND = {S.INTERNAL, S.UNKNOWN, S.UNIMPLEMENTED, S.DATA_LOSS}
MEMBERS = {
    "RegisterWorker": pb.RegisterWorkerRequest,
    "ReportState": pb.ReportStateRequest,
    "Heartbeat": pb.HeartbeatRequest,
    "WaitAtBarrier": pb.WaitAtBarrierRequest,
    "Deregister": pb.DeregisterRequest,
}
PEOPLE = {"OrderWorkers": pb.OrderWorkersRequest, "CreateRun": pb.CreateRunRequest, "GetRun": pb.GetRunRequest}
ITEMS = {
    "hello": pb.Hello,
    "register": pb.RegisterWorkerRequest,
    "report": pb.ReportStateRequest,
    "heartbeat": pb.HeartbeatRequest,
    "arrive": pb.WaitAtBarrierRequest,
    "leave": pb.DeregisterRequest,
}

numbers = st.sampled_from([0, 1, 2, 2**31, 2**53, 2**53 + 1, 2**63, 2**64 - 1])
fractions = st.sampled_from([0.0, 0.01, 1.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan")])
texts = st.sampled_from(["", "w1", RUN, "@operator", "x" * 300, "\x00", "ö/..", "qrt1_session_1.AAAA"])
raws = st.sampled_from([b"", bytes(16), bytes(32), b"\xff" * 300])


def filled(kind: type[Message]) -> st.SearchStrategy[Message]:
    """A message with some of its plain fields set, to whatever their type allows."""
    by_type: dict[int, st.SearchStrategy[Any]] = {
        4: numbers, 13: st.sampled_from([0, 1, 2**31, 2**32 - 1]), 14: st.integers(-3, 9), 1: fractions, 9: texts,
        12: raws,
    }  # fmt: skip
    plain = {
        field.name: by_type[field.type]
        for field in kind.DESCRIPTOR.fields
        if field.type in by_type and field.name != "timeout_s"
    }
    required = {"run": st.just(RUN), "worker": texts} if "worker" in plain else {}
    return st.fixed_dictionaries(required, optional={n: s for n, s in plain.items() if n not in required}).map(
        lambda fields: kind(**fields)
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    limits = {"messages_per_s": 10_000_000, "burst_messages": 10_000_000}
    with opened(tmp_path_factory.mktemp("bad"), limits=limits) as coordinator:
        yield coordinator


@pytest.fixture(scope="module")
def talk(running: Coordinator) -> Iterator[Talk]:
    with Talk(place(running)) as talk:
        talk.create(heartbeat_timeout_s=600)
        talk.ready("w1")
        yield talk


def outcome(talk: Talk, method: str, request: bytes) -> grpc.StatusCode:
    called = talk.channel.unary_unary(f"/{SERVICE}/{method}", None, None).future(request, timeout=PATIENCE_S)
    return called.code()


@settings(max_examples=60)
@given(method=st.sampled_from(sorted(MEMBERS | PEOPLE)), request_=st.binary(max_size=60))
def test_any_bytes_as_a_call(talk: Talk, method: str, request_: bytes) -> None:
    assert outcome(talk, method, request_) not in OURS_TO_MEND


@settings(max_examples=150)
@given(
    drawn=st.sampled_from(sorted(MEMBERS | PEOPLE)).flatmap(
        lambda m: st.tuples(st.just(m), filled((MEMBERS | PEOPLE)[m]))
    )
)
def test_any_values_in_a_call(talk: Talk, drawn: tuple[str, Any]) -> None:
    method, request = drawn
    if method == "WaitAtBarrier":
        request.timeout_s = 0.01
    assert outcome(talk, method, request.SerializeToString()) not in OURS_TO_MEND, request


@settings(max_examples=100)
@given(
    drawn=st.lists(
        st.sampled_from(sorted(ITEMS)).flatmap(lambda name: filled(ITEMS[name]).map(lambda item: (name, item))),
        min_size=1,
        max_size=5,
    )
)
def test_any_values_on_a_stream(talk: Talk, drawn: list[tuple[str, Any]]) -> None:
    with talk.session() as chat:
        messages = [pb.ClientMessage(**{name: item}) for name, item in drawn]
        chat.raw(pb.ClientMessages(messages=messages).SerializeToString())
        chat.say(hello=pb.Hello(run=RUN, worker="last"))
        while (welcomed := chat.hear("welcome")).worker != "last":
            assert welcomed.worker


@settings(max_examples=60)
@given(raw=st.binary(max_size=60))
def test_any_bytes_on_a_stream(talk: Talk, raw: bytes) -> None:
    with talk.session() as chat:
        chat.raw(raw)
        chat.done()
        for batch in ended_well(chat.stream):
            for message in batch.messages:
                assert message.goodbye.error.code in ("", "malformed")
        assert chat.stream.code() in (S.OK, S.INVALID_ARGUMENT)


def ended_well(stream: Any) -> Iterator[Any]:
    try:
        yield from stream
    except grpc.RpcError:
        return


def test_after_all_that_the_coordinator_serves(running: Coordinator, talk: Talk) -> None:
    assert talk.call(pb.GetStatusRequest()).serving
    assert running._open().server.runs[RUN].host.stopped is None
