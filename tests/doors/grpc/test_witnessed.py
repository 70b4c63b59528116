"""Members of witnessed runs through gRPC: what they say is taken or refused by name, and news come when they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from blake3 import blake3
from google.protobuf.struct_pb2 import Struct
from tests.doors.grpc.fellows import MODEL, RUN, Fellow, trains
from tests.doors.grpc.talk import PATIENCE_S, refusal
from tests.e2e.command import until

from quoracy.coordinator import Coordinator
from quoracy.doors.auth import Authority, MemberKey, Role
from quoracy.wire.pb import coordinator_pb2, coordinator_pb2_grpc
from quoracy.wire.pb import witnessed_pb2 as pb

ALONE = {"waiting_extra_s": 0, "checkpoint": "none", "total_steps": 5}
DIGEST = blake3(b"a result").digest()


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=tmp_path, grpc={"port": 0}, http={"port": 0}) as running:
        yield running


@pytest.fixture
def fellow(coordinator: Coordinator) -> Iterator[Callable[[str], Fellow]]:
    come: list[Fellow] = []

    def make(name: str) -> Fellow:
        come.append(Fellow(coordinator, name))
        return come[-1]

    yield make
    for one in come:
        one.channel.close()


def refused(call: Callable[[], Any]) -> tuple[str, grpc.StatusCode]:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return refusal(error.value).code, error.value.code()


def in_round(one: Fellow) -> Any:
    """Its first round, with everything said that it needs."""
    one.join()
    one.sees("standing", lambda standing: standing.state == pb.MEMBER_STATE_WARMING)
    one.loaded()
    shown = one.sees("round_shown", trains)
    one.model_hash()
    return shown


def test_a_join_says_whether_it_takes_part_and_all_that_it_needs(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE, hyper={"lr": 0.5}, max_clients=1)
    one = fellow("m1")
    entered = one.join(addresses=["10.0.0.1:7000"], labels={"zone": "a"})
    assert (entered.status, entered.epoch, entered.incarnation) == (pb.JOIN_STATUS_ACCEPTED, 0, 1)
    assert (entered.heartbeat_interval_s, entered.heartbeat_timeout_s) == (5.0, 30.0)
    assert (entered.config["hyper"]["lr"], entered.config["batch_size"]) == (0.5, 32)
    assert entered.objects_at.http == coordinator.addresses["http"]
    assert entered.objects_at.prefix == RUN
    late = fellow("m2").join()
    assert (late.status, late.epoch) == (pb.JOIN_STATUS_PENDING, 1)
    assert refused(fellow("m3").join) == ("come_later", grpc.StatusCode.RESOURCE_EXHAUSTED)
    shown = {member["id"]: member for member in coordinator.show(RUN)["members"]}
    assert (shown["m1"]["addresses"], shown["m1"]["labels"]) == (["10.0.0.1:7000"], {"zone": "a"})


def test_a_whole_round_alone(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    one = fellow("m1")
    shown = in_round(one)
    assert (shown.epoch, shown.round, shown.step, list(shown.roster)) == (0, 0, 0, ["m1"])
    assert (len(shown.seed), shown.witness, shown.left_s > 0) == (16, True, True)
    (mine,) = shown.mine
    assert (mine.assignment, mine.attempt) == (0, 1)
    assert [(span.first, span.end) for span in mine.batches] == [(0, 8)]
    committed = one.commit(shown, DIGEST)
    results = one.sees("results")
    assert [(result.digest, result.base, result.member) for result in results.results] == [(DIGEST, MODEL, "m1")]
    taken = one.attest(shown, 1, 1)
    assert taken.phase == pb.WITNESSED_PHASE_ROUND_TRAIN
    sealed = one.sees("sealed")
    (first,) = sealed.rounds
    assert (first.step, first.model) == (0, MODEL)
    assert [(one_.result.digest, one_.result.base, one_.voided) for one_ in first.results] == [(DIGEST, MODEL, False)]
    assert coordinator.show(RUN)["step"] == 1
    assert committed.entry < coordinator.show(RUN)["entry"]


def test_only_what_is_different_is_shown_again(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    one = fellow("m1")
    in_round(one)
    views = ("standing", "round_shown", "results", "sealed", "peers")
    quiet = one.beat()
    assert not any(quiet.HasField(topic) for topic in views)
    assert (quiet.phase, quiet.epoch, quiet.round) == (pb.WITNESSED_PHASE_ROUND_TRAIN, 0, 0)
    one.known = {"standing": one.known["standing"]}
    assert [topic for topic in views if one.beat().HasField(topic)] == []  # both were shown by the first of these
    one.known = {}
    again = one.beat()
    assert again.HasField("standing")
    assert again.HasField("round_shown")
    assert again.HasField("peers")


def test_sealed_rounds_are_shown_once_each(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    one = fellow("m1")
    shown = in_round(one)
    steps = []
    for step in range(3):
        digest = blake3(b"%d" % step).digest()
        one.commit(shown, digest)
        one.attest(shown, 1, 1)
        heard = None
        while heard is None or not heard.HasField("round_shown") or heard.round_shown.step != step + 1:
            heard = one.beat(wait_ms=500)
            steps += [round_.step for round_ in heard.sealed.rounds]
        shown = heard.round_shown
        one.model_hash(step + 1)
    assert steps == [0, 1, 2]
    one.known = {}
    assert [round_.step for round_ in one.beat().sealed.rounds] == [0, 1, 2]


def test_what_is_said_of_another_epoch_is_refused_by_name(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    one = fellow("m1")
    shown = in_round(one)
    one.commit(shown, DIGEST)
    one.attest(shown, 1, 1)
    while not (heard := one.beat(wait_ms=500)).HasField("round_shown") or heard.round_shown.step != 1:
        pass
    for epoch in (1, 0):
        check = pb.HealthCheckRequest(**one.mine(), step=0, epoch=epoch)
        said = (partial(one.call, "HealthCheck", check), partial(one.model_hash, 1, epoch=epoch))
        for say in said:
            if epoch:
                assert refused(say) == ("wrong_step", grpc.StatusCode.FAILED_PRECONDITION)
            else:
                say()


def test_a_heartbeat_is_held_until_there_is_news(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", min_clients=2, heartbeat_interval_s=20, heartbeat_timeout_s=60, **ALONE)
    one, other = fellow("m1"), fellow("m2")
    one.join()
    one.beat()
    heard: list[Any] = []
    waiting = threading.Thread(target=lambda: heard.append(one.beat(wait_ms=20_000)))
    waiting.start()
    standins = coordinator._open().witnessed._standins
    until(lambda: any(standin.waiting for standin in list(standins.values())), "it waits")
    assert heard == []
    other.join()
    waiting.join(PATIENCE_S)
    assert heard[0].phase == pb.WITNESSED_PHASE_WARMUP
    assert heard[0].standing.state == pb.MEMBER_STATE_WARMING
    assert heard[0].standing.load.source == pb.MODEL_SOURCE_INITIAL


def test_what_is_said_at_the_wrong_time_is_refused_by_name(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", min_clients=1, **ALONE)
    one = fellow("m1")
    shown = in_round(one)
    wrong = ("wrong_step", grpc.StatusCode.FAILED_PRECONDITION)
    assert refused(lambda: one.loaded(epoch=3)) == wrong
    assert refused(lambda: one.model_hash(step=9)) == wrong
    shown.round = 7
    assert refused(lambda: one.attest(shown, 0, 0)) == wrong
    check = pb.HealthCheckRequest(**one.mine(), step=4, accused=["m9"], results=[0])
    assert refused(lambda: one.call("HealthCheck", check)) == wrong
    holds = pb.HoldsRequest(**one.mine(), epoch=0, round=0, known=0, step=4, missing=b"\1")
    assert refused(lambda: one.call("Holds", holds))[0] in ("wrong_step", "contradiction")
    assert refused(lambda: one.commit(shown, DIGEST)) == ("late_result", grpc.StatusCode.FAILED_PRECONDITION)
    done = pb.CheckpointDoneRequest(**one.mine(), seq=2, step=5, model=MODEL, digest=DIGEST)
    assert refused(lambda: one.call("CheckpointDone", done))[1] is grpc.StatusCode.FAILED_PRECONDITION
    shown.round = 0
    one.commands = 2
    assert one.commit(shown, DIGEST).entry > 0


def test_commands_are_known_by_their_number(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    one = fellow("m1")
    shown = in_round(one)
    first = one.commit(shown, DIGEST)
    assert one.commit(shown, DIGEST, seq=1) == first
    assert refused(lambda: one.commit(shown, DIGEST, seq=3)) == ("sequence_gap", grpc.StatusCode.FAILED_PRECONDITION)
    assert refused(lambda: one.commit(shown, DIGEST, seq=0)) == ("malformed", grpc.StatusCode.INVALID_ARGUMENT)
    other = blake3(b"another").digest()
    assert refused(lambda: one.commit(shown, other, seq=2))[0] == "contradiction"
    left = one.call("Leave", pb.MemberLeaveRequest(**one.mine(), seq=3, reason="enough"))
    assert left.entry > first.entry
    assert refused(one.beat) == ("member_gone", grpc.StatusCode.FAILED_PRECONDITION)
    assert coordinator.show(RUN)["members"][0]["reason"] == "enough"


def test_a_newer_life_ends_the_older_one(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", min_clients=2, heartbeat_interval_s=20, heartbeat_timeout_s=60, **ALONE)
    old, new = fellow("m1"), fellow("m1")
    new.key = old.key
    old.join()
    old.beat()
    ends: list[Any] = []
    waiting = threading.Thread(target=lambda: ends.append(refused(lambda: old.beat(wait_ms=20_000))))
    waiting.start()
    standins = coordinator._open().witnessed._standins
    until(lambda: any(standin.waiting for standin in list(standins.values())), "it waits")
    assert new.join(supersedes=1).incarnation == 2
    waiting.join(PATIENCE_S)
    assert ends == [("superseded", grpc.StatusCode.ABORTED)]


def test_a_join_without_a_key_is_refused_and_told_why(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    malformed = ("malformed", grpc.StatusCode.INVALID_ARGUMENT)
    assert refused(lambda: fellow("m1").join(key=b"", signature=b"", challenge=b"")) == malformed
    assert refused(lambda: fellow("m1").join(supersedes=None)) == malformed
    assert fellow("m1").join().incarnation == 1


def test_calls_for_another_kind_of_run_are_told_so(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN)
    assert refused(fellow("m1").join) == ("wrong_kind", grpc.StatusCode.INVALID_ARGUMENT)


def test_nobody_speaks_for_a_run_or_a_member_that_is_not_there(coordinator: Coordinator, fellow: Any) -> None:
    one = fellow("m1")
    assert refused(one.join) == ("unknown_run", grpc.StatusCode.NOT_FOUND)
    coordinator.create(RUN, "witnessed", **ALONE)
    one.me = pb.JoinResponse(incarnation=1)
    assert refused(one.beat) == ("unknown_member", grpc.StatusCode.NOT_FOUND)
    assert refused(one.model_hash) == ("unknown_member", grpc.StatusCode.NOT_FOUND)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"nonce": b"short"}, "nonce"), ({"member": "x" * 65}, "member"), ({"addresses": ["a" * 200]}, "addresses")],
)
def test_a_wrong_field_is_named(coordinator: Coordinator, fellow: Any, fields: dict[str, Any], named: str) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    with pytest.raises(grpc.RpcError) as error:
        fellow("m1").join(**fields)
    assert refusal(error.value).code == "malformed"
    assert named in (error.value.details() or "")


def test_a_hash_of_another_length_is_named(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    one = fellow("m1")
    one.join()
    with pytest.raises(grpc.RpcError) as error:
        one.loaded(model=b"short")
    assert (refusal(error.value).code, "model" in (error.value.details() or "")) == ("malformed", True)


def test_tokens_and_keys_as_everywhere_and_commitments_are_signed(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"access": {"tokens": "required"}, "grpc": {"port": 0}, "http": {"port": 0}}
    with Coordinator(folder=tmp_path, **settings) as coordinator:
        coordinator.create(RUN, "witnessed", **ALONE)
        token = Authority.open(tmp_path).new_token(Role.MEMBER, run=RUN)
        key = MemberKey.create()
        with Fellow(coordinator, "m1") as bare, Fellow(coordinator, "m1", token) as keyless:
            assert refused(bare.join) == ("bad_token", grpc.StatusCode.UNAUTHENTICATED)
            without = {"key": b"", "signature": b"", "challenge": b""}
            assert refused(lambda: keyless.join(**without)) == ("bad_token", grpc.StatusCode.UNAUTHENTICATED)
        with Fellow(coordinator, "m1", token, key) as one:
            shown = in_round(one)
            assert one.me.token.startswith("qrt1_session_")
            forged = one.key.sign(b"something else")
            refusals = refused(lambda: one.commit(shown, DIGEST, signature=forged))
            assert refusals == ("bad_signature", grpc.StatusCode.PERMISSION_DENIED)
            one.token = ""  # the session token in the request is enough
            assert one.commit(shown, DIGEST).entry > 0
            stolen = one.me.token
            one.me.token = stolen[:-2] + "xx"
            assert refused(one.beat) == ("bad_token", grpc.StatusCode.UNAUTHENTICATED)


def test_operators_pause_resume_and_readmit(coordinator: Coordinator, fellow: Any) -> None:
    coordinator.create(RUN, "witnessed", **ALONE)
    one = fellow("m1")
    one.join()
    paused = one.call("PauseRun", pb.PauseRunRequest(run=RUN, reason="look", request="p1"))
    assert one.call("PauseRun", pb.PauseRunRequest(run=RUN, reason="look", request="p1")) == paused
    until(lambda: "Paused" in coordinator.show(RUN)["phase"] or coordinator.show(RUN)["pausing"], "it pauses")
    unknown = pb.ReadmitMemberRequest(run=RUN, member="nobody")
    assert refused(lambda: one.call("ReadmitMember", unknown)) == ("unknown_member", grpc.StatusCode.NOT_FOUND)
    resumed = one.call("ResumeRun", pb.ResumeRunRequest(run=RUN))
    assert resumed.entry > paused.entry


def test_the_calls_for_people_know_such_runs(coordinator: Coordinator, fellow: Any) -> None:
    one = fellow("m1")
    people = coordinator_pb2_grpc.CoordinatorStub(one.channel)  # type: ignore[no-untyped-call]
    config = Struct()
    config.update({"min_clients": 2, "data": {"kind": "local"}, "witness_quorum": "2/3"})
    made = people.CreateRun(coordinator_pb2.CreateRunRequest(run=RUN, kind="witnessed", config=config)).run
    assert (made.kind, made.phase) == ("witnessed", "WaitingForMembers")
    one.join()
    shown = people.GetRun(coordinator_pb2.GetRunRequest(run=RUN)).run
    assert (shown.here, "1 of init_min_clients = 2" in shown.explanation.sentence) == (1, True)
    assert [run.run for run in people.ListRuns(coordinator_pb2.ListRunsRequest()).runs] == [RUN]
    stopped = people.StopRun(coordinator_pb2.StopRunRequest(run=RUN, reason="enough"))
    assert stopped.entry > 0
    assert one.beat().phase == pb.WITNESSED_PHASE_FINISHED
