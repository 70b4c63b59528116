"""What a fleet says it is waiting for: situations as somebody on call finds them, each with the sentence to expect.

Every sentence names who is missing and what happens when if they stay away, and nobody who has arrived. The names of
workers are letters and those of barriers words, so that the two cannot be taken for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core import byhand
from tests.core.cluster.yard import Yard, standing

from quoracy.core.cluster.events import (
    RunRolledBack,
    RunStopped,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerOrdered,
    WorkerReady,
)
from quoracy.core.cluster.heard import Gathering
from quoracy.core.cluster.tangles import tangles
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Explanation, Wait

SECOND = 1_000_000


def stand(yard: Yard, names: str, barrier: str = "step", step: int = 7) -> None:
    for name in names:
        yard.arrive(name, step, barrier)


def go_on(yard: Yard, seconds: int, moving: str = "", still: str = "", task: str = "") -> None:
    """Both sorts beat, the training of the moving ones moves, the still ones say what they do. Others are silent."""
    for second in range(seconds):
        for name in moving:
            yard.beat(name, progress=100 + yard.beats)
        for name in still:
            yard.beat(name, progress=9, task=task if second else "")
        yard._at_rest(yard.hand.tick(SECOND))


# -- one barrier ---------------------------------------------------------------------------------------------------


def one_is_silent() -> Yard:
    yard = standing(*"abc")
    stand(yard, "ab")
    yard.pass_s(6, "c")
    return yard


def two_are_silent_and_one_is_lost_sooner() -> Yard:
    yard = standing(*"abcd")
    stand(yard, "ab")
    yard.pass_s(9, "c")
    yard.pass_s(11, "c", "d")
    return yard


def one_is_silent_and_one_computes() -> Yard:
    yard = standing(*"abc")
    stand(yard, "a")
    go_on(yard, 12, moving="ab")
    return yard


def the_last_one_computes() -> Yard:
    yard = standing(*"abc")
    stand(yard, "abc", step=6)
    stand(yard, "ab")
    go_on(yard, 40, moving="abc")
    return yard


def the_last_one_loads_its_data() -> Yard:
    yard = standing(*"ab")
    yard.say(WorkerLoading, "b")
    stand(yard, "a")
    yard.pass_s(40)
    return yard


def the_last_one_is_stuck() -> Yard:
    yard = standing(*"abc")
    stand(yard, "ab")
    go_on(yard, 180, moving="ab", still="c")
    return yard


def the_last_one_was_stopped_by_a_signal() -> Yard:
    yard = standing(*"abc")
    stand(yard, "ab")
    go_on(yard, 50, moving="ab", still="c", task="batch 12; stopped by a signal; no progress for 40 s")
    return yard


def the_last_one_was_paused() -> Yard:
    yard = standing(*"abc")
    yard.order(WorkerOrdered("c", "pause"))
    stand(yard, "ab")
    go_on(yard, 200, moving="ab", still="c")
    return yard


def the_last_one_says_that_it_is_paused() -> Yard:
    yard = standing(*"abc")
    yard.order(WorkerOrdered("c", "pause"))
    yard.order(WorkerOrdered("c", "checkpoint"))
    stand(yard, "ab")
    go_on(yard, 20, moving="ab", still="c", task="paused by an operator")
    return yard


def the_last_one_stands_elsewhere() -> Yard:
    """c has come to another barrier with two threads, a only to one."""
    yard = standing(*"abcd")
    stand(yard, "ab", "eval")
    stand(yard, "abc", "step")
    yard.pass_s(4)
    return yard


def many_are_missing() -> Yard:
    names = [f"w{i}" for i in range(18)]
    yard = standing(*names)
    yard.arrive("w0", 7, "step")
    yard.pass_s(3)
    return yard


def too_few_take_part() -> Yard:
    yard = standing(*"ab", barrier_min=4)
    yard.register("c")
    stand(yard, "ab")
    yard.pass_s(30)
    return yard


def too_few_take_part_and_one_of_them_is_missing() -> Yard:
    yard = standing(*"ab", barrier_min=3)
    stand(yard, "a")
    yard.pass_s(30)
    return yard


def the_next_loss_costs_the_quorum() -> Yard:
    yard = standing(*"abc", barrier_min=3)
    stand(yard, "ab")
    yard.pass_s(15, "c")
    return yard


def the_deadline_comes_before_the_loss() -> Yard:
    yard = standing(*"ab", barrier_deadline_s=20.0)
    stand(yard, "a")
    yard.pass_s(12, "b")
    return yard


def the_deadline_is_over_at_the_next_tick() -> Yard:
    yard = standing(*"ab", barrier_deadline_s=20.0)
    stand(yard, "a")
    yard.pass_s(19)
    yard.hand.now_us += SECOND  # and nobody has looked yet
    return yard


def they_stand_at_different_steps() -> Yard:
    yard = standing(*"abc")
    stand(yard, "a", step=7)
    stand(yard, "b", step=8)
    yard.pass_s(3)
    return yard


def one_recovers_after_a_roll_back() -> Yard:
    yard = standing(*"abc")
    yard.order(RunRolledBack("the loss exploded"))
    for name in "ab":
        yard.say(WorkerIdle, name)
    stand(yard, "ab", step=3)
    yard.pass_s(8)
    return yard


def one_that_stands_there_is_silent() -> Yard:
    yard = standing(*"abc")
    stand(yard, "ab")
    yard.pass_s(12, "b")
    return yard


# -- barriers that wait for each other -----------------------------------------------------------------------------


def two_barriers_wait_for_each_other() -> Yard:
    yard = standing(*"ab")
    stand(yard, "a", "save")
    yard.pass_s(2)
    stand(yard, "b", "load")
    yard.pass_s(10)
    return yard


def three_barriers_wait_for_each_other() -> Yard:
    yard = standing(*"abcd")
    stand(yard, "a", "save")
    stand(yard, "b", "load")
    stand(yard, "c", "eval")
    yard.pass_s(10)
    return yard


def two_groups_have_a_barrier_each() -> Yard:
    yard = standing(*"abcd")
    stand(yard, "ab", "group-0")
    stand(yard, "cd", "group-1")
    yard.pass_s(10)
    return yard


def one_of_those_that_wait_for_each_other_is_silent() -> Yard:
    yard = standing(*"ab")
    stand(yard, "a", "save")
    stand(yard, "b", "load")
    yard.pass_s(10, "b")
    return yard


# -- no barrier ----------------------------------------------------------------------------------------------------


def nobody_has_come() -> Yard:
    return Yard()


def everybody_is_gone() -> Yard:
    yard = standing(*"abc")
    yard.say(WorkerLeft, "a", "done")
    yard.lose("b", "c")
    return yard


def the_run_was_stopped() -> Yard:
    yard = standing(*"ab")
    stand(yard, "a")
    yard.order(RunStopped("it has converged"))
    return yard


def one_never_became_ready() -> Yard:
    yard = standing(*"ab")
    yard.register("c")
    yard.pass_s(50)
    return yard


def nobody_is_ready() -> Yard:
    yard = Yard()
    yard.register("a")
    yard.register("b")
    yard.pass_s(50)
    return yard


def one_came_back_and_recovers() -> Yard:
    yard = standing(*"abc")
    yard.lose("c")
    yard.register("c")
    yard.say(WorkerReady, "c")
    return yard


def all_recover_after_a_roll_back() -> Yard:
    yard = standing(*"abc")
    yard.order(RunRolledBack("the loss exploded"))
    yard.say(WorkerIdle, "a")
    return yard


def all_are_paused() -> Yard:
    yard = standing(*"abc")
    yard.order(WorkerOrdered("", "pause"))
    go_on(yard, 300, still="abc")
    return yard


def one_is_paused() -> Yard:
    yard = standing(*"abc")
    yard.order(WorkerOrdered("b", "pause"))
    return yard


def one_more_loss_stops_barriers() -> Yard:
    return standing(*"abc", barrier_min=3)


def one_is_silent_that_the_quorum_needs() -> Yard:
    yard = standing(*"abc", barrier_min=3)
    yard.pass_s(12, "c")
    return yard


def a_switch_failed() -> Yard:
    names = [f"w{i}" for i in range(20)]
    yard = standing(*names)
    yard.pass_s(12, *names[3:])
    return yard


def one_is_stuck() -> Yard:
    yard = standing(*"ab")
    go_on(yard, 180, moving="a", still="b")
    return yard


def restarted(yard: Yard, seconds: int) -> Yard:
    """Another coordinator takes over; nobody beats until so many seconds later."""
    yard.hand = byhand.takeover(KINDS, yard.hand.journal, "beta", now_us=yard.hand.now_us)
    for worker in yard.fleet.by_seat.values():
        yard.hand.hello(worker.id, worker.id, worker.incarnation)
    for _ in range(seconds):
        yard._at_rest(yard.hand.tick(SECOND))
    return yard


def the_coordinator_has_just_started() -> Yard:
    return restarted(standing(*"ab"), 12)


def the_coordinator_has_just_started_at_a_barrier() -> Yard:
    yard = restarted(standing(*"abc"), 1)
    stand(yard, "ab")
    go_on(yard, 3, moving="ab")
    return yard


SITUATIONS: dict[Callable[[], Yard], str] = {
    one_is_silent: (
        "barrier step (step 7) waits for c (silent for 6.0 s), 6.0 s so far; c is lost and the others go on in 24.0 s"
    ),
    two_are_silent_and_one_is_lost_sooner: (
        "barrier step (step 7) waits for c (silent for 20.0 s, lost in 10.0 s) and d (silent for 12.0 s, lost"
        " in 18.0 s), 20.0 s so far; c, d are lost and the others go on in 18.0 s"
    ),
    one_is_silent_and_one_computes: (
        "barrier step (step 7) waits for c (silent for 12.0 s, lost in 18.0 s) and b (idle, last progress 1.0"
        " s ago), 12.0 s so far; it is aborted for all in 10 min"
    ),
    the_last_one_computes: (
        "barrier step (step 7) waits for c (training, last progress 1.0 s ago), 40.0 s so far; it is aborted "
        "for all in 9 min"
    ),
    the_last_one_loads_its_data: (
        "barrier step (step 7) waits for b (loading data), 40.0 s so far; it is aborted for all in 9 min"
    ),
    the_last_one_is_stuck: (
        "barrier step (step 7) waits for c (alive but stuck: no progress for 3 min), 3 min so far; it is "
        "aborted for all in 7 min"
    ),
    the_last_one_was_stopped_by_a_signal: (
        "barrier step (step 7) waits for c (stopped by a signal), 50.0 s so far; it is aborted for all in 9 min"
    ),
    the_last_one_was_paused: (
        "barrier step (step 7) waits for c (paused by an operator), 3 min so far; it is aborted for all in 7 min"
    ),
    the_last_one_says_that_it_is_paused: (
        "barrier step (step 7) waits for c (paused by an operator), 20.0 s so far; it is aborted for all in 10 min"
    ),
    the_last_one_stands_elsewhere: (
        "barrier eval (step 7) waits for c (stands at barrier step) and d (idle), 4.0 s so far; it is aborted"
        " for all in 10 min. barrier step (step 7) waits for d (idle), 4.0 s so far; it is aborted for all in"
        " 10 min"
    ),
    many_are_missing: (
        "barrier step (step 7) waits for w1, w2, w3, w4, w5 and 12 more (idle), 3.0 s so far; it is aborted "
        "for all in 10 min"
    ),
    too_few_take_part: (
        "barrier step (step 7) waits for 2 more workers (2 of barrier_min = 4 take part; c has not reported "
        "ready), 30.0 s so far; it is aborted for all in 10 min"
    ),
    too_few_take_part_and_one_of_them_is_missing: (
        "barrier step (step 7) waits for b (idle) and 1 more worker (2 of barrier_min = 3 take part), 30.0 s "
        "so far; it is aborted for all in 10 min"
    ),
    the_next_loss_costs_the_quorum: (
        "barrier step (step 7) waits for c (silent for 15.0 s), 15.0 s so far; c is lost and it is aborted "
        "for all (2 of barrier_min = 3 take part) in 15.0 s"
    ),
    the_deadline_comes_before_the_loss: (
        "barrier step (step 7) waits for b (silent for 12.0 s), 12.0 s so far; it is aborted for all in 8.0 s"
    ),
    the_deadline_is_over_at_the_next_tick: (
        "barrier step (step 7) waits for b (idle), 20.0 s so far; it is aborted for all at any moment"
    ),
    they_stand_at_different_steps: (
        "barrier step waits for c (idle), 3.0 s so far; it is aborted for all in 10 min, or when it is full: "
        "the steps differ (a at step 7; b at step 8)"
    ),
    one_recovers_after_a_roll_back: (
        "barrier step (step 3) waits for c (recovering since the roll-back), 8.0 s so far; it is aborted for "
        "all in 10 min"
    ),
    one_that_stands_there_is_silent: (
        "barrier step (step 7) waits for c (idle), 12.0 s so far; it is aborted for all in 10 min. b has sent"
        " no heartbeat for 12.0 s; it is lost in 18.0 s"
    ),
    two_barriers_wait_for_each_other: (
        "barriers save, load wait for each other, 12.0 s so far: a stands at save and b at load; the first is"
        " aborted for all in 10 min; to go on, drop one (quoracy run drop-barrier); every worker must call "
        "all of them in the same order"
    ),
    three_barriers_wait_for_each_other: (
        "barriers eval, load, save wait for each other, 10.0 s so far: c stands at eval, b at load and a at "
        "save; all of them wait for d (idle); the first is aborted for all in 10 min; to go on, drop one "
        "(quoracy run drop-barrier); every worker must call all of them in the same order"
    ),
    two_groups_have_a_barrier_each: (
        "barriers group-0, group-1 wait for each other, 10.0 s so far: a, b stand at group-0 and c, d at "
        "group-1; the first is aborted for all in 10 min; to go on, drop one (quoracy run drop-barrier); "
        "every worker must call all of them in the same order"
    ),
    one_of_those_that_wait_for_each_other_is_silent: (
        "barriers load, save wait for each other, 10.0 s so far: b stands at load and a at save; b is lost in"
        " 20.0 s; to go on, drop one (quoracy run drop-barrier); every worker must call all of them in the "
        "same order"
    ),
    nobody_has_come: "no worker is here: waits for one to register",
    everybody_is_gone: "no worker is here any more (lost: 2, left: 1): waits for one to register",
    the_run_was_stopped: "the run is over: it has converged",
    one_never_became_ready: (
        "waits for nobody (workers here: 3, taking part in barriers: 2); c has not reported ready"
    ),
    nobody_is_ready: "no worker takes part in barriers: a, b have not reported ready",
    one_came_back_and_recovers: (
        "waits for nobody (workers here: 3, taking part in barriers: 2); c recovers and has not reported idle"
    ),
    all_recover_after_a_roll_back: (
        "waits for nobody (workers here: 3, taking part in barriers: 3); b, c recover since the roll-back"
    ),
    all_are_paused: "an operator has paused a, b, c: waits for an operator to resume them",
    one_is_paused: "waits for nobody (workers here: 3, taking part in barriers: 3); an operator has paused b",
    one_more_loss_stops_barriers: (
        "waits for nobody (workers here: 3, taking part in barriers: 3); the next loss stops barriers: barrier_min = 3"
    ),
    one_is_silent_that_the_quorum_needs: (
        "c has sent no heartbeat for 12.0 s; it is lost in 18.0 s; barriers then wait for 1 more worker "
        "(barrier_min = 3)"
    ),
    a_switch_failed: (
        "w3, w4, w5, w6, w7 and 12 more have sent no heartbeat for up to 12.0 s; the first is lost in 18.0 s"
    ),
    one_is_stuck: "b is alive but stuck: no progress for 3 min",
    the_coordinator_has_just_started: (
        "the coordinator started 12.0 s ago and has not heard from a, b yet; the first is lost in 18.0 s"
    ),
    the_coordinator_has_just_started_at_a_barrier: (
        "barrier step (step 7) waits for c (not heard since the coordinator started 4.0 s ago), 3.0 s so far;"
        " c is lost and the others go on in 26.0 s"
    ),
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_a_situation_is_told_in_one_sentence(situation: Callable[[], Yard]) -> None:
    assert explained(situation()).sentence == SITUATIONS[situation]


# -- the value beside the sentence ---------------------------------------------------------------------------------


def test_the_value_has_the_first_thing_that_ends_the_wait() -> None:
    first, second = explained(one_is_silent()).waits
    assert first == Wait("barrier step", ("c",), 6 * SECOND, 24 * SECOND, "c is lost and the others go on")
    assert second == Wait("a heartbeat", ("c",), 6 * SECOND, 24 * SECOND, "it is lost")
    (only,) = explained(the_last_one_computes()).waits
    assert (only.missing, only.left_us, only.then) == (("c",), 560 * SECOND, "it is aborted for all")


def test_the_said_end_is_what_then_happens() -> None:
    """Each situation with an end that is said to come goes on as it is, and that end comes, and not before."""
    for situation in (one_is_silent, two_are_silent_and_one_is_lost_sooner, the_next_loss_costs_the_quorum,
                      the_deadline_comes_before_the_loss):  # fmt: skip
        yard = situation()
        wait = explained(yard).waits[0]
        assert wait.left_us is not None
        yard.pass_s(wait.left_us / SECOND - 1, *wait.missing)
        assert yard.fleet.barriers == {}, situation
        yard.pass_s(1.000_001, *wait.missing)
        released = yard.fleet.barriers["step"].released
        assert released == ("go on" in wait.then), situation


def test_barriers_that_wait_for_each_other_are_one_wait() -> None:
    (wait,) = explained(three_barriers_wait_for_each_other()).waits
    assert (wait.what, wait.missing) == ("barriers eval, load, save: they wait for each other", tuple("abcd"))
    assert (wait.waited_us, wait.left_us, wait.then) == (10 * SECOND, 590 * SECOND, "the first is aborted for all")


def test_a_paused_worker_is_not_stuck() -> None:
    yard = all_are_paused()
    assert explained(yard).waits == ()
    assert {worker["stuck_s"] for worker in yard.collector.overview(yard.machine, yard.hand.now_us)["workers"]} == {0}
    yard.order(WorkerOrdered("", "resume"))
    assert [wait.missing for wait in explained(yard).waits] == [("a",), ("b",), ("c",)]


def test_a_thousand_barriers_of_one_worker_each_are_one_sentence_and_one_wait() -> None:
    """As if the rank were part of the barrier's name: the value must not be a million names."""
    names = [f"w{i}" for i in range(1000)]
    yard = standing(*names)
    for name in names:
        yard.arrive(name, 1, f"of-{name}")
    explanation = explained(yard)
    assert len(explanation.waits) == 1
    assert len(explanation.sentence) < 500


