"""The collector: signals in, events out; forgetting nothing before it is written, explaining every wait."""

from __future__ import annotations

import pytest
from tests.core import byhand
from tests.core.cluster.yard import LOST_S, Yard, standing
from tests.core.scribe import RUN

from quoracy.core.cluster.collect import Collector
from quoracy.core.cluster.events import (
    Arrive,
    BarrierDropped,
    BarrierReleased,
    Heartbeat,
    HeartbeatSeen,
    RunRolledBack,
    RunStopped,
    WorkerLeft,
    WorkerLoading,
    WorkerLost,
    WorkerOrdered,
)
from quoracy.core.cluster.state import WorkerState
from quoracy.core.codec import builtins
from quoracy.core.errors import Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Wait
from quoracy.core.members import Cause
from quoracy.core.messages import Declined, Sign
from quoracy.core.shell import Asked, Explained, Received, Take, Tick

SECOND = 1_000_000


def refusal(said: object) -> Refusal:
    assert isinstance(said, Refusal), said
    return said


# -- heartbeats ----------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_answered_with_its_number() -> None:
    yard = standing("a")
    assert yard.beat("a", seq=17) == HeartbeatSeen(17)


def test_a_heartbeat_is_never_journaled() -> None:
    yard = standing("a", "b")
    before = yard.n
    yard.pass_s(20)
    assert yard.n == before


def test_a_repeated_heartbeat_proves_no_life() -> None:
    """Somebody, somewhere, sends the same bytes again and again."""
    yard = standing("a", "b")
    yard.beat("a", seq=5)
    for _ in range(31):
        yard.pass_s(1, "a")
        if yard.worker("a").state is WorkerState.FAILED:
            break
        yard.beat("a", seq=5)
    assert yard.worker("a").state is WorkerState.FAILED


@pytest.mark.parametrize("proof", ["beat", "command", "arrival"])
def test_each_of_these_is_a_sign_of_life(proof: str) -> None:
    yard = standing("a", "b")
    yard.pass_s(20, "a")
    if proof == "beat":
        yard.beat("a")
    elif proof == "command":
        yard.say(WorkerLoading, "a")
    else:
        yard.arrive("a")
    assert yard.collector.silent_us("a", yard.hand.now_us) == 0
    yard.pass_s(30, "a")
    assert yard.worker("a").state is not WorkerState.FAILED
    yard.pass_s(1, "a")
    assert yard.worker("a").state is WorkerState.FAILED


def test_an_order_to_a_silent_worker_is_no_sign_of_its_life() -> None:
    yard = standing("a", "b")
    yard.pass_s(20, "a")
    yard.order(WorkerOrdered("a", "pause"))
    yard.pass_s(11, "a")
    assert yard.worker("a").state is WorkerState.FAILED


def test_a_worker_that_left_is_watched_no_more() -> None:
    yard = standing("a", "b")
    yard.say(WorkerLeft, "a")
    assert yard.collector.silent_us("a", yard.hand.now_us) is None
    before = yard.n
    yard.pass_s(60)
    assert yard.n == before


def test_a_new_life_is_watched_from_its_beginning_with_any_number() -> None:
    yard = standing("a", "b")
    yard.beat("a", seq=1000)
    yard.pass_s(20, "a")
    yard.join("a")
    assert yard.collector.silent_us("a", yard.hand.now_us) == 0
    assert "a" not in yard.collector.pulses
    yard.pass_s(1, "a")
    yard.beat("a", seq=1)
    assert yard.collector.silent_us("a", yard.hand.now_us) == 0


def test_a_new_life_is_not_given_up_for_the_silence_of_the_old_one() -> None:
    """It joins after the old one's time was over, and before anybody looked."""
    yard = standing("a", "b")
    yard.pass_s(29, "a")
    yard.hand.now_us += 2 * SECOND
    yard.join("a")
    assert (yard.worker("a").state, yard.worker("a").incarnation) == (WorkerState.RECOVERING, 2)
    yard.pass_s(29, "a")
    assert yard.worker("a").state is WorkerState.RECOVERING
    yard.pass_s(2, "a")
    assert yard.worker("a").state is WorkerState.FAILED


def test_nobody_is_lost_because_the_host_stood_still() -> None:
    yard = standing("a", "b")
    yard._at_rest(yard.hand.tick(3600 * SECOND))
    assert [yard.worker(name).state for name in "ab"] == [WorkerState.IDLE] * 2
    yard.lose("a")
    assert yard.worker("a").state is WorkerState.FAILED


