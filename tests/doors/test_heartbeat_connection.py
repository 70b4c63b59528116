"""A second connection of a member that carries its heartbeats and nothing else, on real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Raw
from tests.doors.talk import RUN, Talk
from tests.e2e.command import until

from quoracy.config import ConnectionLimits
from quoracy.coordinator import Coordinator
from quoracy.core.cluster.events import Heartbeat, WorkerReady
from quoracy.core.cluster.state import Config
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Declined, Hello, Sign, Told, Welcome
from quoracy.doors.auth import Authority, Role
from quoracy.doors.tcp import TcpDoor
from quoracy.trust import MemberKey
from quoracy.wire.messages import Goodbye, Granted


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=tmp_path, store="memory") as running:
        running.create(RUN, heartbeat_timeout_s=60.0)
        yield running


@pytest.fixture
def session(coordinator: Coordinator) -> Iterator[Talk]:
    """Of w1, which is ready, and has read all there is to read."""
    with Talk(coordinator.url) as talk:
        talk.join("w1")
        talk.ready("w1")
        yield talk


@pytest.fixture
def heart(coordinator: Coordinator, session: Talk) -> Iterator[Talk]:
    with Talk(coordinator.url, heartbeats=True) as talk:
        talk.hello("w1", 1)
        yield talk


def told_to(talk: Talk, seq: int) -> list[str]:
    """Topics of everything it is told until the reply to a heartbeat comes, which follows all that was said before."""
    talk.beat("w1", seq)
    topics: list[str] = []
    while True:
        heard = talk.hear(Told, Welcome, Granted, Declined)
        if isinstance(heard, Told) and heard.topic == "heartbeat" and heard.value[0] == seq:
            return topics
        topics.append(heard.topic if isinstance(heard, Told) else type(heard).__name__)


def test_it_is_welcomed_and_shown_nothing(heart: Talk) -> None:
    assert told_to(heart, 1) == ["Welcome"]


def test_views_go_on_to_the_session_whatever_beats_beside_it(
    coordinator: Coordinator, session: Talk, heart: Talk
) -> None:
    assert told_to(heart, 1) == ["Welcome"]
    order = coordinator.ask("order", RUN, command="pause")["order"]
    assert session.hear(Told, where=lambda m: m.topic == "order").value[0] == order
    heart.beat("w1", 2)
    reply = heart.hear(Told)
    assert (reply.topic, reply.value[1]) == ("heartbeat", order), "the reply says that an order waits"
    session.arrive("w1", step=0)
    assert session.passed("w1")["released"] is True


def test_a_heartbeat_on_any_connection_leaves_the_views_where_they_were(
    coordinator: Coordinator, session: Talk
) -> None:
    with Talk(coordinator.url) as other:
        assert told_to(other, 1) == []
        coordinator.ask("order", RUN, command="pause")
        assert session.hear(Told, where=lambda m: m.topic == "order").value[0] == 1
        assert told_to(other, 2) == []
        other.hello("w1", 1)
        assert other.hear(Told, where=lambda m: m.topic == "order").value[0] == 1
        coordinator.ask("order", RUN, command="resume")
        assert other.hear(Told, where=lambda m: m.topic == "order").value[0] == 2, "where it said hello last"


def test_all_else_is_refused_and_changes_nothing(coordinator: Coordinator, heart: Talk) -> None:
    before = coordinator.show(RUN)
    assert heart.call(Cause("w1", 1, 2), WorkerReady("w1", 1)).code == "heartbeats_only"
    assert heart.join("w2").code == "heartbeats_only"
    assert heart.ask("stop").refusal.code == "heartbeats_only"  # type: ignore[union-attr]
    heart.arrive("w1", step=0)
    declined = heart.hear(Declined)
    assert (declined.member, declined.incarnation, declined.refusal.code) == ("w1", 1, "heartbeats_only")
    heart.raw(b"\x00\x00\x00\x0f\x95\xa4sign\xa4demo\xc1\xa1w\x01")
    assert heart.hear(Goodbye).refusal.code == "malformed"
    after = coordinator.show(RUN)
    assert len(after["workers"]) == 1
    assert (after["entry"], after["barriers"]) == (before["entry"], [])


@pytest.mark.parametrize("seq", [1, 300, 2**40])
def test_a_heartbeat_is_known_by_its_name_however_it_is_written(heart: Talk, seq: int) -> None:
    signal = b"\xdc\x00\x04\xd9\x09heartbeat\xa2w1\x01" + (b"\xcf" + seq.to_bytes(8, "big"))
    body = b"\x95\xa4sign\xa4demo" + signal + b"\xa2w1\x01"
    heart.raw(len(body).to_bytes(4, "big") + body)
    assert heart.hear(Told).value[0] == seq


def test_when_the_session_ends_its_views_wait_for_the_next_hello(
    coordinator: Coordinator, session: Talk, heart: Talk
) -> None:
    (door,) = coordinator._open().doors
    assert isinstance(door, TcpDoor)
    session.socket.close()
    until(lambda: len(door.connections) == 1, "the server knows that it has ended")
    coordinator.ask("order", RUN, command="pause")
    assert told_to(heart, 1) == ["Welcome"]
    with Talk(coordinator.url) as again:
        again.hello("w1", 1)
        assert again.hear(Told, where=lambda m: m.topic == "order").value[0] == 1


def test_it_needs_the_session_token_and_gets_the_next_one(tmp_path: Path) -> None:
    access, limits = {"tokens": "required"}, {"greet_timeout_s": 0.4}
    with Coordinator(folder=tmp_path, access=access, limits=limits) as running:
        running.create(RUN, heartbeat_timeout_s=60.0)
        authority = Authority.open(tmp_path)
        token = authority.new_token(Role.MEMBER, run=RUN)
        with Talk(running.url, token=token) as session, Talk(running.url, token=token, heartbeats=True) as heart:
            assert isinstance(session.join("w1", key=MemberKey.create()), Accepted)
            granted = session.granted()
            heart.beat("w1", 1)
            assert heart.hear(Declined).refusal.code == "bad_token"
            heart.hello("w1", 1, granted.token[:-2])
            assert heart.hear(Declined).refusal.code == "bad_token"
            running._open().service.session_s = 4 * 86_400.0  # so that half of this token's time is over
            heart.hello("w1", 1, granted.token)
            assert heart.hear(Welcome).incarnation == 1
            renewed = heart.granted()
            assert (renewed.run, renewed.member, renewed.incarnation) == (RUN, "w1", 1)
            assert renewed.token != granted.token
            heart.beat("w1", 2)
            assert heart.hear(Told).topic == "heartbeat"


def test_a_silent_session_stays_while_its_incarnation_beats_beside_it(tmp_path: Path) -> None:
    """Heartbeats of another incarnation keep nobody, and when they end the session ends too."""
    with (
        Coordinator(folder=tmp_path, store="memory", limits={"idle_timeout_s": 1.0}) as running,
        Talk(running.url) as session,
        Talk(running.url) as other,
        Talk(running.url, heartbeats=True) as heart,
    ):
        running.create(RUN, heartbeat_timeout_s=60.0)
        for talk, member in ((session, "w1"), (other, "w2")):
            talk.join(member)
        heart.say(Hello(RUN, "w1", 1), Hello(RUN, "w2", 7))
        other.socket.settimeout(0.05)
        closed, seq = False, 0
        while not closed:
            seq += 1
            heart.beat("w1", seq)
            try:
                closed = isinstance(other.hear(Goodbye), Goodbye)
            except TimeoutError:
                continue
        heart.beat("w1", seq + 1)
        assert isinstance(session.ready("w1"), Accepted), "silent for as long as the other, and open"
        assert "nothing was said" in session.hear(Goodbye).refusal.why
        assert "nothing was said" in heart.hear(Goodbye).refusal.why


def test_a_whole_fleet_fits_with_two_connections_each_and_once_more_while_it_comes_back() -> None:
    limits, fleet = ConnectionLimits(), Config().max_workers
    assert limits.max_connections_per_identity >= 2 * 2 * fleet
    assert limits.max_connections >= 2 * 10_000


def test_what_is_no_heartbeat_is_not_taken_for_one() -> None:
    assert Sign.of(RUN, Heartbeat("w1", 1, 1)).is_heartbeat()
    for body in (b"", b"\x90", b"\xc0", b"\x91\x01", b"\x91\xa9heartbeaf", b"\xdb\xa9heartbeat", b"\x92\xa1\xff\x01"):
        assert not Sign(RUN, Raw(body), "w1", 1).is_heartbeat(), body