def test_very_many_sentences_are_cut_short_and_all_waits_are_in_the_value() -> None:
    """Ten barriers, one inside the other, so that none of them waits for a later one."""
    names = [f"w{i}" for i in range(11)]
    yard = standing(*names, open_barriers_max=16)
    for i, name in enumerate(names[:10]):
        for barrier in range(i, 10):
            yard.arrive(name, 1, f"b{barrier}")
    explanation = explained(yard)
    assert len(explanation.waits) == 10
    assert explanation.sentence.endswith(". and 2 more waits")
    assert explanation.sentence.count("barrier b") == 8 + explanation.sentence.count("stands at barrier b")


# -- circles -------------------------------------------------------------------------------------------------------


@given(st.lists(st.sets(st.integers(0, 4), min_size=1), max_size=6))
def test_circles_are_those_of_the_graph(crowds: list[set[int]]) -> None:
    """Beside the definition: a barrier waits for another if somebody stands there and not here; a circle is a set of
    barriers that all reach each other."""
    gatherings = [Gathering(f"g{i}", 1, 0, 0, 0, dict.fromkeys(seats, 0)) for i, seats in enumerate(crowds)]
    reach = [[bool(there - here) for there in crowds] for here in crowds]
    for k, i, j in product(range(len(crowds)), repeat=3):
        reach[i][j] |= reach[i][k] and reach[k][j]
    expected = {
        frozenset(f"g{j}" for j in range(len(crowds)) if i == j or (reach[i][j] and reach[j][i]))
        for i in range(len(crowds))
    }
    circles, others = tangles(gatherings)
    found = [frozenset(gathering.name for gathering in circle.gatherings) for circle in circles]
    assert {circle for circle in expected if len(circle) > 1} == set(found)
    assert {circle for circle in expected if len(circle) == 1} == {frozenset([g.name]) for g in others}
    for circle in circles:
        stand = [set(gathering.arrivals) for gathering in circle.gatherings]
        assert (circle.at_any, circle.at_all) == (set.union(*stand), set.intersection(*stand))


def explained(yard: Yard) -> Explanation:
    return yard.collector.explain(yard.machine, yard.hand.now_us)