def test_the_collector_asks_to_be_woken_in_time_for_every_loss() -> None:
    """A host that ticks only when it asked for it."""
    yard = standing("a", "b")
    began_us = yard.hand.now_us
    for _ in range(100):
        wake_us = yard.hand.host.wake_us()
        assert wake_us is not None
        yard._at_rest(yard.hand.report(Tick(), max(0, wake_us - yard.hand.now_us)))
        if yard.worker("a").state is WorkerState.FAILED:
            break
    assert yard.hand.now_us == began_us + 30 * SECOND + 1
    assert yard.worker("b").state is WorkerState.FAILED


def test_the_collector_asks_to_be_woken_at_a_deadline() -> None:
    yard = standing("a", "b", barrier_deadline_s=3.0)
    assert yard.collector.wake_us() != yard.hand.now_us + 3 * SECOND
    yard.arrive("a")
    assert yard.collector.wake_us() == yard.hand.now_us + 3 * SECOND


def test_a_collector_without_anybody_need_not_be_woken() -> None:
    assert Yard().collector.wake_us() is None


def test_what_a_worker_last_said_is_kept_for_people_with_when_its_training_moved() -> None:
    yard = standing("a")
    yard.beat("a", seq=1, step=5, progress=10, task="epoch 1")
    began_us = yard.collector.pulses["a"].progress_us
    yard.pass_s(1, "a")
    yard.beat("a", seq=2, step=6, progress=10)
    assert yard.collector.pulses["a"].progress_us == began_us
    assert yard.collector.pulses["a"].beat.step == 6
    yard.beat("a", seq=3, progress=11)
    assert yard.collector.pulses["a"].progress_us == began_us + SECOND
    yard.beat("a", seq=2, step=99, progress=50)
    assert yard.collector.pulses["a"].beat.step == 0


# -- who may signal ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ["beat", "arrive"])
def test_signals_of_strangers_old_lives_and_the_gone_are_declined_by_name(sort: str) -> None:
    yard = standing("a", "b", "c")
    yard.register("a")
    yard.say(WorkerLeft, "b")
    yard.lose("c")
    give = yard.beat if sort == "beat" else yard.arrive
    said = [give("nobody", incarnation=1), give("a", incarnation=1), give("a", incarnation=3), give("b"), give("c")]  # type: ignore[operator]
    codes = [refusal(one).code for one in said]
    assert codes == ["unknown_worker", "superseded", "contradiction", "member_gone", "member_gone"]
    assert "it left" in refusal(said[3]).why
    assert "no sign of life" in refusal(said[4]).why


def test_a_declined_signal_leaves_no_trace() -> None:
    yard = standing("a", "b")
    yard.pass_s(10, "a")
    yard.beat("a", incarnation=7)
    yard.arrive("a", incarnation=7)
    assert yard.collector.silent_us("a", yard.hand.now_us) == 10 * SECOND
    assert yard.collector.gatherings == {}


# -- forgetting ----------------------------------------------------------------------------------------------------


def test_arrivals_are_forgotten_only_when_the_release_is_written() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.hand.sign("b", Arrive("b", 1, "b", 1))
    assert set(yard.collector.gatherings["b"].arrivals) == {1, 2}
    yard.hand.land()
    assert yard.collector.gatherings == {}


def test_a_loss_that_the_table_knows_already_is_not_proposed() -> None:
    """Left in this very batch, and overdue in the same moment."""
    yard = standing("a", "b")
    collector = Collector(yard.machine, 0)
    yard.machine.fleet.workers["a"].state = WorkerState.LEFT
    events = [event for now_us in range(0, 32 * SECOND, SECOND) for event in collector.due(yard.machine, now_us)]
    assert [event.member for event in events if isinstance(event, WorkerLost)][:1] == ["b"]


def test_a_new_collector_watches_everyone_who_is_here_afresh() -> None:
    yard = standing("a", "b")
    yard.say(WorkerLeft, "b")
    yard.pass_s(20, "a")
    collector = Collector(yard.machine, 77)
    assert collector.silent_us("a", 77) == 0
    assert collector.silent_us("b", 77) is None
    assert collector.gatherings == {}


def test_losses_and_releases_that_follow_from_them_are_judged_with_the_losses_applied() -> None:
    yard = standing("a", "b", "c", barrier_deadline_s=LOST_S)
    yard.arrive("a")
    yard.arrive("b")
    yard.lose("c")
    lost, released = yard.events()
    assert isinstance(lost, WorkerLost)
    assert isinstance(released, BarrierReleased)


# -- explaining ----------------------------------------------------------------------------------------------------


def test_an_empty_fleet_waits_for_somebody_to_register() -> None:
    explanation = Yard().explain()
    assert "no worker is here" in explanation.sentence
    assert explanation.waits == ()


