"""The TCP door, on real sockets: what it lets in, what it refuses by name, and what it does not wait for."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Raw
from tests.doors.talk import RUN, Talk
from tests.e2e.command import until

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.core.cluster.events import BarrierReleased, RunStopped, WorkerReady, WorkerRegistered
from quoracy.core.codec import encode
from quoracy.core.errors import ConfigError, Refusal, Refused
from quoracy.core.federated.events import ParticipantJoined
from quoracy.core.kinds import KINDS
from quoracy.core.members import Accepted, Cause, signed_by_joiner
from quoracy.core.messages import Call, Declined, Hello, Told, Welcome
from quoracy.core.witnessed.events import MemberJoined
from quoracy.doors.auth import Authority, Role
from quoracy.doors.kinds import MEMBERS
from quoracy.doors.tcp import KEEPALIVE, Connection, TcpDoor
from quoracy.trust import MemberKey
from quoracy.wire.messages import Goodbye, Granted, Greet, Greeted


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=tmp_path) as running:
        running.create(RUN, heartbeat_timeout_s=5.0, heartbeat_interval_s=1.0)
        yield running


def test_a_worker_lives_its_life_over_tcp(coordinator: Coordinator) -> None:
    with Talk(coordinator.url) as talk:
        joined = talk.join("w1")
        assert joined.result["rank"] == 0
        assert isinstance(talk.ready("w1"), Accepted)
        talk.arrive("w1", step=0)
        assert talk.passed("w1")["released"] is True
        shown = coordinator.show(RUN)
        assert [worker["state"] for worker in shown["workers"]] == ["Training"]
        assert shown["barriers"][0]["released"] == 1


def test_two_workers_meet_on_two_connections(coordinator: Coordinator) -> None:
    with Talk(coordinator.url) as one, Talk(coordinator.url) as two:
        for talk, member in ((one, "w1"), (two, "w2")):
            talk.join(member)
            talk.ready(member)
        one.arrive("w1", step=3)
        one.beat("w1", 1)
        one.hear(Told, where=lambda m: m.topic == "heartbeat")
        assert "waits for w2" in coordinator.explain(RUN)
        two.arrive("w2", step=3)
        assert (one.passed("w1")["order"], two.passed("w2")["order"]) == (0, 1)


def test_many_members_may_speak_through_one_connection(coordinator: Coordinator) -> None:
    with Talk(coordinator.url) as talk:
        for i in range(5):
            talk.join(f"w{i}")
        assert len(coordinator.show(RUN)["workers"]) == 5


def test_a_version_that_nobody_shares_is_refused_by_name(coordinator: Coordinator) -> None:
    with Talk(coordinator.url, greet=False) as talk:
        talk.say(Greet(7, 9))
        assert talk.hear(Goodbye).refusal.code == "wrong_version"
        assert talk.closed()


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (b"\xff\xff\xff\xff", "too_large"),
        (b"\x00\x00\x00\x03\xc1\xc1\xc1", "malformed"),
        (b"GET / HTTP/1.1\r\n\r\n", "too_large"),
        (b"\x00\x00\x00\x01\x90", "malformed"),
    ],
)
def test_garbage_before_the_greeting_is_answered_and_the_connection_closed(
    coordinator: Coordinator, stream: bytes, code: str
) -> None:
    with Talk(coordinator.url, greet=False) as talk:
        talk.raw(stream)
        assert talk.hear(Goodbye).refusal.code == code
        assert talk.closed()


def test_speaking_before_greeting_and_greeting_twice_are_refused(coordinator: Coordinator) -> None:
    with Talk(coordinator.url, greet=False) as talk:
        talk.hello("w1")
        assert "before a greeting" in talk.hear(Goodbye).refusal.why
    with Talk(coordinator.url) as talk:
        talk.say(Greet(2, 2))
        assert "second greeting" in talk.hear(Goodbye).refusal.why


def test_a_greeting_that_does_not_come_ends_the_connection(tmp_path: Path) -> None:
    with (
        Coordinator(folder=tmp_path, limits={"greet_timeout_s": 0.2}) as running,
        Talk(running.url, greet=False) as talk,
    ):
        assert "no greeting" in talk.hear(Goodbye).refusal.why
        assert talk.closed()


def test_an_unknown_run_is_named_with_those_there_are(coordinator: Coordinator) -> None:
    with Talk(coordinator.url) as talk:
        refusal = talk.call(Cause("w1", 1, 1), WorkerReady("w1", 1), run="nowhere")
        assert isinstance(refusal, Refusal)
        assert refusal.code == "unknown_run"
        assert f"(there are: {RUN})" in refusal.why


def test_a_typo_in_the_name_of_a_run_is_answered_with_the_name_that_was_meant(coordinator: Coordinator) -> None:
    with Talk(coordinator.url) as talk:
        refusal = talk.call(Cause("w1", 1, 1), WorkerReady("w1", 1), run="dmeo")
        assert refusal == Refusal(
            "unknown_run", "there is no run 'dmeo' here; did you mean 'demo'?", "correct the name"
        )
        talk.say(Hello("dmeo", "w1"))
        assert talk.hear(Declined).refusal == refusal


def test_a_run_of_another_kind_is_told_by_its_kind_with_the_call_that_joins_it(coordinator: Coordinator) -> None:
    nonce, cause = bytes(16), Cause("p1", 0, 0)
    coordinator.create("rounds", "federated")
    with Talk(coordinator.url) as talk:
        assert talk.call(cause, ParticipantJoined("p1", 0, nonce)) == Refusal(
            "wrong_kind", "demo is a cluster run, and participants join federated runs",
            "join it with quoracy.connect, or name a federated run",
        )  # fmt: skip
        refused = talk.call(cause, MemberJoined("p1", 0, nonce))
        assert (refused.code, refused.why) == ("wrong_kind", "demo is a cluster run, and members join witnessed runs")
        refused = talk.call(cause, WorkerRegistered("p1", 0, nonce), run="rounds")
        assert refused.why == "rounds is a federated run, and workers join cluster runs"
        assert "quoracy.participate" in refused.fix
    assert coordinator.show(RUN)["workers"] == []


def test_what_joins_a_run_is_said_for_every_kind_and_is_there_to_be_called() -> None:
    assert set(MEMBERS) == {kind.name for kind in KINDS}
    for members in MEMBERS.values():
        package, _, name = members.join_with.partition(".")
        assert package == "quoracy"
        assert callable(getattr(quoracy, name))


def test_members_cannot_do_what_is_the_hosts_or_the_operators(coordinator: Coordinator) -> None:
    with Talk(coordinator.url) as talk:
        talk.join("w1")
        assert talk.call(Cause("w1", 1, 1), BarrierReleased("step", 1, 1, [1], [0])).code == "not_yours"
        assert talk.call(Cause("w1", 1, 2), RunStopped("because")).code == "not_yours"


def only_connection(running: Coordinator) -> Connection:
    """With a send buffer so small that what its client does not read stays here. The client's own buffer is left alone:
    a kernel whose receive buffer shrank under it drops acknowledgements too, and the client cannot send any more."""
    (door,) = running._open().doors
    assert isinstance(door, TcpDoor)
    (connection,) = door.connections
    assert connection._transport is not None
    connection._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return connection


@pytest.fixture
def tight(tmp_path: Path) -> Iterator[Coordinator]:
    """Where little may wait to be read, and much may be said."""
    fast = {"messages_per_s": 10_000_000, "burst_messages": 10_000_000}
    limits = {"max_unsent_bytes": 65536, "max_frame_bytes": 65536} | fast
    with Coordinator(folder=tmp_path, store="memory", limits=limits) as running:
        running.create(RUN, heartbeat_timeout_s=60.0)
        yield running


def test_a_client_that_asks_and_never_reads_is_cut_off_and_harms_nobody(tight: Coordinator) -> None:
    with Talk(tight.url) as deaf:
        deaf.join("w1")
        connection = only_connection(tight)
        with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                deaf.beat("w1", 1, incarnation=7)
            pytest.fail("it was never cut off")
        until(lambda: connection not in connection._door.connections, "its place is free")
        assert 0 <= connection._outbox.answer_bytes - 65536 < 1024, "as soon as more waited than may"
        with Talk(tight.url) as other:
            assert isinstance(other.join("w2"), Accepted)


def test_a_session_that_does_not_read_stays_and_finds_the_newest_of_each_view(tight: Coordinator) -> None:
    """Its training computes for hours: nothing of what happened meanwhile may end it, or fill the memory."""
    with Talk(tight.url) as session:
        session.join("w1")
        session.ready("w1")
        connection = only_connection(tight)
        orders = 300
        for number in range(1, orders + 1):
            shown = tight.ask("order", RUN, command="pause", arguments={"text": "x" * 3000})
            assert shown["order"] == number
            session.beat("w1", number)
        session.say(Hello(RUN, "w1"))
        until(lambda: len(connection._outbox) == 3, "the newest order, the reply to the newest heartbeat, an answer")
        heard = []
        while not heard or not isinstance(heard[-1], Welcome):
            heard.append(session.hear(Told, Welcome))
        orders_heard = [told.value[0] for told in heard if isinstance(told, Told) and told.topic == "order"]
        assert len(orders_heard) < orders / 2
        assert orders_heard == sorted(orders_heard)
        assert orders_heard[-1] == orders
        assert [told.value[0] for told in heard if isinstance(told, Told) and told.topic == "heartbeat"][-1] == orders
        assert isinstance(session.ready("w1", seq=2), Accepted), "and it goes on as before"


def test_connections_are_asked_by_the_system_whether_they_are_still_there(coordinator: Coordinator) -> None:
    with Talk(coordinator.url):
        connection = only_connection(coordinator)
        assert connection._transport is not None
        sock = connection._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        wanted = {option: value for option, value in KEEPALIVE if hasattr(socket, option)}
        asked = {option: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, option)) for option in wanted}
        assert asked == wanted


def test_more_connections_than_allowed_are_refused_by_name(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path, limits={"max_connections_per_identity": 2}) as running:
        with Talk(running.url), Talk(running.url), Talk(running.url, greet=False) as third:
            assert third.hear(Goodbye).refusal.code == "too_fast"
        deadline = time.monotonic() + 20
        greeted = None
        while greeted is None and time.monotonic() < deadline:
            with Talk(running.url) as again:
                greeted = again.greeted
        assert greeted is not None


def test_more_messages_than_allowed_end_the_connection(tmp_path: Path) -> None:
    limits = {"messages_per_s": 10, "burst_messages": 20}
    with Coordinator(folder=tmp_path, limits=limits) as running, Talk(running.url) as talk:
        running.create(RUN)
        talk.say(*[Hello(RUN, "w1")] * 30)
        assert talk.hear(Goodbye).refusal.code == "too_fast"


def test_questions_are_answered_or_refused(coordinator: Coordinator) -> None:
    with Talk(coordinator.url) as talk:
        assert talk.ask("status", run="").value["serving"] is True
        assert [shown["run"] for shown in talk.ask("runs", run="").value] == [RUN]
        assert talk.ask("show", run="nowhere").refusal.code == "unknown_run"  # type: ignore[union-attr]
        assert talk.ask("create", kind="cluster").refusal.code == "run_exists"  # type: ignore[union-attr]
        bad = talk.ask("create", run="other", config={"max_workers": 0}).refusal
        assert bad is not None
        assert "max_workers" in bad.why
        assert talk.ask("order", command="dance").refusal.code == "malformed"  # type: ignore[union-attr]
        talk.join("w1")
        assert talk.ask("order", command="pause").value["order"] == 1
        assert talk.ask("roll-back", reason="why not").value["fence"] == 1
        talk.ask("stop", reason="enough")
        assert coordinator.explain(RUN) == "the run is over: enough"


def test_a_bad_setting_of_an_embedded_coordinator_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="port"):
        Coordinator(folder=tmp_path, port=-1)


def test_an_embedded_coordinator_reads_the_environment_and_its_arguments_win(tmp_path: Path) -> None:
    environ = {
        "HEARTBEAT_INTERVAL": "1500", "STORAGE_BACKEND": "s3", "CHECKPOINT_BUCKET": "models", "RUST_LOG": "error",
        "QUORACY_DATA": str(tmp_path / "data"),
    }  # fmt: skip
    config = Coordinator(environ=environ, max_workers=7)._config
    assert config.runs["cluster"].heartbeat_interval_s == 1.5
    assert config.runs["cluster"].max_workers == 7
    assert (config.store.objects, config.store.folder) == ("s3://models", str(tmp_path / "data"))
    assert config.log.level == "error"
    assert not config.grpc.enabled
    assert not config.http.enabled
    config = Coordinator(tmp_path, environ=environ, checkpoints=tmp_path / "kept", log={"level": "info"})._config
    assert (config.store.objects, config.store.folder) == (str(tmp_path / "kept"), str(tmp_path))
    assert config.log.level == "info"
    with pytest.raises(ConfigError, match="CHECKPOINT_BUCKET"):
        Coordinator(environ={"STORAGE_BACKEND": "s3"})


def test_an_embedded_coordinator_has_all_apis_by_one_argument(tmp_path: Path) -> None:
    with Coordinator(tmp_path, all_apis=True, grpc={"port": 0}, environ={}) as coordinator:
        assert set(coordinator.addresses) == {"tcp", "grpc", "http"}
        assert coordinator._config.log.level == "warn"


def test_an_embedded_coordinator_raises_what_it_refuses(coordinator: Coordinator) -> None:
    with pytest.raises(Refused, match="run_exists"):
        coordinator.create(RUN)


def test_a_half_open_connection_does_not_stay(tmp_path: Path) -> None:
    """A machine that vanished says neither anything nor goodbye."""
    with Coordinator(folder=tmp_path, limits={"idle_timeout_s": 0.4}) as running, Talk(running.url) as talk:
        assert "nothing was said" in talk.hear(Goodbye).refusal.why
        assert talk.closed()


# -- tokens ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Coordinator, Authority]]:
    with Coordinator(folder=tmp_path, access={"tokens": "required"}) as running:
        running.create(RUN)
        yield running, Authority.open(tmp_path)


def test_a_join_repeated_before_its_answer_earns_a_token_of_its_run_both_times(
    guarded: tuple[Coordinator, Authority],
) -> None:
    running, authority = guarded
    with Talk(running.url, token=authority.new_token(Role.MEMBER, run=RUN)) as talk:
        key, nonce = MemberKey.create(), bytes(16)
        signed = signed_by_joiner(talk.greeted.challenge, RUN, "w1", 0, nonce)
        join = WorkerRegistered("w1", 0, nonce, key.public, talk.greeted.challenge + key.sign(signed))
        call = Call(RUN, Cause("w1", 0, 0), Raw(encode(join)))
        talk.say(call, call)
        granted = [talk.hear(Granted) for _ in range(2)]
    assert [(one.run, one.incarnation) for one in granted] == [(RUN, 1)] * 2
    for one in granted:
        assert isinstance(authority.check_session(one.token, RUN, "w1", 1, time.time()), int)


def test_without_a_token_nobody_gets_in(guarded: tuple[Coordinator, Authority]) -> None:
    with Talk(guarded[0].url, greet=False) as talk:
        talk.say(Greet(2, 2, ""))
        assert talk.hear(Goodbye).refusal.code == "bad_token"


def test_a_member_joins_with_a_token_and_a_key_and_comes_back_with_its_session_token(
    guarded: tuple[Coordinator, Authority],
) -> None:
    running, authority = guarded
    token, key = authority.new_token(Role.MEMBER, run=RUN), MemberKey.create()
    with Talk(running.url, token=token) as talk:
        assert isinstance(talk.join("w1", key=key), Accepted)
        session = talk.granted().token
        assert isinstance(talk.ready("w1"), Accepted)
    with Talk(running.url, token=token) as talk:
        talk.beat("w1", 1)
        assert talk.hear(Declined).refusal.code == "bad_token"
        talk.hello("w1", 1, "qrt1_session_1.false")
        assert talk.hear(Declined).refusal.code == "bad_token"
        talk.hello("w1", 1, session)
        assert talk.hear(Welcome).incarnation == 1
        talk.beat("w1", 2)
        assert talk.hear(Told, where=lambda m: m.topic == "heartbeat").value[0] == 2


def test_a_join_that_is_repeated_because_its_answer_was_lost_earns_the_token_of_its_own_incarnation(
    guarded: tuple[Coordinator, Authority],
) -> None:
    """It looked again, saw itself, and follows itself: it must not get the token of its successor."""
    running, authority = guarded
    token, key = authority.new_token(Role.MEMBER, run=RUN), MemberKey.create()
    with Talk(running.url, token=token) as talk:
        for supersedes in (0, 1):
            assert isinstance(talk.join("w1", supersedes=supersedes, key=key, nonce=b"n" * 16), Accepted)
            granted = talk.granted()
            assert granted.incarnation == 1
            assert isinstance(authority.check_session(granted.token, RUN, "w1", 1, 0), int)
            assert isinstance(authority.check_session(granted.token, RUN, "w1", 2, 0), Refusal)
        assert isinstance(talk.ready("w1"), Accepted), "and it goes on speaking for itself"


def test_nobody_takes_an_id_without_its_key(guarded: tuple[Coordinator, Authority]) -> None:
    running, authority = guarded
    token = authority.new_token(Role.MEMBER)
    with Talk(running.url, token=token) as talk:
        assert talk.join("w1").code == "bad_token"
        assert isinstance(talk.join("w1", key=MemberKey.create()), Accepted)
        assert talk.join("w1", supersedes=1, key=MemberKey.create()).code == "key_mismatch"


def test_a_signature_from_another_connection_proves_nothing(guarded: tuple[Coordinator, Authority]) -> None:
    running, authority = guarded
    token, key = authority.new_token(Role.MEMBER), MemberKey.create()
    with Talk(running.url, token=token) as one, Talk(running.url, token=token) as two:
        two.greeted = one.greeted
        assert two.join("w1", key=key).code == "bad_token"


def test_roles_hold_at_the_door(guarded: tuple[Coordinator, Authority]) -> None:
    running, authority = guarded
    with Talk(running.url, token=authority.new_token(Role.VIEWER)) as viewer:
        assert viewer.ask("show").value["run"] == RUN
        assert viewer.ask("stop").refusal.code == "forbidden"  # type: ignore[union-attr]
        assert viewer.join("w1", key=MemberKey.create()).code == "forbidden"
    with Talk(running.url, token=authority.new_token(Role.MEMBER, run="other")) as member:
        assert member.join("w1", key=MemberKey.create()).code == "forbidden"
    with Talk(running.url, token=authority.new_token(Role.OPERATOR)) as operator:
        assert operator.greeted == Greeted(2, operator.greeted.challenge, operator.greeted.software, "operator")  # type: ignore[union-attr]
        assert operator.ask("create", run="second").refusal is None
        assert operator.ask("stop", reason="done").refusal is None


def test_limits_are_counted_by_token_where_there_is_one(tmp_path: Path) -> None:
    access, limits = {"tokens": "required"}, {"max_connections_per_identity": 2}
    with Coordinator(folder=tmp_path, access=access, limits=limits) as running:
        authority = Authority.open(tmp_path)
        mine, yours = authority.new_token(Role.VIEWER, name="me"), authority.new_token(Role.VIEWER, name="you")
        with Talk(running.url, token=mine) as one, Talk(running.url, token=mine) as two:
            assert one.greeted is not None
            assert two.greeted is not None
            with Talk(running.url, greet=False) as third:
                third.say(Greet(2, 2, mine))
                assert third.hear(Goodbye).refusal.code == "too_fast"
            with Talk(running.url, token=yours) as other:
                assert other.greeted is not None
