"""What ranks say they wait for: situations as somebody on call finds them, each with the sentence to expect.

Every sentence names who is missing and what happens when if they stay away, and nobody who has arrived.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.ranks.deck import Boat
from tests.core.ranks.test_collect import Watcher
from tests.core.ranks.test_salvage import come_back, lose_store

from quoracy.core.machine import Wait
from quoracy.core.ranks.events import RunStopped

SECOND = 1_000_000


def sentence(watcher: Watcher) -> str:
    return watcher.explain()


# -- forming -------------------------------------------------------------------------------------------------------


def nobody_has_come() -> Watcher:
    return Watcher(form_members=2)


def too_few_have_come() -> Watcher:
    watcher = Watcher(form_members=3)
    watcher.write(watcher.deck.joining(0))
    watcher.pass_s(5, 0)
    return watcher


def one_of_those_who_came_is_silent() -> Watcher:
    watcher = Watcher(form_members=3)
    watcher.write(watcher.deck.joining(0))
    watcher.write(watcher.deck.joining(1))
    watcher.pass_s(12, 0)
    return watcher


def too_few_came_back_after_the_store_was_lost() -> Watcher:
    watcher = Watcher(generation=1, began_attempt=4, began_number=3, began_members=["0", "1", "2"])
    watcher.write(watcher.deck.joining(0))
    watcher.pass_s(2, 0)
    return watcher


# -- an attempt ----------------------------------------------------------------------------------------------------


def two_are_alive() -> Watcher:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(0)
    watcher.pass_s(1, 0, 1, 2)
    return watcher


def this_rank_has_not_arrived() -> Watcher:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(1, 2)
    watcher.pass_s(3, 0, 1, 2)
    return watcher


def the_last_one_is_silent() -> Watcher:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(0, 1)
    watcher.pass_s(20, 0, 1)
    return watcher


def one_is_silent_and_one_is_alive() -> Watcher:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(0)
    watcher.pass_s(20, 0, 1)
    return watcher


def two_are_silent_and_one_is_lost_sooner() -> Watcher:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(0)
    watcher.pass_s(5, 0, 1)
    watcher.pass_s(12, 0)
    return watcher


def the_loss_leaves_too_few() -> Watcher:
    watcher = Watcher(0, 1, min_members=2)
    watcher.arrive(0)
    watcher.pass_s(20, 0)
    return watcher


def too_few_are_left() -> Watcher:
    watcher = Watcher(0, 1, min_members=2)
    watcher.write(watcher.deck.said(1))
    watcher.arrive(0)
    return watcher


def too_few_are_left_and_one_is_silent_for_too_long() -> Watcher:
    watcher = Watcher(0, 1, min_members=2)
    watcher.arrive(0)
    watcher.pass_s(31, 0)
    return watcher


def one_that_arrived_is_silent() -> Watcher:
    watcher = Watcher(0, 1, 2)
    watcher.arrive(0, 1)
    watcher.pass_s(12, 0, 2)
    return watcher


def all_have_arrived() -> Watcher:
    watcher = Watcher(0, 1)
    watcher.arrive(0, 1)
    return watcher


def many_are_missing() -> Watcher:
    watcher = Watcher(*range(12))
    watcher.arrive(0)
    watcher.pass_s(1, *range(12))
    return watcher


def it_was_stopped() -> Watcher:
    watcher = Watcher(0)
    watcher.deck.machine.apply(RunStopped("enough"), 0, None)
    return watcher


SITUATIONS: dict[Callable[[], Watcher], str] = {
    nobody_has_come: "the run waits for 2 more ranks to begin (0 of 2 are there), 0 ms so far",
    too_few_have_come: "the run waits for 2 more ranks to begin (1 of 3 are there), 5.0 s so far",
    one_of_those_who_came_is_silent: (
        "the run waits for 1 more rank to begin (2 of 3 are there), 12.0 s so far. rank 1 has sent no heartbeat "
        "for 12.0 s; it is lost in 18.0 s"
    ),
    too_few_came_back_after_the_store_was_lost: (
        "the run waits for 1 more of rank 1, rank 2 to begin (1 of 1 are there; a majority of those is needed "
        "who were in before the store was lost), 2.0 s so far"
    ),
    two_are_alive: (
        "attempt 2 of iteration 0 (1 of 3 ranks have arrived) waits for rank 1, rank 2 (alive), 1.0 s so far; "
        "there is no time-out while rank 1, rank 2 are alive"
    ),
    this_rank_has_not_arrived: (
        "attempt 2 of iteration 0 (2 of 3 ranks have arrived) waits for rank 0 (this rank), 3.0 s so far; there "
        "is no time-out while rank 0 is alive"
    ),
    the_last_one_is_silent: (
        "attempt 2 of iteration 0 (2 of 3 ranks have arrived) waits for rank 2 (silent for 20.0 s), 20.0 s so "
        "far; rank 2 is lost and the others go on in 10.0 s"
    ),
    one_is_silent_and_one_is_alive: (
        "attempt 2 of iteration 0 (1 of 3 ranks have arrived) waits for rank 2 (silent for 20.0 s, lost in 10.0 "
        "s) and rank 1 (alive), 20.0 s so far; there is no time-out while rank 1 is alive"
    ),
    two_are_silent_and_one_is_lost_sooner: (
        "attempt 2 of iteration 0 (1 of 3 ranks have arrived) waits for rank 2 (silent for 17.0 s, lost in 13.0 "
        "s) and rank 1 (silent for 12.0 s, lost in 18.0 s), 17.0 s so far; rank 2, rank 1 are lost and the "
        "others go on in 18.0 s"
    ),
    the_loss_leaves_too_few: (
        "attempt 2 of iteration 0 (1 of 2 ranks have arrived) waits for rank 1 (silent for 20.0 s), 20.0 s so "
        "far; rank 1 counts as lost and it waits for 1 more rank in 10.0 s"
    ),
    too_few_are_left: "attempt 2 of iteration 0 waits for 1 more rank (1 would go on and 2 are needed), 0 ms so far",
    too_few_are_left_and_one_is_silent_for_too_long: (
        "attempt 2 of iteration 0 waits for 1 more rank (1 would go on and 2 are needed; silent for longer than "
        "t_dead_s: rank 1), 31.0 s so far"
    ),
    one_that_arrived_is_silent: (
        "attempt 2 of iteration 0 (2 of 3 ranks have arrived) waits for rank 2 (alive), 12.0 s so far; there is "
        "no time-out while rank 2 is alive. rank 1 has sent no heartbeat for 12.0 s; it is lost in 18.0 s"
    ),
    all_have_arrived: "attempt 2 of iteration 0 waits for its record (all have arrived), 0 ms so far",
    many_are_missing: (
        "attempt 2 of iteration 0 (1 of 12 ranks have arrived) waits for rank 1, rank 2, rank 3, rank 4, rank 5 "
        "and 6 more (alive), 1.0 s so far; there is no time-out while rank 1, rank 2, rank 3, rank 4, rank 5 and "
        "6 more are alive"
    ),
    it_was_stopped: "the run is over: enough",
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_a_situation_is_told_in_one_sentence(situation: Callable[[], Watcher]) -> None:
    assert sentence(situation()) == SITUATIONS[situation]


# -- the value beside the sentence ---------------------------------------------------------------------------------


def test_the_value_has_what_ends_the_wait() -> None:
    watcher = the_last_one_is_silent()
    first, second = watcher.collector.explain(watcher.deck.machine, watcher.now_us).waits
    what, then = "attempt 2 of iteration 0: 2 of 3 arrived", "rank 2 is lost and the others go on"
    assert first == Wait(what, ("2",), 20 * SECOND, 10 * SECOND, then)
    assert second == Wait("a heartbeat", ("2",), 20 * SECOND, 10 * SECOND, "it is lost")


def test_the_said_end_is_what_then_happens() -> None:
    for situation, left_s in ((the_last_one_is_silent, 10), (two_are_silent_and_one_is_lost_sooner, 18)):
        watcher = situation()
        watcher.pass_s(left_s, 0, 1) if situation is the_last_one_is_silent else watcher.pass_s(left_s, 0)
        assert watcher.due() == []
        watcher.now_us += 1
        assert watcher.record().outcome == "committed"


def test_nobody_is_given_up_as_long_as_too_few_would_go_on() -> None:
    watcher = the_loss_leaves_too_few()
    watcher.pass_s(60, 0)
    assert watcher.due() == []


def test_a_rank_says_until_when_it_waits_for_those_who_were_in_before_the_store_was_lost() -> None:
    boat = Boat()
    sailors = boat.board(0, 1, 2)
    boat.all_vote(*sailors)
    lose_store(boat)
    sailors[1].go(come_back(sailors[1]))
    boat.pass_s(0.01)
    sailors[1].frozen = True
    sailors[0].go(come_back(sailors[0]))
    boat.pass_s(1.0)
    said = sailors[0].part.explain()
    assert said.startswith("rank 0 is in stage Joining; the run waits for 1 more of rank 1, rank 2 to begin (")
    assert "; this rank ends in 1." in said
    boat.until(lambda: not sailors[0].busy)
    assert "ends" not in sailors[0].part.explain()
