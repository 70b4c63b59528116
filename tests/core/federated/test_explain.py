"""In words: situations as somebody on call finds them, each with the sentence to expect; and the run in figures.

Every sentence names who is missing and what happens when if they stay away, and nobody whose update is in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.federated.study import LOST_S, Study, studying

from quoracy.core.codec import builtins
from quoracy.core.federated.events import RunPaused, RunStopped
from quoracy.core.machine import Wait

SECOND = 1_000_000


def sentence(study: Study) -> str:
    return study.explain().sentence


# -- standby -------------------------------------------------------------------------------------------------------


def too_few_have_come() -> Study:
    study = studying("a", "b", clients=3)
    study.pass_s(10.0)
    return study


def one_of_them_is_lost() -> Study:
    study = studying("a", "b", clients=4)
    study.join("c")
    study.lose("c")
    study.join("d")
    study.leave("d")
    return study


def too_few_have_come_for_the_initial_weights() -> Study:
    return studying("a", clients=2, initial="")


def nobody_can_give_the_initial_weights() -> Study:
    study = Study(clients=2, initial="")
    study.join("a", "b", initial=False)
    study.pass_s(3.0)
    return study


def the_slow_one_cannot_be_replaced() -> Study:
    study = studying("a", "b", time_max_s=20.0)
    study.update("a")
    study.pass_s(20.0)
    return study


def one_is_quarantined() -> Study:
    study = studying("a", "b")
    study.offer("a")
    study.refuse("a")
    return study


def one_came_back_to_its_place_and_too_few_are_registered() -> Study:
    study = studying("a", "b", "c", count_min=1)
    for name in "abc":
        study.leave(name)
    study.join("a")
    study.pass_s(2.0)
    return study


# -- a round -------------------------------------------------------------------------------------------------------


def all_train() -> Study:
    study = studying(*"abcdefgh", time_max_s=100.0)
    study.pass_s(10.0)
    return study


def too_few_are_done() -> Study:
    study = studying("a", "b", "c", "d", count_min=2, time_max_s=100.0)
    study.update("a")
    study.pass_s(10.0)
    return study


def enough_are_done_with_one_that_is_examined() -> Study:
    study = too_few_are_done()
    study.offer("b")
    return study


def the_last_one_trains() -> Study:
    study = studying("a", "b", time_max_s=100.0)
    study.update("a")
    study.beat("b", progress=7)
    study.pass_s(4.0, "b")
    study.beat("b", progress=7)
    return study


def the_last_one_is_silent_and_cannot_be_replaced() -> Study:
    study = studying("a", "b")
    study.update("a")
    study.pass_s(9.0, "b")
    return study


def the_last_one_is_silent_and_another_can_step_in() -> Study:
    study = studying("a", "b", "c", clients=2, per_round=2)
    study.update(study.training()[0])
    study.pass_s(9.0, *study.training())
    return study


def the_last_one_is_silent_and_the_round_has_enough() -> Study:
    study = studying("a", "b", "c", count_min=2)
    study.update("a", "b")
    study.pass_s(9.0, "c")
    return study


def two_are_silent_and_the_second_loss_ends_it() -> Study:
    study = studying(*"abcd", count_min=2)
    study.update("a", "b")
    study.pass_s(4.0, "c")
    study.pass_s(7.0, "c", "d")
    return study


def one_is_silent_and_one_trains() -> Study:
    study = studying("a", "b", "c", count_min=1, time_max_s=100.0)
    study.update("a")
    study.pass_s(9.0, "c")
    return study


def the_time_is_over_before_the_loss() -> Study:
    study = studying("a", "b", count_min=1, time_max_s=12.0)
    study.update("a")
    study.pass_s(9.0, "b")
    return study


def the_last_one_is_stuck() -> Study:
    study = studying("a", "b", stuck_after_s=30.0)
    study.update("a")
    study.beat("b")
    study.pass_s(31.0)
    return study


def all_are_stuck() -> Study:
    study = studying(*"abcdefghijkl", stuck_after_s=1.0)
    for name in "abcdefghijkl":
        study.beat(name, progress=1)
    study.pass_s(5.0)
    return study


def only_an_update_is_examined() -> Study:
    study = studying("a", "b")
    study.update("a")
    study.offer("b")
    study.pass_s(3.0)
    return study


def the_time_is_over_and_an_update_that_is_needed_is_not_examined() -> Study:
    study = studying("a", "b", "c", count_min=2, time_max_s=20.0)
    study.update("a")
    study.offer("b")
    study.pass_s(25.0)
    return study


def the_time_is_over_and_an_update_is_not_examined() -> Study:
    study = studying("a", "b", "c", count_min=1, time_max_s=20.0)
    study.update("a")
    study.offer("b")
    study.pass_s(25.0)
    return study


def it_has_all_and_waits_for_its_time() -> Study:
    study = studying("a", "b", time_min_s=60.0, time_max_s=100.0)
    study.update("a", "b")
    study.pass_s(10.0)
    return study


def it_was_taken_up_again() -> Study:
    study = studying("a", "b", time_max_s=100.0)
    study.pass_s(10.0)
    study.leave("b")
    study.pass_s(30.0)
    study.join("b")
    study.pass_s(5.0)
    return study


def one_gives_the_initial_weights() -> Study:
    study = Study(clients=2, initial="", time_max_s=100.0)
    study.join("a", initial=True)
    study.join("b", initial=True)
    study.pass_s(2.0)
    return study


def one_that_is_done_is_silent() -> Study:
    study = studying("a", "b", time_max_s=100.0)
    study.update("a")
    study.pass_s(11.0, "a")
    return study


def the_coordinator_has_just_started() -> Study:
    study = studying("a", "b")
    study.update("a")
    study = study.takeover()
    study.pass_s(4.0, "b")
    return study


def the_coordinator_has_just_started_and_those_who_are_done_are_silent() -> Study:
    study = studying("a", "b", "c")
    study.update("a", "b")
    study = study.takeover()
    study.pass_s(11.0, "a", "b")
    return study


# -- after a round -------------------------------------------------------------------------------------------------


def updates_are_aggregated() -> Study:
    study = studying("a", "b")
    study.update("a", "b")
    return study


def it_pauses_after_the_aggregation() -> Study:
    study = updates_are_aggregated()
    study.order(RunPaused("lunch"))
    study.pass_s(3.0)
    return study


def the_model_is_evaluated() -> Study:
    study = studying("a", "b", evaluation="mine:score")
    study.update("a", "b")
    study.aggregate()
    return study


def it_paused_because_one_is_gone() -> Study:
    study = studying("a", "b", standby_max_s=10.0)
    study.update("a")
    study.lose("b")
    study.pass_s(10.0)
    return study


def an_operator_paused_it() -> Study:
    study = studying("a", initial="", clients=2)
    study.order(RunPaused())
    return study


def all_rounds_are_over() -> Study:
    study = studying("a", rounds=2)
    study.run_round("a")
    study.run_round("a")
    return study


def an_operator_stopped_it() -> Study:
    study = studying("a", initial="", clients=2)
    study.order(RunStopped())
    return study


SITUATIONS: dict[Callable[[], Study], str] = {
    too_few_have_come: (
        "round 0 waits for 1 more participant (2 of clients = 3 are registered), 10.0 s so far; it pauses in 10 min"
    ),
    one_of_them_is_lost: (
        "round 0 waits for 2 more participants (2 of clients = 4 are registered; lost: c; left: d), 15.0 s so "
        "far; it pauses in 10 min"
    ),
    too_few_have_come_for_the_initial_weights: (
        "the round for the initial weights waits for 1 more participant (1 of clients = 2 are registered), 0 ms "
        "so far; it pauses in 10 min"
    ),
    nobody_can_give_the_initial_weights: (
        "the round for the initial weights waits for a participant that can give them (2 are registered), 3.0 s "
        "so far; it pauses in 10 min"
    ),
    the_slow_one_cannot_be_replaced: (
        "round 0 is suspended and waits for 1 more participant (0 of the 2 registered can step in; timed out: "
        "b), 0 ms so far; it pauses in 10 min"
    ),
    one_is_quarantined: (
        "round 0 is suspended and waits for 1 more participant (1 of clients = 2 are registered; quarantined: "
        "a), 0 ms so far; it pauses in 10 min"
    ),
    one_came_back_to_its_place_and_too_few_are_registered: (
        "round 0 is suspended and waits for 2 more participants, or for updates of a (1 of clients = 3 are "
        "registered; left: b, c), 2.0 s so far; it pauses in 10 min"
    ),
    all_train: (
        "round 0 (0 of 8 updates are in) waits for a, b, c, d, e and 3 more (training), 10.0 s so far; a, b, c, "
        "d, e and 3 more time out and it waits for 8 more participants in 90.0 s"
    ),
    too_few_are_done: (
        "round 0 (1 of 4 updates are in) waits for b, c, d (training), 10.0 s so far; b, c, d time out and it "
        "waits for 1 more participant in 90.0 s"
    ),
    enough_are_done_with_one_that_is_examined: (
        "round 0 (1 of 4 updates are in, 1 is being examined) waits for c, d (training), 10.0 s so far; it "
        "closes with 2 updates in 90.0 s"
    ),
    the_last_one_trains: (
        "round 0 (1 of 2 updates are in) waits for b (training, last progress 4.0 s ago), 4.0 s so far; b times "
        "out and it waits for 1 more participant in 96.0 s"
    ),
    the_last_one_is_silent_and_cannot_be_replaced: (
        "round 0 (1 of 2 updates are in) waits for b (silent for 9.0 s), 9.0 s so far; b is lost and it waits "
        "for 1 more participant in 6.0 s"
    ),
    the_last_one_is_silent_and_another_can_step_in: (
        "round 0 (1 of 2 updates are in) waits for b (silent for 9.0 s), 9.0 s so far; b is lost and is replaced "
        "in 6.0 s"
    ),
    the_last_one_is_silent_and_the_round_has_enough: (
        "round 0 (2 of 3 updates are in) waits for c (silent for 9.0 s), 9.0 s so far; c is lost and it closes "
        "with 2 updates in 6.0 s"
    ),
    two_are_silent_and_the_second_loss_ends_it: (
        "round 0 (2 of 4 updates are in) waits for c (silent for 11.0 s, lost in 4.0 s) and d (silent for 8.0 s, "
        "lost in 7.0 s), 11.0 s so far; c, d are lost and it closes with 2 updates in 7.0 s"
    ),
    one_is_silent_and_one_trains: (
        "round 0 (1 of 3 updates are in) waits for c (silent for 9.0 s, lost in 6.0 s) and b (training), 9.0 s "
        "so far; it closes with 1 update in 91.0 s"
    ),
    the_time_is_over_before_the_loss: (
        "round 0 (1 of 2 updates are in) waits for b (silent for 9.0 s), 9.0 s so far; it closes with 1 update in 3.0 s"
    ),
    the_last_one_is_stuck: (
        "round 0 (1 of 2 updates are in) waits for b (alive but stuck: no progress for 31.0 s), 31.0 s so far; b "
        "times out and it waits for 1 more participant in 59 min"
    ),
    all_are_stuck: (
        "round 0 (0 of 12 updates are in) waits for a, b, c, d, e and 7 more (alive but stuck: no progress for "
        "up to 5.0 s), 5.0 s so far; a, b, c, d, e and 7 more time out and it waits for 12 more participants in "
        "60 min"
    ),
    only_an_update_is_examined: (
        "round 0 (1 of 2 updates are in) waits for 1 update to be examined, 3.0 s so far; the update that is not "
        "examined is dropped and it waits for 1 more participant in 120 min"
    ),
    the_time_is_over_and_an_update_that_is_needed_is_not_examined: (
        "round 0 (1 of 3 updates are in) waits for 1 update to be examined, 25.0 s so far; c times out, the "
        "update that is not examined is dropped and it waits for 1 more participant in 15.0 s"
    ),
    the_time_is_over_and_an_update_is_not_examined: (
        "round 0 (1 of 3 updates are in) waits for 1 update to be examined, 25.0 s so far; it closes with 1 "
        "update in 15.0 s"
    ),
    it_has_all_and_waits_for_its_time: (
        "round 0 (2 of 2 updates are in) waits until time_min_s = 60 is over, 10.0 s so far; it closes with 2 "
        "updates in 50.0 s"
    ),
    it_was_taken_up_again: (
        "round 0 (0 of 2 updates are in) waits for a, b (training), 15.0 s so far; a, b time out and it waits "
        "for 2 more participants in 85.0 s"
    ),
    one_gives_the_initial_weights: (
        "the round for the initial weights waits for a (training), 2.0 s so far; a times out and is replaced in 98.0 s"
    ),
    one_that_is_done_is_silent: (
        "round 0 (1 of 2 updates are in) waits for b (training), 11.0 s so far; b times out and it waits for 1 "
        "more participant in 89.0 s. a has sent no heartbeat for 11.0 s; it is lost in 4.0 s"
    ),
    the_coordinator_has_just_started: (
        "round 0 (1 of 2 updates are in) waits for b (not heard since the coordinator started 4.0 s ago), 4.0 s "
        "so far; b is lost and it waits for 1 more participant in 11.0 s"
    ),
    the_coordinator_has_just_started_and_those_who_are_done_are_silent: (
        "round 0 (2 of 3 updates are in) waits for c (training), 11.0 s so far; c times out and it waits for 1 "
        "more participant in 60 min. the coordinator started 11.0 s ago and has not heard from a, b yet; the "
        "first is lost in 4.0 s"
    ),
    updates_are_aggregated: "round 0 waits for the aggregation of 2 updates, 0 ms so far",
    it_pauses_after_the_aggregation: (
        "round 0 waits for the aggregation of 2 updates, 3.0 s so far; then it pauses: lunch"
    ),
    the_model_is_evaluated: "round 0 waits for the evaluation of the new model, 0 ms so far",
    it_paused_because_one_is_gone: (
        "paused before round 0 is done: 1 of clients = 2 are registered; gone: b; resume it to go on"
    ),
    an_operator_paused_it: "paused before round 0 is done: an operator paused it; resume it to go on",
    all_rounds_are_over: "the run is over after 2 rounds: all rounds",
    an_operator_stopped_it: "the run is over after 0 rounds: an operator stopped it",
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_a_situation_is_told_in_one_sentence(situation: Callable[[], Study]) -> None:
    assert sentence(situation()) == SITUATIONS[situation]


# -- the value beside the sentence ---------------------------------------------------------------------------------


def test_the_value_has_the_first_thing_that_ends_the_wait() -> None:
    first, second = the_last_one_is_silent_and_the_round_has_enough().explain().waits
    then = "c is lost and it closes with 2 updates"
    assert first == Wait("round 0: 2 of 3 updates are in", ("c",), 9 * SECOND, 6 * SECOND, then)
    assert second == Wait("a heartbeat", ("c",), 9 * SECOND, 6 * SECOND, "it is lost")


@pytest.mark.parametrize(
    ("situation", "phase"),
    [
        (too_few_have_come, "Paused"),
        (the_last_one_is_silent_and_cannot_be_replaced, "Standby"),
        (the_last_one_is_silent_and_the_round_has_enough, "Closing"),
        (two_are_silent_and_the_second_loss_ends_it, "Closing"),
        (one_is_silent_and_one_trains, "Closing"),
        (the_time_is_over_before_the_loss, "Closing"),
        (the_time_is_over_and_an_update_that_is_needed_is_not_examined, "Standby"),
        (the_time_is_over_and_an_update_is_not_examined, "Closing"),
        (it_has_all_and_waits_for_its_time, "Closing"),
        (it_was_taken_up_again, "Standby"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_said_end_is_what_then_happens(situation: Callable[[], Study], phase: str) -> None:
    """All goes on as it is, and that end comes, and not before."""
    study = situation()
    told, before = study.explain(), study.phase
    silent = [name for wait in told.waits if wait.what == "a heartbeat" for name in wait.missing]
    left_us = told.waits[0].left_us
    assert left_us is not None
    study.pass_s((left_us - 1000) / SECOND, *silent)
    assert study.phase == before
    study.pass_s(0.001_001, *silent)
    assert study.phase == phase


def test_one_that_can_be_replaced_is_replaced_when_it_is_said() -> None:
    study = the_last_one_is_silent_and_another_can_step_in()
    (silent,) = study.training()
    study.pass_s(LOST_S - 9.0, silent)
    assert study.phase == "Round"
    assert study.training() != [silent]


def test_many_names_are_not_all_told() -> None:
    study = studying(*"abcdefgh")
    assert "waits for a, b, c, d, e and 3 more (training)" in sentence(study)
    assert study.explain().waits[0].missing == tuple("abcdefgh")


def test_all_who_are_stuck_have_a_wait_each() -> None:
    assert len(all_are_stuck().explain().waits) == 13


def test_the_overview_shows_the_run_its_round_its_people_and_what_is_over() -> None:
    study = studying("a", "b", "c", count_min=2, count_max=2, rounds=2)
    study.update("a", metrics={"loss": 1.0})
    study.offer("c")
    study.update("b", metrics={"loss": 2.0})
    study.aggregate()
    study.pass_s(2.0)
    study.beat("a", progress=4, epoch=1, metrics={"loss": 0.5, "gradient": float("nan"), "step": float("-inf")})
    shown: dict[str, Any] = builtins(study.overview())
    assert (shown["phase"], shown["round"], shown["rounds"], shown["here"]) == ("Round", 1, 2, 3)
    assert shown["open"]["assignments"] == {"a": "Training", "b": "Training", "c": "Training"}
    assert (shown["open"]["training"], shown["open"]["away"]) == (3, [])
    (over,) = shown["history"]
    assert (over["updates"], over["samples"], over["admitted"]) == (2, 20, ["a", "b"])
    assert over["dropped"][0]["participant"] == "c"
    assert over["metrics"] == {"loss": 1.5}
    first = shown["participants"][0]
    assert (first["id"], first["state"], first["updates"], first["silent_s"]) == ("a", "Training", 1, 0.0)
    assert (first["progress"], first["epoch"], first["metrics"]) == (4, 1, {"loss": 0.5})


def test_nobody_waits_for_one_in_quarantine_and_everybody_learns_that_it_is_there() -> None:
    study = one_is_quarantined()
    assert study.explain().waits[0].missing == ()
    study.pass_s(600.0, pace_s=5.0)
    assert study.phase == "Paused"
    assert study.task.reason.endswith("quarantined: a")
