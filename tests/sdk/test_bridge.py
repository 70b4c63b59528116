"""The bridge: whose request was answered, and what the training process is told, in which order."""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.events import HeartbeatSeen
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Answered, Declined, Moved, Told, Welcome
from quoracy.sdk import pipe
from quoracy.sdk.address import Address
from quoracy.sdk.bridge import Bridge
from quoracy.sdk.line import Line, State
from quoracy.sdk.session import Session, Stage
from quoracy.wire.frames import frame
from quoracy.wire.messages import Goodbye, Granted, Greeted

S = 1_000_000
RESULT = {"incarnation": 1, "fence": 0, "heartbeat_interval_s": 1.0, "heartbeat_timeout_s": 10.0, "rank": 3}


class Desk:
    def __init__(self) -> None:
        session = Session("run", "w1", b"secret", S)
        self.line = Line(session, [Address("here", 7700)], "", None, lambda: 1.0, 0)
        self.bridge = Bridge(session, self.line)

    def hears(self, *messages: Any, at_us: int = 0) -> list[Any]:
        self.line.received(b"".join(frame(message) for message in messages), at_us)
        return self.bridge.tell(at_us)

    def open(self, at_us: int = 0) -> list[Any]:
        self.line.dial(at_us)
        self.line.connected(at_us)
        return self.hears(Greeted(1, b"c" * 32, "quoracy", "member"), at_us=at_us)

    def joined(self) -> list[Any]:
        self.open()
        return self.hears(Welcome("w1", 0, 1, 1), Answered(Cause("w1", 0, 0), Accepted(2, RESULT)), self.standing())

    def standing(self, state: str = "Initializing", fence: int = 0) -> Told:
        return Told("w1", 1, "standing", Standing(1, state, 0, "why", fence, "Open", {}))

    def ask(self, *requests: pipe.Do | pipe.Stand) -> list[Any]:
        for request in requests:
            self.bridge.ask(request, 0)
        return self.bridge.tell(0)


def passed(released: bool = True) -> Told:
    return Told("w1", 1, "barrier/step", Passage("step", 1, 7, released, 0, 2, "", 0))


def kinds(messages: list[Any]) -> list[str]:
    return [type(message).__name__ for message in messages]


def test_a_life_is_told_with_all_it_takes_to_go_on_with_it() -> None:
    desk = Desk()
    joined, stands, up = desk.joined()
    assert (joined.known.incarnation, joined.known.beat_timeout_us, joined.place) == (1, 10 * S, 3)
    assert stands.standing.state == "Initializing"
    assert isinstance(up, pipe.Up)
    assert desk.hears(Granted("run", "w1", 1, "mine")) == [pipe.Token("mine")]


def test_answers_go_to_those_who_asked_in_the_order_in_which_they_asked() -> None:
    desk = Desk()
    desk.joined()
    assert desk.ask(pipe.Do(11, 0, "ready"), pipe.Do(12, 0, "loading")) == []
    assert desk.hears(Answered(Cause("w1", 1, 1), Accepted(6))) == [pipe.Done(11, Accepted(6))]
    no = Refusal("wrong_state", "no", "do")
    assert desk.hears(Answered(Cause("w1", 1, 2), no)) == [pipe.Done(12, no)]


def test_a_barrier_s_end_goes_to_the_last_who_asked_at_that_step() -> None:
    desk = Desk()
    desk.joined()
    assert desk.ask(pipe.Stand(21, 0, "step", 7, 0), pipe.Stand(22, 0, "step", 7, 0)) == []
    (refused,) = desk.ask(pipe.Stand(23, 0, "step", 8, 0))
    assert refused.number == 23
    assert "still stands" in refused.answer.why
    (settled,) = desk.hears(passed())
    assert (settled.number, settled.passage.released) == (22, True)


def test_a_request_that_crosses_the_news_of_its_barrier_gets_that_news() -> None:
    """The call before it gave up waiting; the barrier opened, and the script asked again before it could know."""
    desk = Desk()
    desk.joined()
    desk.ask(pipe.Stand(21, 0, "step", 7, 0, 0))
    (news,) = desk.hears(passed())
    assert desk.ask(pipe.Stand(22, 0, "step", 7, 0, 0)) == [pipe.Settled(22, news.passage)]
    assert not desk.bridge.session.waits_at("step")
    assert desk.ask(pipe.Stand(23, 0, "step", 7, 0, news.passage.generation)) == [], "this one knows, and comes again"
    assert desk.bridge.session.waits_at("step")


def test_a_refused_arrival_is_told_to_whoever_stood_there_and_the_place_is_free() -> None:
    desk = Desk()
    desk.joined()
    desk.ask(pipe.Stand(21, 0, "step", 7, 0))
    no = Refusal("wrong_state", "no", "do")
    assert desk.hears(Declined("w1", 1, "barrier/step", no)) == [pipe.Done(21, no)]
    assert desk.ask(pipe.Stand(22, 0, "step", 7, 0)) == []