def test_a_fleet_at_work_waits_for_nobody() -> None:
    yard = standing("a", "b")
    yard.register("new")
    explanation = yard.explain()
    assert "waits for nobody" in explanation.sentence
    assert "3" in explanation.sentence
    assert "2" in explanation.sentence
    assert explanation.waits == ()


def test_the_straggler_is_named_with_what_happens_when() -> None:
    yard = standing("a", "b", "c", barrier_deadline_s=60.0)
    yard.arrive("a", 7)
    yard.pass_s(20)
    yard.arrive("c", 7)
    yard.pass_s(5)
    (wait,) = yard.explain().waits
    assert wait.missing == ("b",)
    assert (wait.waited_us, wait.left_us) == (25 * SECOND, 35 * SECOND)
    assert wait.then == "it is aborted for all"
    assert wait.what == "barrier b"
    end = "25.0 s so far; it is aborted for all in 35.0 s"
    assert yard.explain().sentence == f"barrier b (step 7) waits for b (idle), {end}"


def test_a_barrier_below_its_minimum_says_so() -> None:
    yard = standing("a", barrier_min=2)
    yard.arrive("a")
    (wait,) = yard.explain().waits
    assert wait.missing == ()
    assert "barrier_min = 2" in wait.what


def test_stragglers_are_named_up_to_five_in_the_sentence_and_all_in_the_value() -> None:
    names = [f"w{i}" for i in range(9)]
    yard = standing(*names)
    yard.arrive("w0")
    explanation = yard.explain()
    assert explanation.waits[0].missing == tuple(names[1:])
    assert "waits for w1, w2, w3, w4, w5 and 3 more" in explanation.sentence


def test_who_misses_heartbeats_is_named_before_it_is_lost() -> None:
    yard = standing("a", "b")
    yard.pass_s(9, "b")
    assert yard.explain().waits == ()
    yard.pass_s(1, "b")
    assert yard.explain().waits == (Wait("a heartbeat", ("b",), 10 * SECOND, 20 * SECOND, "it is lost"),)
    assert yard.explain().sentence == "b has sent no heartbeat for 10.0 s; it is lost in 20.0 s"


def test_every_wait_is_explained_at_once() -> None:
    yard = standing("a", "b", "c")
    yard.arrive("a", 1, "x")
    yard.arrive("a", 1, "y")
    yard.arrive("b", 1, "y")
    yard.pass_s(11, "c")
    waits = yard.explain().waits
    assert [wait.missing for wait in waits] == [("b", "c"), ("c",), ("c",)]


def test_a_run_that_is_over_says_why() -> None:
    yard = standing("a")
    yard.arrive("a")
    yard.order(RunStopped("enough"))
    assert yard.explain().sentence == "the run is over: enough"


def test_a_run_that_was_stopped_without_a_reason_says_that() -> None:
    yard = standing("a")
    yard.order(RunStopped(""))
    assert yard.explain().sentence == "the run is over: it was stopped"


# -- a signal in a queue -------------------------------------------------------------------------------------------


def test_how_long_one_waited_counts_from_when_its_arrival_came_not_from_when_it_was_read() -> None:
    yard = standing("a", "b")
    yard.hand.call("a", Cause("a", 1, 2), WorkerLoading("a", 1))
    yard.hand.sign("a", Arrive("a", 1, "b", 1))
    yard.hand.now_us += 4 * SECOND
    yard.hand.sign("b", Arrive("b", 1, "b", 1))
    yard.hand.now_us += SECOND
    yard.hand.land()
    yard.hand.land()
    (released,) = yard.events()
    assert isinstance(released, BarrierReleased)
    assert released.waits_us == [5 * SECOND, SECOND]


def test_a_heartbeat_that_waited_through_a_take_over_makes_nobody_older() -> None:
    yard = standing("a", "b")
    later = byhand.Hand(KINDS, yard.hand.journal, "beta")
    later.sign("a", Heartbeat("a", 1, 5))
    later.now_us += 20 * SECOND
    later.load()
    later.report(Take())
    later.land()
    collector = later.host.desk.collector  # type: ignore[union-attr]
    assert isinstance(collector, Collector)
    assert collector.silent_us("a", later.now_us) == 0


