"""The line to the coordinator: whom it dials, when it hangs up, what it says first. Time and dice are ours."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.msgpack import decode

from quoracy.core.cluster.events import WorkerRegistered
from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted, Cause, signed_by_joiner
from quoracy.core.messages import Answered, Call, Hello, Moved, Sign, Welcome
from quoracy.sdk.address import Address
from quoracy.sdk.line import FIRST_WAIT_US, HOPS, LONGEST_WAIT_US, OLD_TRIES, OLD_WAIT_US, Line, State
from quoracy.sdk.session import Session, Stage
from quoracy.trust import MemberKey, check_proof
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import Goodbye, Granted, Greet, Greeted, to_server

HERE, THERE = Address("here", 7700), Address("there", 7701)
S = 1_000_000


class Stage0:
    """A line, and what it says."""

    def __init__(self, *addresses: Address, key: MemberKey | None = None, draw: float = 1.0) -> None:
        public = b"" if key is None else key.public
        self.session = Session("run", "w1", b"secret", S, public)
        self.line = Line(self.session, list(addresses or (HERE,)), "token", key, lambda: draw, 0)
        self._reader = FrameReader()

    def says(self) -> list[Any]:
        return [to_server.read(body) for body in self._reader.feed(self.line.take_out())]

    def hears(self, *messages: Any, at_us: int = 0) -> None:
        self.line.received(b"".join(frame(message) for message in messages), at_us)

    def greeted(self, at_us: int = 0, challenge: bytes = b"c" * 32) -> None:
        assert self.line.dial(at_us) is not None
        self._reader = FrameReader()
        self.line.connected(at_us)
        self.hears(Greeted(1, challenge, "quoracy", "member"), at_us=at_us)

    def joined(self, at_us: int = 0) -> None:
        self.greeted(at_us)
        result = {"incarnation": 1, "fence": 0, "heartbeat_interval_s": 1.0, "heartbeat_timeout_s": 10.0, "rank": 0}
        self.hears(Welcome("w1", 0, 1, 1), Answered(Cause("w1", 0, 0), Accepted(2, result)), at_us=at_us)
        self.says()


def test_it_greets_first_and_speaks_when_it_was_greeted() -> None:
    stage = Stage0()
    assert stage.line.dial(0) == HERE
    assert stage.line.dial(0) is None, "one call at a time"
    stage.line.connected(0)
    (greet,) = stage.says()
    assert isinstance(greet, Greet)
    assert greet.token == "token"
    stage.hears(Greeted(1, b"c" * 32, "quoracy", "member"))
    assert stage.says() == [Hello("run", "w1", 0)]
    assert stage.line.outage is not None, "not up before the session was answered"
    stage.hears(Welcome("w1", 0, 1, 1))
    assert (stage.line.state, stage.line.outage) == (State.UP, None)


def test_it_waits_longer_after_each_failure_up_to_a_bound_that_grows_with_the_outage() -> None:
    stage, now_us, waits = Stage0(), 0, []
    for _ in range(OLD_TRIES + 5):
        assert stage.line.dial(now_us) == HERE
        stage.line.failed("refused", now_us)
        wake_us = stage.line.wake_us()
        assert wake_us is not None
        waits.append(wake_us - now_us)
        now_us = wake_us
    assert waits[:3] == [FIRST_WAIT_US, 2 * FIRST_WAIT_US, 4 * FIRST_WAIT_US]
    assert max(waits[: OLD_TRIES - 1]) == LONGEST_WAIT_US
    assert waits[-1] == OLD_WAIT_US
    assert stage.line.outage is not None
    assert (stage.line.outage.since_us, stage.line.outage.tries, stage.line.outage.why) == (0, len(waits), "refused")


def test_half_of_every_wait_is_drawn_so_that_a_fleet_does_not_call_at_once() -> None:
    lucky, unlucky = Stage0(draw=0.0), Stage0(draw=1.0)
    for stage in (lucky, unlucky):
        stage.line.dial(0)
        stage.line.failed("refused", 0)
    assert (lucky.line.wake_us(), unlucky.line.wake_us()) == (FIRST_WAIT_US // 2, FIRST_WAIT_US)


def test_one_that_is_cut_off_again_and_again_waits_longer_each_time() -> None:
    stage, now_us, waits = Stage0(), 0, []
    for _ in range(4):
        stage.greeted(now_us)
        stage.hears(Welcome("w1", 0, 1, 1), Goodbye(Refusal("too_fast", "too many", "less")), at_us=now_us)
        wake_us = stage.line.wake_us()
        assert wake_us is not None
        waits.append(wake_us - now_us)
        now_us = wake_us
    assert waits == sorted(set(waits))


def test_a_good_connection_that_breaks_is_dialed_again_at_once() -> None:
    stage = Stage0()
    stage.line.dial(0)
    stage.line.failed("refused", 0)
    stage.joined(S)
    stage.line.closed("it closed the connection", 5 * S)
    assert stage.line.wake_us() == 5 * S + FIRST_WAIT_US
    assert stage.line.outage is not None
    assert stage.line.outage.since_us == 5 * S, "a new outage"


def test_several_addresses_take_turns() -> None:
    stage, now_us, dialed = Stage0(HERE, THERE), 0, []
    for _ in range(4):
        dialed.append(stage.line.dial(now_us))
        stage.line.failed("refused", now_us)
        now_us = stage.line.wake_us() or 0
    assert dialed == [HERE, THERE, HERE, THERE]


def test_moved_is_followed_at_once_and_what_is_open_is_said_there() -> None:
    stage = Stage0()
    stage.joined()
    stage.session.arrive("step", 7, 1)
    stage.says()
    stage.hears(Moved("run", 2, "tcp://there:7701"), at_us=S)
    (note,) = [note for note in stage.session.notes if note.what == "moved"]
    stage.line.moved(note.value, S)
    assert stage.line.hang_up
    assert stage.line.dial(S) == THERE
    stage._reader = FrameReader()
    stage.line.connected(S)
    stage.hears(Greeted(1, b"c" * 32, "quoracy", "member"), at_us=S)
    _, hello, arrive = stage.says()
    assert hello == Hello("run", "w1", 1)
    assert isinstance(arrive, Sign)


def test_two_that_point_at_each_other_are_not_followed_for_ever() -> None:
    stage = Stage0()
    for hop in range(HOPS):
        stage.greeted()
        stage.line.moved(str((THERE, HERE)[hop % 2]), 0)
        assert stage.line.wake_us() == 0
    stage.greeted()
    stage.line.moved("elsewhere:1", 0)
    assert (stage.line.wake_us() or 0) > 0


@pytest.mark.parametrize("where", ["", "not an address at all", "here:7700"])
def test_one_that_serves_nothing_and_knows_nobody_is_asked_again_later(where: str) -> None:
    stage = Stage0()
    stage.greeted()
    stage.line.moved(where, 0)
    assert stage.line.state is State.DOWN
    assert (stage.line.wake_us() or 0) > 0


def test_an_address_that_it_was_sent_to_in_vain_is_given_up_for_the_known_ones() -> None:
    stage = Stage0()
    stage.greeted()
    stage.line.moved("there:7701", 0)
    assert stage.line.dial(0) == THERE
    stage.line.failed("refused", 0)
    assert stage.line.dial(stage.line.wake_us() or 0) == HERE


def test_silence_beyond_half_the_time_out_is_a_dead_line() -> None:
    stage = Stage0()
    stage.joined()
    stage.line.tick(5 * S - 1)
    assert stage.line.state is State.UP
    stage.line.tick(5 * S)
    assert (stage.line.state, stage.line.hang_up) == (State.DOWN, True)
    assert stage.line.outage is not None
    assert "no word from it for 5.0 s" in stage.line.outage.why


def test_a_greeting_that_stays_away_is_a_dead_line() -> None:
    stage = Stage0()
    stage.line.dial(0)
    stage.line.connected(0)
    assert stage.line.wake_us() == 5 * S
    stage.line.tick(5 * S)
    assert stage.line.state is State.DOWN


@pytest.mark.parametrize("code", ["bad_token", "forbidden", "wrong_version"])
def test_some_goodbyes_are_for_good(code: str) -> None:
    stage = Stage0()
    stage.line.dial(0)
    stage.line.connected(0)
    stage.hears(Goodbye(Refusal(code, "no", "do")))
    assert (stage.line.state, stage.line.dial(99 * S), stage.line.wake_us()) == (State.OVER, None, None)
    assert stage.line.over == Refusal(code, "no", "do")


@pytest.mark.parametrize("stream", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x03abc", frame(Greet(1, 1))])
def test_whoever_does_not_speak_like_a_coordinator_is_called_again_later(stream: bytes) -> None:
    stage = Stage0()
    stage.line.dial(0)
    stage.line.connected(0)
    stage.line.received(stream, 0)
    assert (stage.line.state, stage.line.hang_up) == (State.DOWN, True)


def test_a_tls_server_called_without_tls_is_recognised() -> None:
    stage = Stage0()
    stage.line.dial(0)
    stage.line.connected(0)
    stage.line.received(b"\x15\x03\x03\x00\x02\x02\x46", 0)
    assert stage.line.outage is not None
    assert "tcps://" in stage.line.outage.why


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
        stage.line.closed("it closed the connection", now_us)
    assert proofs[0] != proofs[1]


def test_the_token_of_a_life_opens_the_next_connection() -> None:
    stage = Stage0()
    stage.joined()
    stage.hears(Granted("run", "w1", 1, "mine"), Granted("run", "w1", 7, "of another life"))
    stage.line.closed("it closed the connection", S)
    stage.greeted(2 * S)
    assert Hello("run", "w1", 1, "mine") in stage.says()


def test_nothing_is_said_into_a_dead_line_and_a_join_that_may_have_happened_is_not_repeated_blindly() -> None:
    stage = Stage0()
    stage.greeted()
    stage.hears(Welcome("w1", 0, 1, 1))
    stage.line.closed("it closed the connection", 0)
    assert stage.says() == []
    stage.greeted(S)
    assert [type(message) for message in stage.says()] == [Greet, Hello, Call]
    stage.hears(Answered(Cause("w1", 0, 0), Refusal("stale_join", "moved on", "look")), at_us=S)
    assert stage.session.stage is Stage.ENDED, "somebody else may have taken the id meanwhile"