def test_a_roll_back_is_told_before_the_requests_that_it_voids() -> None:
    desk = Desk()
    desk.joined()
    desk.ask(pipe.Stand(21, 0, "step", 7, 0))
    told = desk.hears(desk.standing("Recovering", fence=1))
    assert kinds(told) == ["Fell", "Done", "Stands"]
    assert (told[1].number, told[1].answer.code) == (21, "stale_token")
    (crossed,) = desk.ask(pipe.Stand(22, 0, "step", 7, 0))
    assert crossed.answer.code == "stale_token", "asked before the news was read"
    assert desk.ask(pipe.Stand(23, 0, "step", 0, 1)) == []


def test_requests_of_a_life_that_is_over_are_not_carried_out_in_the_next() -> None:
    desk = Desk()
    desk.joined()
    desk.ask(pipe.Do(11, 0, "ready"), pipe.Stand(21, 0, "step", 7, 0))
    assert kinds(desk.hears(desk.standing("Failed"))) == ["Lost"]
    told = desk.ask(pipe.Do(12, 0, "ready"), pipe.Stand(22, 0, "step", 7, 0))
    assert [(done.number, done.answer.code) for done in told] == [(12, "member_gone"), (22, "member_gone")]
    assert desk.bridge.session.idle()
    assert not desk.bridge.session.waits_at("step")


def test_orders_are_told_and_a_pause_is_remembered_for_the_heartbeats() -> None:
    desk = Desk()
    desk.joined()
    (order,) = desk.hears(Told("w1", 1, "heartbeat", HeartbeatSeen(1, 4, "pause", {"why": "lunch"})))
    assert (order.number, order.command, order.arguments, desk.bridge.paused) == (4, "pause", {"why": "lunch"}, True)
    desk.hears(Told("w1", 1, "heartbeat", HeartbeatSeen(2, 5, "checkpoint")))
    assert desk.bridge.paused
    desk.hears(Told("w1", 1, "heartbeat", HeartbeatSeen(3, 6, "resume")))
    assert not desk.bridge.paused


def test_an_end_is_told_once_hangs_up_and_answers_everything_after_it() -> None:
    desk = Desk()
    desk.joined()
    no = Refusal("superseded", "a newer one", "exit")
    assert desk.hears(Declined("w1", 1, "heartbeat", no)) == [pipe.Finished(no)]
    assert (desk.line.state, desk.line.hang_up) == (State.OVER, True)
    assert desk.ask(pipe.Do(11, 0, "ready")) == [pipe.Done(11, no)]


def test_a_goodbye_for_good_ends_the_session_as_well() -> None:
    desk = Desk()
    desk.joined()
    no = Refusal("bad_token", "expired", "get another")
    assert desk.hears(Goodbye(no)) == [pipe.Finished(no)]
    assert desk.bridge.session.stage is Stage.ENDED
    assert desk.bridge.tell(1) == []


def test_a_refused_hello_is_told_once_and_another_coordinator_is_tried_by_one_that_has_joined() -> None:
    desk = Desk()
    desk.open()
    no = Refusal("unknown_run", "no such run", "create it")
    assert desk.hears(Declined("w1", 0, "hello", no)) == [pipe.Turned(no)]
    assert desk.hears(Declined("w1", 0, "hello", no)) == []
    assert desk.line.state is State.OPEN
    desk = Desk()
    desk.joined()
    desk.line.closed("it closed the connection", 0)
    desk.bridge.tell(0)
    desk.open(S)
    assert kinds(desk.hears(Declined("w1", 1, "hello", no), at_us=S)) == ["Turned", "Outage"]
    assert desk.line.state is State.DOWN


def test_moved_is_followed() -> None:
    desk = Desk()
    desk.joined()
    desk.hears(Moved("run", 2, "tcp://there:7701"), at_us=S)
    assert desk.line.dial(S) == Address("there", 7701)


def test_a_long_outage_is_told_ever_more_seldom() -> None:
    desk = Desk()
    desk.joined()
    desk.line.closed("it closed the connection", 0)
    told = desk.bridge.tell(0)
    now_us = 0
    for _ in range(64):
        now_us = desk.line.wake_us() or 0
        desk.line.dial(now_us)
        desk.line.failed("refused", now_us)
        told += desk.bridge.tell(now_us)
    assert [outage.tries for outage in told] == [1, 2, 4, 8, 16, 32, 64]
    desk.open(desk.line.wake_us() or 0)
    assert kinds(desk.hears(Welcome("w1", 1, 2, 9), at_us=now_us)) == ["Up"]