@pytest.mark.parametrize(("member", "incarnation"), [("a", 1), ("b", 2), ("b", 0)])
def test_nobody_gives_a_signal_of_another(member: str, incarnation: int) -> None:
    """Another member, or another incarnation of the same: a process that was superseded cannot beat or arrive for its
    successor."""
    yard = standing("a", "b")
    yard.pass_s(10, "b")
    for signal in (Heartbeat("b", 1, 99), Arrive("b", 1, "step", 0)):
        sign = Sign(RUN, byhand.encode_raw(signal), member, incarnation)
        ((peer, declined),) = byhand.sent(yard.hand.report(Received("a", sign)), Declined)
        assert isinstance(declined, Declined)
        assert (peer, declined.member, declined.incarnation) == ("a", member, incarnation)
        assert declined.topic == signal.topic()
        assert declined.refusal.code == "contradiction"
    assert yard.collector.silent_us("b", yard.hand.now_us) == 10 * SECOND
    assert not yard.collector.gatherings
    yard.hand.report(Received("b", Sign.of(RUN, Heartbeat("b", 1, 99))))
    assert yard.collector.silent_us("b", yard.hand.now_us) == 0


# -- alive but stuck -----------------------------------------------------------------------------------------------


def stuck(yard: Yard) -> list[tuple[str, ...]]:
    return [wait.missing for wait in yard.explain().waits if "stuck" in wait.what]


def go_on(yard: Yard, seconds: int, **progress: int) -> None:
    for _ in range(seconds):
        for name, done in progress.items():
            yard.beat(name, progress=done)
        yard._at_rest(yard.hand.tick(SECOND))


def test_a_worker_that_beats_on_without_progress_is_named_as_stuck_and_not_given_up() -> None:
    yard = standing("a", "b", stuck_after_s=60.0)
    go_on(yard, 60, a=5, b=5)
    yard.beat("b", progress=6)
    assert stuck(yard) == [("a",)]
    go_on(yard, 100, a=5, b=7)
    assert yard.worker("a").state is WorkerState.IDLE
    yard.beat("a", progress=6)
    assert ("a",) not in stuck(yard)


def test_a_worker_that_stands_at_a_barrier_or_recovers_from_its_own_end_is_not_stuck() -> None:
    yard = standing("a", "b", "c", stuck_after_s=60.0)
    yard.lose("c")
    yard.join("c")
    yard.arrive("a")
    go_on(yard, 61, a=5, c=5, b=1)
    yard.beat("b", progress=2)
    assert stuck(yard) == []


def test_an_overview_shows_every_worker_and_barrier_in_plain_values() -> None:
    yard = standing("a", "b", "c")
    yard.arrive("a", 7)
    yard.pass_s(2)
    for name in ("b", "c"):
        yard.arrive(name, 7)
    yard.say(WorkerLeft, "b", "done")
    yard.arrive("c", 8, "other")
    yard.beat("a", step=3, progress=9, cpu=0.5, task="t")
    yard.hand.report(Asked("someone"))
    (explained,) = yard.hand.take_out(Explained)
    shown = explained.overview
    assert shown is not None
    assert builtins(shown) == shown
    assert [(w["id"], w["state"], w["rank"]) for w in shown["workers"]] == [
        ("a", "Training", 0), ("c", "Training", 2), ("b", "Left", 1),
    ]  # fmt: skip
    first, second, gone = shown["workers"]
    assert (first["step"], first["progress"], first["cpu"], first["task"], first["silent_s"]) == (3, 9, 0.5, "t", 0.0)
    assert (second["waits"], gone["reason"], gone["silent_s"]) == (True, "done", None)
    b, other = shown["barriers"]
    assert (b["name"], b["generation"], b["step"], b["released"], b["last_to_come"]) == ("b", 1, 7, 1, "c")
    assert b["longest_wait_s"] == 2.0
    assert (other["name"], other["arrived"], other["missing"], other["generation"]) == ("other", 1, ["a"], 0)


def test_time_in_which_the_host_stood_still_does_not_count_against_a_deadline() -> None:
    yard = standing("a", "b", barrier_deadline_s=60.0)
    yard.arrive("a")
    yard.pass_s(20)
    yard._at_rest(yard.hand.tick(3600 * SECOND))
    assert yard.fleet.barriers == {}
    yard.pass_s(39)
    assert yard.fleet.barriers == {}
    yard.pass_s(2)
    assert yard.fleet.barriers["b"].aborted == 1


def test_two_open_barriers_are_aborted_though_one_of_their_names_is_forgotten_for_the_other() -> None:
    yard = standing("a", barrier_min=2, max_barriers=2)
    for name in ("x", "x", "y", "z"):  # x is forgotten for z; y is remembered
        yard.order(BarrierDropped(name, "in the way"))
    yard.arrive("a", barrier="x")
    yard.arrive("a", barrier="y")
    yard.order(RunRolledBack("worse"))
    assert {name: barrier.settled[-1].reason for name, barrier in yard.fleet.barriers.items()} == {
        "x": "the run was rolled back", "y": "the run was rolled back",
    }  # fmt: skip
