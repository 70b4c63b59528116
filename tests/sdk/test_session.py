"""A worker's session: what it says, repeats, believes and refuses to do. One fact a test."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quoracy.core.cluster.events import Arrive, Heartbeat, HeartbeatSeen, WorkerIdle, WorkerReady, WorkerRegistered
from quoracy.core.cluster.kind import KIND
from quoracy.core.cluster.state import Order
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Answered, Call, Declined, Hello, Moved, Sign, Told, Welcome
from quoracy.sdk.client.session import Stage
from quoracy.sdk.cluster.session import WorkerSession

RETRY = 1_000_000
events = msgspec.msgpack.Decoder(KIND.events)
signals = msgspec.msgpack.Decoder(KIND.signals)


def said(session: WorkerSession) -> list[Any]:
    """What it sends, bodies decoded; heartbeats left out."""
    out: list[Any] = []
    for message in session.take():
        if isinstance(message, Call):
            out.append((message.cause, events.decode(message.event)))
        elif isinstance(message, Sign):
            signal = signals.decode(message.signal)
            if not isinstance(signal, Heartbeat):
                out.append(signal)
        else:
            out.append(message)
    return out


def beats(session: WorkerSession) -> list[Heartbeat]:
    decoded = [signals.decode(m.signal) for m in session.take() if isinstance(m, Sign)]
    return [signal for signal in decoded if isinstance(signal, Heartbeat)]


def notes(session: WorkerSession) -> list[str]:
    what = [note.what for note in session.notes]
    session.notes.clear()
    return what


def join_result(incarnation: int = 1, fence: int = 0) -> Accepted:
    return Accepted(5, {"incarnation": incarnation, "fence": fence, "heartbeat_interval_s": 0.5})


def joined(incarnation: int = 1) -> WorkerSession:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    session.connect(0)
    session.receive(Welcome("w1", incarnation - 1, 1, 4), 0)
    session.receive(Answered(Cause("w1", incarnation - 1, 0), join_result(incarnation)), 0)
    session.take()
    session.notes.clear()
    return session


def standing(incarnation: int = 1, state: str = "Idle", fence: int = 0, run: str = "Open", **barriers: Any) -> Told:
    value = Standing(incarnation, state, 0, "why", fence, run, barriers)
    return Told("w1", incarnation, "standing", value)


def passage(generation: int = 1, released: bool = True, fence: int = 0, incarnation: int = 1) -> Told:
    value = Passage("step", generation, 7, released, 0, 2, "", fence)
    return Told("w1", incarnation, "barrier/step", value)


def test_it_looks_before_it_joins_and_joins_after_the_life_it_saw() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    session.connect(0)
    assert said(session) == [Hello("run", "w1", 0)]
    session.receive(Welcome("w1", 3, 1, 9), 0)
    ((cause, event),) = said(session)
    assert cause == Cause("w1", 3, 0)
    assert isinstance(event, WorkerRegistered)
    assert event.supersedes == 3
    session.receive(Answered(cause, join_result(4)), 0)
    assert (session.stage, session.incarnation) == (Stage.JOINED, 4)
    assert notes(session) == ["joined"]


def test_an_unanswered_hello_and_join_are_repeated_unchanged() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    session.connect(0)
    first = said(session)
    session.tick(RETRY - 1)
    assert said(session) == []
    session.tick(RETRY)
    assert said(session) == first
    session.receive(Welcome("w1", 0, 1, 1), RETRY)
    join = said(session)
    session.tick(2 * RETRY)
    assert said(session) == join


def test_two_processes_draw_different_nonces_and_so_do_two_lives() -> None:
    session, other = WorkerSession("run", "w1", b"one", RETRY), WorkerSession("run", "w1", b"two", RETRY)
    drawn = {session._nonce, other._nonce}
    session._new_life("given up", 0)
    assert len(drawn | {session._nonce}) == 3


def test_a_stale_look_is_taken_again() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    session.connect(0)
    session.receive(Welcome("w1", 0, 1, 1), 0)
    session.take()
    session.receive(Answered(Cause("w1", 0, 0), Refusal("stale_join", "moved on", "look")), 0)
    assert session.stage is Stage.LOOKING
    assert said(session) == [Hello("run", "w1", 0)]


def test_one_that_may_have_been_superseded_does_not_fight_back() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    session.connect(0)
    session.receive(Welcome("w1", 0, 1, 1), 0)
    session.tick(RETRY)
    session.receive(Answered(Cause("w1", 0, 0), Refusal("stale_join", "moved on", "look")), RETRY)
    assert session.stage is Stage.ENDED


@pytest.mark.parametrize("code", ["superseded", "key_mismatch", "run_closed", "roster_full"])
def test_some_refusals_end_it(code: str) -> None:
    session = joined()
    session.receive(Declined("w1", 1, "heartbeat", Refusal(code, "no", "exit")), 1)
    assert session.stage is Stage.ENDED
    assert notes(session) == ["ended"]


def test_commands_are_sent_one_at_a_time_and_numbered() -> None:
    session = joined()
    session.wish(WorkerReady)
    session.wish(WorkerIdle)
    session.tick(1)
    assert said(session) == [(Cause("w1", 1, 1), WorkerReady("w1", 1))]
    session.receive(Answered(Cause("w1", 1, 1), Accepted(6)), 2)
    assert said(session) == [(Cause("w1", 1, 2), WorkerIdle("w1", 1))]
    assert notes(session) == ["answered"]
    session.receive(Answered(Cause("w1", 1, 2), Refusal("wrong_state", "no", "do")), 3)
    assert session.idle()


def test_a_command_is_repeated_until_it_is_answered_and_a_second_answer_is_ignored() -> None:
    session = joined()
    session.wish(WorkerReady)
    session.tick(1)
    first = said(session)
    session.tick(1 + RETRY)
    assert said(session) == first
    session.receive(Answered(Cause("w1", 1, 1), Accepted(6)), 2 + RETRY)
    session.receive(Answered(Cause("w1", 1, 1), Accepted(6)), 3 + RETRY)
    assert notes(session) == ["answered"]


def test_an_arrival_is_repeated_unchanged_until_the_barrier_is_settled() -> None:
    session = joined()
    session.arrive("step", 7, 1)
    assert said(session) == [Arrive("w1", 1, "step", 7, 0, 0)]
    session.tick(1 + RETRY)
    assert said(session) == [Arrive("w1", 1, "step", 7, 0, 0)]
    session.receive(passage(1), 2 + RETRY)
    assert notes(session) == ["passed"]
    session.arrive("step", 8, 3 + RETRY)
    assert said(session) == [Arrive("w1", 1, "step", 8, 1, 0)]


def test_an_old_passage_lets_nobody_through_twice() -> None:
    session = joined()
    session.arrive("step", 7, 1)
    session.receive(passage(1), 2)
    session.arrive("step", 8, 3)
    notes(session)
    session.receive(passage(1), 4)
    assert notes(session) == []
    assert session.waits_at("step")


def test_a_passage_of_an_older_life_or_from_before_a_roll_back_is_not_believed() -> None:
    session = joined(incarnation=2)
    session.arrive("step", 7, 1)
    session.receive(passage(1, incarnation=1), 2)
    session.receive(passage(1, incarnation=2, fence=9), 2)
    assert notes(session) == []
    assert session.waits_at("step")


def test_an_aborted_barrier_is_told() -> None:
    session = joined()
    session.arrive("step", 7, 1)
    session.receive(passage(1, released=False), 2)
    assert notes(session) == ["aborted"]
    assert not session.waits_at("step")


def test_a_newcomer_learns_from_its_standing_which_generations_are_settled() -> None:
    session = joined()
    session.receive(standing(step=(41, 40)), 1)
    session.arrive("step", 41, 2)
    assert said(session) == [Arrive("w1", 1, "step", 41, 41, 0)]


def test_a_generation_settled_while_waiting_may_be_the_awaited_one() -> None:
    session = joined()
    session.arrive("step", 7, 1)
    session.receive(standing(step=(1, 7)), 2)
    session.receive(passage(1), 3)
    assert notes(session) == ["passed"]


def test_a_roll_back_voids_what_it_waits_for_and_raises_its_fence() -> None:
    session = joined()
    session.arrive("step", 7, 1)
    session.receive(standing(state="Recovering", fence=1), 2)
    assert notes(session) == ["rolled-back"]
    assert not session.waits_at("step")
    session.take()
    session.arrive("step", 3, 3)
    assert said(session)[0].fence == 1


def test_a_stale_token_makes_it_ask_where_it_stands() -> None:
    session = joined()
    session.receive(Declined("w1", 1, "barrier/step", Refusal("stale_token", "old", "recover")), 1)
    assert Hello("run", "w1", 1) in said(session)


def test_one_given_up_begins_a_new_life_and_says_what_is_void() -> None:
    session = joined()
    session.wish(WorkerReady)
    session.tick(1)
    session.arrive("step", 7, 1)
    session.take()
    session.receive(standing(state="Failed"), 2)
    assert (session.stage, session.incarnation, session.idle()) == (Stage.LOOKING, 0, True)
    assert notes(session) == ["lost"]
    assert said(session) == [Hello("run", "w1", 0)]


def test_a_decline_meant_for_an_older_life_changes_nothing() -> None:
    session = joined(incarnation=2)
    session.receive(Declined("w1", 1, "heartbeat", Refusal("member_gone", "lost", "register")), 1)
    assert (session.stage, session.incarnation) == (Stage.JOINED, 2)


def test_a_newer_life_ends_it_and_nothing_wakes_it_again() -> None:
    session = joined()
    session.receive(standing(incarnation=2), 1)
    assert session.stage is Stage.ENDED
    session.connect(2)
    session.tick(99 * RETRY)
    assert session.take() == []


def test_a_closed_run_ends_it() -> None:
    session = joined()
    session.receive(standing(run="Closed"), 1)
    assert session.stage is Stage.ENDED


def test_it_beats_at_the_interval_it_was_given_and_numbers_by_the_clock() -> None:
    """So that numbers grow whichever process of a machine beats: the session, or the heartbeat process beside it."""
    session = joined()
    session.tick(0)
    session.tick(400_000)
    session.tick(500_000)
    session.tick(1_000_000)
    assert [beat.seq for beat in beats(session)] == [500_000, 1_000_000], "the first one went out with the join"


def test_an_order_is_told_once_and_acknowledged_by_the_next_heartbeat() -> None:
    session = joined()
    seen = Told("w1", 1, "heartbeat", HeartbeatSeen(1, 4, "pause"))
    session.receive(seen, 1)
    session.receive(seen, 2)
    assert notes(session) == ["ordered"]
    session.take()
    session.tick(10_000_000)
    assert beats(session)[0].order == 4


def test_leaving_ends_it_when_it_is_answered() -> None:
    session = joined()
    session.leave("done")
    session.tick(1)
    assert session.stage is Stage.JOINED
    session.receive(Answered(Cause("w1", 1, 1), Accepted(9)), 2)
    assert session.stage is Stage.ENDED


def test_a_host_that_does_not_serve_says_where_to_go() -> None:
    session = joined()
    session.receive(Moved("run", 2, "elsewhere:7700"), 1)
    assert session.notes[0].value == "elsewhere:7700"


def test_connecting_again_repeats_all_that_is_open() -> None:
    session = joined()
    session.wish(WorkerReady)
    session.tick(1)
    session.arrive("step", 7, 1)
    open_before = said(session)
    session.connect(2)
    assert said(session) == [Hello("run", "w1", 1), *open_before]


def test_views_that_came_over_a_wire_are_understood() -> None:
    session = joined()
    session.arrive("step", 7, 1)
    told = passage(1)
    session.receive(Told("w1", 1, told.topic, msgspec.to_builtins(told.value)), 2)
    assert notes(session) == ["passed"]


# -- what a process beside the training needs ----------------------------------------------------------------------


def test_a_refusal_that_nobody_wrote_down_leaves_the_command_open() -> None:
    """Otherwise the next command would be numbered past a gap, and all after it refused."""
    session = joined()
    session.wish(WorkerReady)
    session.tick(1)
    first = said(session)
    session.receive(Answered(Cause("w1", 1, 1), Refusal("overloaded", "the queue is full", "later")), 2)
    assert notes(session) == []
    session.tick(1 + RETRY)
    assert said(session) == first


def test_a_command_through_a_connection_that_may_not_speak_is_not_answered_by_that_and_is_repeated() -> None:
    """Otherwise the next command would be numbered past a gap, and all after it refused."""
    session = joined()
    session.wish(WorkerReady)
    session.tick(1)
    first = said(session)
    session.receive(Answered(Cause("w1", 1, 1), Refusal("bad_token", "not shown who it is", "say hello")), 2)
    assert notes(session) == []
    session.tick(1 + RETRY)
    assert said(session) == first


def test_a_join_refused_for_the_moment_is_told_and_repeated() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    session.connect(0)
    session.receive(Welcome("w1", 0, 1, 1), 0)
    _, join = said(session)
    session.receive(Answered(Cause("w1", 0, 0), Refusal("draining", "stops", "later")), 0)
    session.tick(RETRY)
    assert (notes(session), said(session)) == (["refused"], [join])


def test_a_join_repeated_on_a_new_connection_may_have_happened() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    session.connect(0)
    session.receive(Welcome("w1", 0, 1, 1), 0)
    session.connect(1)
    session.receive(Answered(Cause("w1", 0, 0), Refusal("stale_join", "moved on", "look")), 1)
    assert session.stage is Stage.ENDED


def test_an_order_told_as_a_view_is_told_at_once_and_once() -> None:
    session = joined()
    session.receive(Told("w1", 1, "order", Order(4, "pause", {}, 0)), 1)
    session.receive(Told("w1", 1, "order", msgspec.to_builtins(Order(4, "pause", {}, 0))), 2)
    session.receive(Told("w1", 1, "heartbeat", HeartbeatSeen(1, 4, "pause")), 3)
    assert [(note.what, note.value.order, note.value.command) for note in session.notes] == [("ordered", 4, "pause")]


def test_while_another_process_beats_the_session_does_not_and_asks_for_no_tick() -> None:
    session = joined()
    session.tick(0)
    session.take()
    session.beats_elsewhere = True
    assert session.wake_us() is None
    session.tick(10 * RETRY)
    assert beats(session) == []
    session.beats_elsewhere = False
    session.tick(20 * RETRY)
    assert len(beats(session)) == 1


def test_a_token_that_is_not_believed_any_more_is_the_end_of_that_life() -> None:
    session = joined()
    session.granted(1, "token")
    session.connect(1)
    session.receive(Declined("w1", 1, "hello", Refusal("bad_token", "not made here", "join again")), 1)
    assert (session.stage, session.incarnation, session.token) == (Stage.LOOKING, 0, "")
    assert notes(session) == ["lost"]


def test_a_join_and_heartbeats_carry_what_they_are_given() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY, about={"gpus": 2, "labels": {"zone": "a"}})
    session.connect(0)
    session.receive(Welcome("w1", 0, 1, 1), 0)
    join = said(session)[1][1]
    assert (join.gpus, join.labels) == (2, {"zone": "a"})
    session.progress, session.vitals = 5, {"step": 7, "task": "warming up"}
    session.receive(Answered(Cause("w1", 0, 0), join_result()), 0)
    (beat,) = beats(session)
    assert (beat.progress, beat.step, beat.task) == (5, 7, "warming up")


def test_it_says_when_to_tick_next() -> None:
    session = WorkerSession("run", "w1", b"secret", RETRY)
    assert session.wake_us() is None
    session.connect(0)
    assert session.wake_us() == RETRY
    session = joined()
    assert (session.wake_us(), session.beat_due(499_999), session.beat_due(500_000)) == (500_000, False, True)
    session.receive(standing(run="Closed"), 1)
    assert (session.wake_us(), session.beat_due(10 * RETRY)) == (None, False)
