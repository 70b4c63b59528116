"""Barriers: released once, when all who take part have arrived; aborted for all when that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core import byhand
from tests.core.cluster.yard import LOST_S, Yard, standing
from tests.core.scribe import Scribe, created

from quoracy.core.cluster.events import (
    Arrive,
    BarrierAborted,
    BarrierDropped,
    BarrierReleased,
    RunRolledBack,
    RunStopped,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerLost,
    WorkerReady,
)
from quoracy.core.cluster.state import BarrierState, WorkerState
from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.core.kinds import KINDS
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Told
from quoracy.core.run import Decided
from quoracy.core.shell import Append, Tick


def decide(yard: Yard, event: Any) -> Any:
    """As if the host proposed it, without the collector."""
    assert yard.hand.host.run is not None
    scribe = Scribe(KINDS, created("cluster"))
    scribe.run = yard.hand.host.run
    return scribe.decide(None, event)


def refused(yard: Yard, event: Any) -> str:
    """The code; and nothing has changed."""
    before = yard.hand.host.run.snapshot().root  # type: ignore[union-attr]
    outcome = decide(yard, event)
    assert isinstance(outcome, Refusal), outcome
    assert yard.hand.host.run.snapshot().root == before  # type: ignore[union-attr]
    return outcome.code


# -- release -------------------------------------------------------------------------------------------------------


def test_all_are_let_through_when_the_last_has_arrived() -> None:
    yard = standing("a", "b", "c")
    assert yard.arrive("b", 7) is None
    yard.pass_s(2)
    assert yard.arrive("c", 7) is None
    yard.pass_s(1)
    before = yard.n
    passage = yard.arrive("a", 7)
    assert passage == Passage("b", 1, 7, True, 2, 3, "", 0)
    assert yard.last_told("b", "barrier/b") == Passage("b", 1, 7, True, 0, 3, "", 0)
    assert yard.last_told("c", "barrier/b") == Passage("b", 1, 7, True, 1, 3, "", 0)
    assert yard.n == before + 1
    assert yard.events() == [BarrierReleased("b", 1, 7, [2, 3, 1], [3_000_000, 1_000_000, 0])]


def test_generations_follow_each_other_and_each_is_told_with_its_number() -> None:
    yard = standing("a", "b")
    for generation in (1, 2, 3):
        yard.arrive("a", generation * 10)
        assert yard.arrive("b", generation * 10).generation == generation
    barrier = yard.fleet.barriers["b"]
    assert (barrier.generation, barrier.released, barrier.aborted, barrier.step) == (3, 3, 0, 30)


def test_barriers_of_different_names_do_not_wait_for_each_other() -> None:
    yard = standing("a", "b")
    yard.arrive("a", 1, "x")
    yard.arrive("b", 1, "y")
    assert yard.fleet.barriers == {}
    assert yard.arrive("b", 1, "x").released
    assert yard.arrive("a", 1, "y").released


def test_one_alone_passes_at_once() -> None:
    yard = standing("a")
    assert yard.arrive("a", 3) == Passage("b", 1, 3, True, 0, 1, "", 0)


def test_an_arrival_sent_twice_counts_once_and_keeps_its_place() -> None:
    yard = standing("a", "b", "c")
    yard.arrive("a")
    yard.pass_s(1)
    yard.arrive("b")
    yard.pass_s(1)
    assert yard.arrive("a") is None
    yard.arrive("c")
    assert yard.events() == [BarrierReleased("b", 1, 1, [1, 2, 3], [2_000_000, 1_000_000, 0])]


def test_an_arrival_sent_again_after_the_release_gets_the_same_answer() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.arrive("b")
    before = yard.n
    for _ in range(3):
        assert yard.arrive("a", after=0) == Passage("b", 1, 1, True, 0, 2, "", 0)
        assert yard.arrive("b", after=0) == Passage("b", 1, 1, True, 1, 2, "", 0)
    assert yard.n == before
    assert yard.collector.gatherings == {}


def test_one_that_missed_several_generations_is_told_of_the_oldest_it_took_part_in() -> None:
    yard = standing("a", "b")
    for step in (1, 2, 3):
        yard.arrive("a", step)
        yard.arrive("b", step)
    assert yard.arrive("a", 2, after=1).generation == 2
    assert yard.arrive("a", 1, after=0).generation == 1


def test_a_second_visit_at_the_same_step_is_a_visit_of_its_own() -> None:
    yard = standing("a", "b")
    yard.arrive("a", 5)
    yard.arrive("b", 5)
    assert yard.arrive("a", 5) is None
    assert yard.arrive("b", 5).generation == 2


def test_one_that_cannot_know_of_a_generation_is_contradicted() -> None:
    yard = standing("a", "b")
    refusal = yard.arrive("a", after=1)
    assert refusal.code == "contradiction"
    assert "1 is not settled" in refusal.why


def test_whoever_waits_cannot_change_its_step() -> None:
    yard = standing("a", "b")
    yard.arrive("a", 5)
    assert yard.arrive("a", 6).code == "contradiction"
    assert yard.arrive("b", 5).released


# -- who is waited for ---------------------------------------------------------------------------------------------


def test_nobody_waits_for_one_that_is_not_set_up_or_recovers() -> None:
    yard = standing("a", "b")
    yard.register("new")
    yard.lose("b")
    yard.join("b")
    assert yard.worker("b").state is WorkerState.RECOVERING
    assert yard.arrive("a").released


@pytest.mark.parametrize("who", ["new", "b"])
def test_one_that_is_not_set_up_or_recovers_cannot_arrive(who: str) -> None:
    yard = standing("a", "b")
    yard.register("new")
    yard.lose("b")
    yard.join("b")
    refusal = yard.arrive(who)
    assert refusal.code == "wrong_state"
    assert yard.collector.gatherings == {}


def test_one_that_becomes_ready_is_waited_for_from_then_on() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.join("late")
    assert yard.arrive("b") is None
    assert yard.arrive("late").released


def test_one_that_recovered_is_waited_for_again() -> None:
    for sort in (WorkerIdle, WorkerLoading):
        yard = standing("a", "b")
        yard.lose("b")
        yard.join("b")
        yard.say(sort, "b")
        assert yard.arrive("a") is None
        assert yard.arrive("b").of == 2


def test_a_newcomer_is_told_where_each_barrier_stands() -> None:
    yard = standing("a", "b")
    yard.arrive("a", 41)
    yard.arrive("b", 41)
    yard.arrive("a", 3, "other")
    yard.arrive("b", 4, "other")
    yard.join("new")
    assert yard.last_told("new", "standing").barriers == {"b": (1, 41), "other": (1, -1)}
    assert yard.arrive("new", 42) is None


def test_a_newcomer_that_knows_of_no_generation_begins_with_the_open_one() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.arrive("b")
    yard.join("new")
    assert yard.arrive("new", 2, after=0) is None
    assert yard.collector.gatherings["b"].generation == 2


# -- losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "left", "superseded"])
def test_a_worker_that_goes_frees_those_who_wait_in_the_same_entry(how: str) -> None:
    yard = standing("a", "b", "c")
    yard.arrive("a")
    yard.arrive("b")
    before = yard.n
    if how == "lost":
        yard.lose("c")
    elif how == "left":
        yard.say(WorkerLeft, "c")
    else:
        yard.register("c")
    assert yard.n == before + 1
    _, released = yard.events()
    assert isinstance(released, BarrierReleased)
    assert released.seats == [1, 2]
    assert yard.last_told("a", "barrier/b").released
    assert yard.last_told("b", "barrier/b").of == 2


def test_an_arrival_of_a_life_that_is_over_counts_for_nothing() -> None:
    yard = standing("a", "b")
    yard.arrive("b")
    yard.register("b")
    assert yard.arrive("a") == Passage("b", 1, 1, True, 0, 1, "", 0)


def test_arrivals_only_of_lives_that_are_over_are_no_gathering() -> None:
    yard = standing("a", "b", "c")
    yard.arrive("b")
    yard.lose("b")
    assert yard.collector.gatherings == {}
    assert yard.fleet.barriers == {}


def test_a_loss_and_a_deadline_in_one_moment_are_one_entry() -> None:
    """The lost one is gone when the abort is decided: it can be named neither as waiting nor as missing."""
    yard = standing("a", "b", "c", barrier_deadline_s=LOST_S)
    yard.arrive("a")
    yard.lose("c")
    lost, aborted = yard.events()
    assert isinstance(lost, WorkerLost)
    assert isinstance(aborted, BarrierAborted)
    assert (aborted.seats, aborted.missing) == ([1], [2])


# -- aborts --------------------------------------------------------------------------------------------------------


def test_past_its_deadline_a_barrier_is_aborted_for_all_with_who_was_missing() -> None:
    yard = standing("a", "b", "c", barrier_deadline_s=60.0)
    yard.arrive("a", 9)
    yard.pass_s(10)
    yard.arrive("c", 9)
    yard.pass_s(49)
    assert yard.fleet.barriers == {}
    yard.pass_s(1)
    aborted = yard.events()[0]
    assert isinstance(aborted, BarrierAborted)
    assert (aborted.generation, aborted.step, aborted.seats, aborted.missing) == (1, 9, [1, 3], [2])
    assert "missing: b" in aborted.reason
    for name, place in (("a", 0), ("c", 1), ("b", -1)):
        told = yard.last_told(name, "barrier/b")
        assert (told.released, told.order, told.of, told.reason) == (False, place, 2, aborted.reason)
    assert yard.collector.gatherings == {}


def test_the_deadline_counts_from_the_first_arrival_of_each_generation() -> None:
    yard = standing("a", "b", barrier_deadline_s=60.0)
    yard.pass_s(50)
    yard.arrive("a")
    yard.pass_s(50)
    yard.arrive("b")
    yard.arrive("a", 2)
    yard.pass_s(59)
    assert yard.arrive("b", 2).released


def test_the_one_that_was_missing_is_told_so_when_it_comes_after_all() -> None:
    yard = standing("a", "b", barrier_deadline_s=60.0)
    yard.arrive("a", 9)
    yard.pass_s(60)
    passage = yard.arrive("b", 9, after=0)
    assert (passage.generation, passage.released, passage.order) == (1, False, -1)
    yard.arrive("b", 9)
    assert yard.arrive("a", 9).generation == 2


def test_a_barrier_below_its_minimum_is_aborted_once_it_had_reached_it() -> None:
    yard = standing("a", "b", "c", barrier_min=3)
    yard.arrive("a")
    yard.lose("b")
    lost, aborted = yard.events()
    assert isinstance(lost, WorkerLost)
    assert isinstance(aborted, BarrierAborted)
    assert (aborted.seats, aborted.missing) == ([1], [3])
    assert "2" in aborted.reason
    assert "barrier_min = 3" in aborted.reason


def test_a_barrier_waits_for_its_minimum_before_it_can_fall_below() -> None:
    yard = standing("a", "b", barrier_min=3)
    yard.arrive("a")
    assert yard.arrive("b") is None
    yard.say(WorkerLeft, "b")
    assert yard.fleet.barriers == {}
    yard.join("c", "d")
    yard.arrive("c")
    assert yard.arrive("d").of == 3


def test_a_barrier_that_never_had_its_minimum_is_aborted_at_its_deadline() -> None:
    yard = standing("a", barrier_min=2, barrier_deadline_s=60.0)
    yard.arrive("a")
    yard.pass_s(60)
    aborted = yard.events()[0]
    assert isinstance(aborted, BarrierAborted)
    assert (aborted.seats, aborted.missing) == ([1], [])
    assert "barrier_min = 2" in aborted.reason


def test_arrivals_at_different_steps_abort_naming_who_stood_where() -> None:
    yard = standing("a", "b", "c")
    yard.arrive("a", 4)
    yard.arrive("b", 5)
    passage = yard.arrive("c", 4)
    assert (passage.released, passage.order) == (False, 2)
    assert passage.reason == "different steps: a, c at step 4; b at step 5"
    assert yard.fleet.barriers["b"].settled[-1].step == 4


def test_many_who_stood_at_a_wrong_step_are_named_up_to_five() -> None:
    names = [f"w{i}" for i in range(8)]
    yard = standing(*names)
    for name in names[:-1]:
        yard.arrive(name, 1)
    reason = yard.arrive(names[-1], 2).reason
    assert reason == "different steps: w0, w1, w2, w3, w4 and 2 more at step 1; w7 at step 2"


def test_an_aborted_generation_does_not_move_the_step_a_newcomer_begins_at() -> None:
    yard = standing("a", "b")
    yard.arrive("a", 10)
    yard.arrive("b", 10)
    yard.arrive("a", 11)
    yard.arrive("b", 12)
    barrier = yard.fleet.barriers["b"]
    assert (barrier.generation, barrier.step, barrier.released, barrier.aborted) == (2, 10, 1, 1)


# -- roll-back and end ---------------------------------------------------------------------------------------------


def test_a_roll_back_aborts_what_is_waited_for_in_the_same_entry() -> None:
    yard = standing("a", "b")
    yard.arrive("a", 5)
    yard.order(RunRolledBack("worse"))
    rolled, aborted = yard.events()
    assert isinstance(rolled, RunRolledBack)
    assert isinstance(aborted, BarrierAborted)
    assert aborted.reason == "the run was rolled back"
    assert not yard.last_told("a", "barrier/b").released
    assert yard.collector.gatherings == {}


def test_those_who_wait_are_not_let_through_by_a_roll_back() -> None:
    """Neither together with the last arrival in one entry, nor because others go while all recover."""
    yard = standing("a", "b", "c")
    yard.arrive("a", 5)
    yard.hand.call("b", Cause("b", 1, 2), WorkerLoading("b", 1))
    for name in ("b", "c"):
        yard.hand.sign(name, Arrive(name, 1, "b", 5))
    yard.hand.order(RunRolledBack("worse"))
    yard.hand.land_all()
    assert [type(event) for event in yard.events()] == [RunRolledBack, BarrierAborted]
    yard.say(WorkerIdle, "a")
    yard.arrive("a", 5)
    assert yard.explain().waits[0].missing == ("b", "c")


def test_after_a_roll_back_a_newcomer_has_no_step_to_begin_at() -> None:
    yard = standing("a")
    yard.arrive("a", 7)
    assert yard.fleet.barriers["b"].step == 7
    yard.order(RunRolledBack("worse"))
    assert yard.last_told("a", "standing").barriers == {"b": (1, -1)}


def test_an_arrival_from_before_a_roll_back_is_stale_and_so_is_one_from_the_future() -> None:
    yard = standing("a", "b")
    yard.order(RunRolledBack("worse"))
    yard.say(WorkerIdle, "a")
    for fence in (0, 2):
        assert yard.arrive("a", fence=fence).code == "stale_token"
    assert yard.arrive("a", fence=1) is None


def test_a_visit_at_the_same_step_after_a_roll_back_is_not_taken_for_the_one_before() -> None:
    """Even if the worker never heard how the one before ended."""
    yard = standing("a", "b")
    yard.arrive("a", 5)
    yard.arrive("b", 5)
    yard.order(RunRolledBack("worse"))
    assert yard.arrive("a", 5, after=0).code == "wrong_state"
    yard.say(WorkerIdle, "a")
    assert yard.arrive("a", 5, after=0) is None
    yard.say(WorkerIdle, "b")
    assert yard.arrive("b", 5, after=0) == Passage("b", 2, 5, True, 1, 2, "", 1)


def test_after_the_end_nobody_can_arrive() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.order(RunStopped("enough"))
    assert yard.collector.gatherings == {}
    refusal = yard.arrive("b")
    assert refusal.code == "run_closed"
    assert "enough" in refusal.why


# -- memory and bounds ---------------------------------------------------------------------------------------------


def test_so_many_generations_are_remembered_and_older_ones_forgotten() -> None:
    yard = standing("a", "b", barrier_memory=2)
    for step in range(1, 6):
        yard.arrive("a", step)
        yard.arrive("b", step)
    assert [s.generation for s in yard.fleet.barriers["b"].settled] == [4, 5]
    assert yard.arrive("a", 4, after=3).generation == 4


def test_one_that_asks_for_a_generation_before_it_came_goes_on_with_the_open_one() -> None:
    yard = standing("a", "b", barrier_memory=2)
    for step in range(1, 6):
        yard.arrive("a", step)
        yard.arrive("b", step)
    yard.register("b")
    yard.say(WorkerReady, "b")
    yard.say(WorkerIdle, "b")
    refusal = yard.arrive("b", 6, after=2)
    assert refusal.code == "barrier_forgotten"
    assert "after = 5" in refusal.fix
    assert yard.arrive("b", 6, after=3) is None


def test_a_name_per_step_never_ends_and_the_names_that_are_kept_are_the_newest() -> None:
    yard = standing("a", "b", max_barriers=3)
    for step in range(300):
        yard.arrive("a", step, f"step-{step}")
        assert yard.arrive("b", step, f"step-{step}").released
    assert list(yard.fleet.barriers) == ["step-297", "step-298", "step-299"]


def test_a_name_that_was_forgotten_goes_on_where_no_generation_was_before() -> None:
    yard = standing("a", max_barriers=2)
    for step in range(3):
        yard.arrive("a", step, "x")
    for name in "yz":
        yard.arrive("a", 0, name)
    assert list(yard.fleet.barriers) == ["y", "z"]
    assert yard.fleet.forgotten == 3
    assert yard.arrive("a", 3, "x", after=3) == Passage("x", 4, 3, True, 0, 1, "", 0)
    assert yard.arrive("a", 0, "new", after=0).generation == 4


def test_a_barrier_that_is_forgotten_while_somebody_stands_there_is_released_all_the_same() -> None:
    yard = standing("a", "b", max_barriers=1)
    for name in "ab":
        yard.arrive(name, 0, "x")
    yard.arrive("a", 1, "x")
    for name in "ab":
        yard.arrive(name, 0, "y")
    assert list(yard.fleet.barriers) == ["y"]
    assert yard.arrive("b", 1, "x", after=1).released


def test_nobody_takes_the_room_of_others_with_made_up_names() -> None:
    yard = standing("a", "b", open_barriers_max=3)
    for name in "xyz":
        assert yard.arrive("a", 0, name) is None
    refusal = yard.arrive("a", 0, "one more")
    assert refusal.code == "barriers_full"
    assert "a stands at 3 already (x, y, z)" in refusal.why
    assert yard.arrive("a", 0, "x") is None
    assert yard.arrive("b", 0, "another") is None
    assert yard.arrive("b", 0, "x").released
    assert yard.arrive("a", 0, "one more") is None


def test_an_operator_drops_a_barrier_and_whoever_stands_there_is_told() -> None:
    yard = standing("a", "b", "c")
    yard.arrive("a", 7)
    assert isinstance(yard.order(BarrierDropped("b", "a mistake")), Accepted)
    assert yard.last_told("a", "barrier/b") == Passage("b", 1, 0, False, -1, 0, "a mistake", 0)
    assert not yard.collector.gatherings
    assert not yard.arrive("b", 7, after=0).released
    for name in "ab":
        assert yard.arrive(name, 7) is None
    assert yard.arrive("c", 7).released


# -- without after: the step tells -----------------------------------------------------------------------------------


def plain(yard: Yard, name: str, step: int) -> Any:
    """An arrival that says nothing but where and at which step."""
    return yard.arrive(name, step, after=None)


def test_without_after_nobody_is_let_through_before_the_others_have_come() -> None:
    """The name is used again and again, as with the fields of plain clients: barrier, worker and step."""
    yard = standing("a", "b")
    for step in range(5):
        assert plain(yard, "a", step) is None
        assert plain(yard, "b", step) == Passage("b", step + 1, step, True, 1, 2, "", 0)


def test_without_after_the_step_of_the_newest_release_is_a_repeat_of_that_visit() -> None:
    yard = standing("a", "b")
    plain(yard, "a", 3)
    passed = plain(yard, "b", 3)
    assert plain(yard, "b", 3) == passed
    assert plain(yard, "a", 3) == Passage("b", 1, 3, True, 0, 2, "", 0)
    assert not yard.collector.gatherings


def test_without_after_a_step_that_is_behind_is_refused_and_holds_nobody_up() -> None:
    yard = standing("a", "b")
    for step in (3, 4):
        plain(yard, "a", step)
        plain(yard, "b", step)
    refusal = plain(yard, "a", 3)
    assert refusal.code == "step_behind"
    assert "go on at step 5" in refusal.fix
    yard.join("c")
    assert plain(yard, "c", 4).code == "step_behind"
    assert not yard.collector.gatherings


def test_without_after_a_repeat_after_an_abort_stands_at_the_next_generation() -> None:
    yard = standing("a", "b", barrier_deadline_s=20.0)
    plain(yard, "a", 5)
    yard.pass_s(21)
    assert not yard.last_told("a", "barrier/b").released
    assert plain(yard, "a", 5) is None
    assert plain(yard, "b", 5) == Passage("b", 2, 5, True, 1, 2, "", 0)


def test_without_after_what_crossed_an_abort_on_its_way_is_told_of_it_and_stands_nowhere() -> None:
    """Its sender cannot know yet: it would be counted at the next generation without being there."""
    yard = standing("a", "b", barrier_deadline_s=20.0)
    plain(yard, "a", 5)
    yard.pass_s(19)
    yard.hand.now_us += 1_000_000
    yard.hand.report(Tick())
    yard.hand.sign("a", Arrive("a", 1, "b", 5))
    yard.hand.now_us += 1000
    said = [m.value for _, m in byhand.sent(yard.hand.land_all(), Told) if m.topic == "barrier/b" and m.member == "a"]
    assert [(passage.generation, passage.released) for passage in said] == [(1, False), (1, False)]
    assert not yard.collector.gatherings


def test_without_after_steps_begin_anew_after_a_roll_back() -> None:
    yard = standing("a")
    plain(yard, "a", 7)
    yard.order(RunRolledBack("worse"))
    yard.say(WorkerIdle, "a")
    assert plain(yard, "a", 2) == Passage("b", 2, 2, True, 0, 1, "", 1)


def test_a_release_answers_only_an_arrival_of_its_own_step() -> None:
    """A client that always sends after = 0 would be let through by the first generation for ever."""
    yard = standing("a", "b")
    yard.arrive("a", 1)
    yard.arrive("b", 1)
    refusal = yard.arrive("a", 2, after=0)
    assert refusal.code == "contradiction"
    assert "released at step 1; a comes with step 2" in refusal.why
    assert yard.arrive("a", 1, after=0).released


# -- what the fold itself checks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (BarrierReleased("b", 1, 1, [1], [0]), "barrier_early"),
        (BarrierReleased("b", 1, 1, [], []), "barrier_early"),
        (BarrierReleased("b", 1, 1, [1, 2, 3], [0, 0, 0]), "contradiction"),
        (BarrierReleased("b", 1, 1, [1, 1, 2], [0, 0, 0]), "contradiction"),
        (BarrierReleased("b", 1, 1, [1, 2], [0]), "contradiction"),
        (BarrierReleased("b", 1, 1, [1, 2], [0, 0, 0]), "contradiction"),
        (BarrierReleased("b", 0, 1, [1, 2], [0, 0]), "barrier_settled"),
        (BarrierReleased("b", 2, 1, [1, 2], [0, 0]), "barrier_unknown"),
        (BarrierAborted("b", 1, 1, [1], [1], "x"), "contradiction"),
        (BarrierAborted("b", 1, 1, [1, 1], [2], "x"), "contradiction"),
        (BarrierAborted("b", 1, 1, [1], [9], "x"), "contradiction"),
        (BarrierAborted("b", 1, 1, [9], [2], "x"), "contradiction"),
        (BarrierAborted("b", 5, 1, [1], [2], "x"), "barrier_unknown"),
    ],
    ids=str,
)
def test_a_settlement_that_cannot_be_is_refused_and_changes_nothing(event: Any, code: str) -> None:
    assert refused(standing("a", "b"), event) == code


def test_a_release_names_who_has_not_arrived() -> None:
    yard = standing("a", "b", "c")
    outcome = decide(yard, BarrierReleased("b", 1, 1, [1], [0]))
    assert "2 have not arrived (b, c)" in outcome.why


def test_a_release_below_the_minimum_is_early() -> None:
    assert refused(standing("a", barrier_min=2), BarrierReleased("b", 1, 1, [1], [0])) == "barrier_early"


@pytest.mark.parametrize("state", [BarrierState.RELEASED, BarrierState.ABORTED])
def test_a_generation_is_settled_once(state: BarrierState) -> None:
    yard = standing("a", "b")
    released, aborted = BarrierReleased("b", 1, 1, [1, 2], [0, 0]), BarrierAborted("b", 1, 1, [1], [2], "x")
    first = released if state is BarrierState.RELEASED else aborted
    assert isinstance(decide(yard, first), Decided)
    for again in (released, aborted):
        outcome = decide(yard, again)
        assert outcome.code == "barrier_settled"
        assert f"is {state.value}" in outcome.why


def test_a_generation_that_is_forgotten_stays_settled() -> None:
    yard = standing("a", barrier_memory=1)
    for _ in range(3):
        yard.arrive("a")
    assert refused(yard, BarrierReleased("b", 1, 1, [1], [0])) == "barrier_settled"


def test_what_is_settled_is_kept_with_order_waits_and_reason() -> None:
    yard = standing("a", "b")
    yard.arrive("b", 3)
    yard.pass_s(1)
    yard.arrive("a", 3)
    yard.arrive("a", 4)
    yard.arrive("b", 5)
    released, aborted = yard.fleet.barriers["b"].settled
    assert (released.state, released.seats, released.waits_us, released.missing, released.reason, released.step) == (
        BarrierState.RELEASED, [2, 1], [1_000_000, 0], [], "", 3,
    )  # fmt: skip
    assert (aborted.state, aborted.seats, aborted.waits_us, aborted.missing) == (BarrierState.ABORTED, [1, 2], [], [])
    assert released.at_us == aborted.at_us == yard.hand.host.run.head.at_us  # type: ignore[union-attr]


# -- restart -------------------------------------------------------------------------------------------------------


def test_a_host_killed_between_two_releases_lets_the_rest_through_after_restart() -> None:
    """Released and recorded, but told to nobody: whoever asks again gets the answer. Then the next one works too."""
    yard = standing("a", "b")
    yard.arrive("a")
    yard.hand.sign("b", Arrive("b", 1, "b", 1))
    yard.hand.journal.write(yard.hand.take_out(Append)[0])
    yard.hand = byhand.takeover(KINDS, yard.hand.journal, "beta")
    assert yard.arrive("a", after=0) == Passage("b", 1, 1, True, 0, 2, "", 0)
    assert yard.arrive("b", after=0) == Passage("b", 1, 1, True, 1, 2, "", 0)
    yard.arrive("b", 2)
    assert yard.arrive("a", 2).generation == 2


def test_a_host_killed_before_a_release_forgets_arrivals_that_come_again() -> None:
    yard = standing("a", "b")
    yard.arrive("a")
    yard.hand = byhand.takeover(KINDS, yard.hand.journal, "beta")
    assert yard.arrive("b") is None
    assert yard.arrive("a") == Passage("b", 1, 1, True, 1, 2, "", 0)
