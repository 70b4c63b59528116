"""The connection to the coordinator: where it connects, when it closes, what it says first. Time and dice are ours."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.msgpack import decode

from quoracy.core.cluster.events import WorkerRegistered
from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted, Cause, signed_by_joiner
from quoracy.core.messages import Answered, Call, Hello, Moved, Sign, Welcome
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.connection import HOPS, WAITS, Connection, State
from quoracy.sdk.client.session import Stage
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.trust import MemberKey, check_proof
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import Goodbye, Granted, Greet, Greeted, to_server

HERE, THERE = Address("here", 7700), Address("there", 7701)
S = 1_000_000


class Stage0:
    """A connection, and what it says."""

    def __init__(
        self, *addresses: Address, key: MemberKey | None = None, draw: float = 0.0, heartbeats: bool = False
    ) -> None:
        public = b"" if key is None else key.public
        self.session = WorkerSession("run", "w1", b"secret", S, public)
        self.connection = Connection(
            self.session,
            list(addresses or (HERE,)),
            "token",
            key,
            lambda: draw,
            0,
            joins=WorkerRegistered,
            heartbeats=heartbeats,
        )
        self._reader = FrameReader()

    def says(self) -> list[Any]:
        return [to_server.read(body) for body in self._reader.feed(self.connection.take_out())]

    def hears(self, *messages: Any, at_us: int = 0) -> None:
        self.connection.received(b"".join(frame(message) for message in messages), at_us)

    def greeted(self, at_us: int = 0, challenge: bytes = b"c" * 32) -> None:
        assert self.connection.connect_to(at_us) is not None
        self._reader = FrameReader()
        self.connection.connected(at_us)
        self.hears(Greeted(2, challenge, "quoracy", "member"), at_us=at_us)

    def joined(self, at_us: int = 0) -> None:
        self.greeted(at_us)
        result = {"incarnation": 1, "fence": 0, "heartbeat_interval_s": 1.0, "heartbeat_timeout_s": 10.0, "rank": 0}
        self.hears(Welcome("w1", 0, 1, 1), Answered(Cause("w1", 0, 0), Accepted(2, result)), at_us=at_us)
        self.says()


def test_it_greets_first_and_speaks_when_it_was_greeted() -> None:
    stage = Stage0()
    assert stage.connection.connect_to(0) == HERE
    assert stage.connection.connect_to(0) is None, "one call at a time"
    stage.connection.connected(0)
    (greet,) = stage.says()
    assert isinstance(greet, Greet)
    assert greet.token == "token"
    stage.hears(Greeted(2, b"c" * 32, "quoracy", "member"))
    assert stage.says() == [Hello("run", "w1", 0)]
    assert stage.connection.outage is not None, "not up before the session was answered"
    stage.hears(Welcome("w1", 0, 1, 1))
    assert (stage.connection.state, stage.connection.outage) == (State.UP, None)


def test_it_waits_longer_after_each_failure_up_to_a_bound_that_grows_with_the_outage() -> None:
    stage, now_us, waits = Stage0(), 0, []
    for _ in range(WAITS.old_tries + 5):
        assert stage.connection.connect_to(now_us) == HERE
        stage.connection.failed("refused", now_us)
        wake_us = stage.connection.wake_us()
        assert wake_us is not None
        waits.append(wake_us - now_us)
        now_us = wake_us
    assert waits[:3] == [WAITS.first_us, 2 * WAITS.first_us, 4 * WAITS.first_us]
    assert max(waits[: WAITS.old_tries - 1]) == WAITS.longest_us
    assert waits[-1] == WAITS.old_us
    assert stage.connection.outage is not None
    assert (stage.connection.outage.since_us, stage.connection.outage.tries, stage.connection.outage.why) == (
        0,
        len(waits),
        "refused",
    )


def test_half_of_every_wait_is_drawn_so_that_a_fleet_does_not_call_at_once() -> None:
    lucky, unlucky = Stage0(draw=1.0), Stage0(draw=0.0)
    for stage in (lucky, unlucky):
        stage.connection.connect_to(0)
        stage.connection.failed("refused", 0)
    assert (lucky.connection.wake_us(), unlucky.connection.wake_us()) == (WAITS.first_us // 2, WAITS.first_us)


def test_one_that_is_cut_off_again_and_again_waits_longer_each_time() -> None:
    stage, now_us, waits = Stage0(), 0, []
    for _ in range(4):
        stage.greeted(now_us)
        stage.hears(Welcome("w1", 0, 1, 1), Goodbye(Refusal("too_fast", "too many", "less")), at_us=now_us)
        wake_us = stage.connection.wake_us()
        assert wake_us is not None
        waits.append(wake_us - now_us)
        now_us = wake_us
    assert waits == sorted(set(waits))


def test_a_good_connection_that_breaks_is_dialed_again_at_once() -> None:
    stage = Stage0()
    stage.connection.connect_to(0)
    stage.connection.failed("refused", 0)
    stage.joined(S)
    stage.connection.closed("it closed the connection", 5 * S)
    assert stage.connection.wake_us() == 5 * S + WAITS.first_us
    assert stage.connection.outage is not None
    assert stage.connection.outage.since_us == 5 * S, "a new outage"


def test_several_addresses_take_turns() -> None:
    stage, now_us, dialed = Stage0(HERE, THERE), 0, []
    for _ in range(4):
        dialed.append(stage.connection.connect_to(now_us))
        stage.connection.failed("refused", now_us)
        now_us = stage.connection.wake_us() or 0
    assert dialed == [HERE, THERE, HERE, THERE]


def test_moved_is_followed_at_once_and_what_is_open_is_said_there() -> None:
    stage = Stage0()
    stage.joined()
    stage.session.arrive("step", 7, 1)
    stage.says()
    stage.hears(Moved("run", 2, "tcp://there:7701"), at_us=S)
    (note,) = [note for note in stage.session.notes if note.what == "moved"]
    stage.connection.moved(note.value, S)
    assert stage.connection.close_wanted
    assert stage.connection.connect_to(S) == THERE
    stage._reader = FrameReader()
    stage.connection.connected(S)
    stage.hears(Greeted(2, b"c" * 32, "quoracy", "member"), at_us=S)
    _, hello, arrive = stage.says()
    assert hello == Hello("run", "w1", 1)
    assert isinstance(arrive, Sign)


def test_two_that_point_at_each_other_are_not_followed_for_ever() -> None:
    stage = Stage0()
    for hop in range(HOPS):
        stage.greeted()
        stage.connection.moved(str((THERE, HERE)[hop % 2]), 0)
        assert stage.connection.wake_us() == 0
    stage.greeted()
    stage.connection.moved("elsewhere:1", 0)
    assert (stage.connection.wake_us() or 0) > 0


@pytest.mark.parametrize("where", ["", "not an address at all", "here:7700"])
def test_one_that_serves_nothing_and_knows_nobody_is_asked_again_later(where: str) -> None:
    stage = Stage0()
    stage.greeted()
    stage.connection.moved(where, 0)
    assert stage.connection.state is State.DOWN
    assert (stage.connection.wake_us() or 0) > 0


def test_an_address_that_it_was_sent_to_in_vain_is_given_up_for_the_known_ones() -> None:
    stage = Stage0()
    stage.greeted()
    stage.connection.moved("there:7701", 0)
    assert stage.connection.connect_to(0) == THERE
    stage.connection.failed("refused", 0)
    assert stage.connection.connect_to(stage.connection.wake_us() or 0) == HERE


def test_silence_beyond_half_the_time_out_is_the_end_for_one_that_listens() -> None:
    stage = Stage0()
    stage.joined()
    for at_us in (2 * S, 4 * S, 5 * S - 1):
        stage.connection.tick(at_us)
        assert stage.connection.state is State.UP
    stage.connection.tick(5 * S)
    assert (stage.connection.state, stage.connection.close_wanted) == (State.DOWN, True)
    assert stage.connection.outage is not None
    assert "no word from it for 5.0 s" in stage.connection.outage.why


def test_one_that_listens_and_hears_nothing_asks_before_it_closes() -> None:
    stage = Stage0()
    stage.joined()
    stage.session.beats_elsewhere = True
    stage.connection.tick(1 * S)
    assert stage.says() == []
    stage.connection.tick(2 * S)
    assert stage.says() == [Hello("run", "w1", 1)]
    stage.hears(Welcome("w1", 1, 1, 1), at_us=2 * S)
    for at_us in (4 * S, 6 * S):
        stage.connection.tick(at_us)
    assert stage.connection.state is State.UP


def test_silence_while_nobody_listens_proves_nothing() -> None:
    """A training that computes for an hour does not read, and its connection is fine."""
    stage = Stage0()
    stage.joined()
    stage.session.beats_elsewhere = True
    stage.connection.tick(3600 * S)
    assert stage.connection.state is State.UP


def test_a_greeting_that_stays_away_is_the_end_of_the_connection() -> None:
    stage = Stage0()
    stage.connection.connect_to(0)
    stage.connection.connected(0)
    assert stage.connection.wake_us() == 5 * S
    for at_us in (2 * S, 4 * S, 5 * S):
        stage.connection.tick(at_us)
    assert stage.connection.state is State.DOWN


def test_heartbeat_connections_come_back_spread_over_a_quarter_of_the_time_out() -> None:
    for draw in (0.0, 0.5, 1.0):
        stage = Stage0(draw=draw, heartbeats=True)
        stage.joined()
        stage.connection.closed("it closed the connection", 10 * S)
        assert stage.connection.wake_us() == round(10 * S + draw * 10 * S / 4)


@pytest.mark.parametrize("code", ["bad_token", "forbidden", "wrong_version"])
def test_some_goodbyes_are_for_good(code: str) -> None:
    stage = Stage0()
    stage.connection.connect_to(0)
    stage.connection.connected(0)
    stage.hears(Goodbye(Refusal(code, "no", "do")))
    assert (stage.connection.state, stage.connection.connect_to(99 * S), stage.connection.wake_us()) == (
        State.OVER,
        None,
        None,
    )
    assert stage.connection.over == Refusal(code, "no", "do")


@pytest.mark.parametrize("stream", [b"\x00\x00\x00\x03abc", frame(Greet(2, 2))])
def test_whoever_does_not_speak_like_a_coordinator_is_called_again_later(stream: bytes) -> None:
    stage = Stage0()
    stage.connection.connect_to(0)
    stage.connection.connected(0)
    stage.connection.received(stream, 0)
    assert (stage.connection.state, stage.connection.close_wanted) == (State.DOWN, True)


@pytest.mark.parametrize(
    ("stream", "what", "fix"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "it speaks TLS", "tcps://"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "that is an HTTP port", "the port for members"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03", "that is a gRPC port", "the port for members"),
    ],
)
def test_a_port_that_speaks_something_else_is_recognised_and_nobody_waits_for_it(
    stream: bytes, what: str, fix: str
) -> None:
    stage = Stage0()
    stage.connection.connect_to(0)
    stage.connection.connected(0)
    stage.connection.received(stream, 0)
    over = stage.connection.over
    assert over is not None
    assert (over.code, over.why) == ("unreachable", f"tcp://here:7700: {what}")
    assert fix in over.fix
    assert stage.connection.connect_to(60 * S) is None


def test_every_join_is_signed_for_its_own_connection() -> None:
    key = MemberKey.create()
    stage = Stage0(key=key)
    proofs = []
    for attempt, challenge in enumerate((b"1" * 32, b"2" * 32)):
        now_us = attempt * S
        stage.greeted(now_us, challenge)
        stage.hears(Welcome("w1", 0, 1, 1), at_us=now_us)
        (call,) = [message for message in stage.says() if isinstance(message, Call)]
        join = decode(call.event, type=WorkerRegistered)
        signed = signed_by_joiner(challenge, "run", "w1", 0, join.nonce)
        assert join.key == key.public
        assert join.proof[:32] == challenge
        assert check_proof(join.key, signed, join.proof[32:])
        proofs.append(join.proof)
        stage.connection.closed("it closed the connection", now_us)
    assert proofs[0] != proofs[1]


def test_the_token_of_a_life_opens_the_next_connection() -> None:
    stage = Stage0()
    stage.joined()
    stage.hears(Granted("run", "w1", 1, "mine"), Granted("run", "w1", 7, "of another life"))
    stage.connection.closed("it closed the connection", S)
    stage.greeted(2 * S)
    assert Hello("run", "w1", 1, "mine") in stage.says()


def test_nothing_is_said_into_a_dead_line_and_a_join_that_may_have_happened_is_not_repeated_blindly() -> None:
    stage = Stage0()
    stage.greeted()
    stage.hears(Welcome("w1", 0, 1, 1))
    stage.connection.closed("it closed the connection", 0)
    assert stage.says() == []
    stage.greeted(S)
    assert [type(message) for message in stage.says()] == [Greet, Hello, Call]
    stage.hears(Answered(Cause("w1", 0, 0), Refusal("stale_join", "moved on", "look")), at_us=S)
    assert stage.session.stage is Stage.ENDED, "somebody else may have taken the id meanwhile"
