"""What the run is waiting for, in words: situations as somebody on call finds them, each with the sentence to expect.
And the run in figures.

Every sentence names who is missing and what happens when if they stay away, and nobody who has done its part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.witnessed.camp import Camp, camping, model, training

from quoracy.core.machine import Wait
from quoracy.core.witnessed.events import RunPaused, RunStopped

SECOND = 1_000_000
SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}
PATIENT: dict[str, Any] = SLOW | {"round_witness_s": 60.0}
"""A loss comes before the end of a phase's time."""


def waits(camp: Camp) -> list[Wait]:
    return list(camp.explain().waits)


def sentence(camp: Camp) -> str:
    return camp.explain().sentence


# -- before the rounds ---------------------------------------------------------------------------------------------


def too_few_have_come() -> Camp:
    camp = Camp(init_min_clients=4)
    camp.join("a", "b", "c")
    camp.leave("b")
    camp.lose("c")
    return camp


def enough_are_there_and_more_may_come() -> Camp:
    camp = camping("a", "b", waiting_extra_s=3.0)
    camp.pass_s(1.0)
    return camp


def enough_are_there_and_one_is_silent() -> Camp:
    camp = camping("a", "b", waiting_extra_s=100.0)
    camp.pass_s(12.0, "b")
    return camp


def all_load_the_model() -> Camp:
    return camping("a", "b", min_clients=2)


def some_load_the_model() -> Camp:
    camp = camping("a", "b", "c")
    camp.load("b")
    camp.pass_s(2.0)
    return camp


def the_last_one_to_load_is_silent() -> Camp:
    camp = camping("a", "b", "c")
    camp.load("a", "b")
    camp.pass_s(12.0, "c")
    return camp


def one_that_loads_is_silent_and_the_epoch_needs_it() -> Camp:
    camp = camping("a", "b", min_clients=2)
    camp.load("a")
    camp.pass_s(12.0, "b")
    return camp


def too_few_had_the_model() -> Camp:
    camp = camping("a", "b", min_clients=2, waiting_extra_s=5.0)
    camp.pass_s(5.0)
    camp.load("a")
    camp.pass_s(60.0)
    return camp


# -- training ------------------------------------------------------------------------------------------------------


def some_train() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a")
    camp.pass_s(3.0)
    return camp


def one_that_trains_is_silent() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a")
    camp.pass_s(12.0, "c")
    return camp


def one_is_silent_and_too_little_time_is_left_for_its_work() -> Camp:
    camp = training("a", "b", **SLOW)
    camp.commit("a")
    camp.pass_s(50.0)
    camp.pass_s(10.0, "b")
    return camp


def all_are_silent() -> Camp:
    names = [f"m{i:02}" for i in range(12)]
    camp = training(*names, global_batch_size_start=12, **SLOW)
    camp.pass_s(12.0, *names)
    return camp


def one_is_stuck() -> Camp:
    camp = training("a", "b", stuck_after_s=20.0, **SLOW)
    for second in range(25):
        camp.pass_s(1.0, "a", "b")
        camp.beat("a", progress=second)
        camp.beat("b", progress=1)
    return camp


def work_is_left_for_the_next_round() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.pass_s(60.0)
    camp.leave("b")
    camp.commit("a")
    return camp


def only_what_is_left_for_the_next_round_is_missing() -> Camp:
    camp = work_is_left_for_the_next_round()
    camp.commit("c")
    return camp


def results_lack_a_quorum() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a", "b", "c")
    camp.hold("a")
    camp.pass_s(3.0)
    return camp


def results_lack_a_quorum_and_a_witness_is_silent() -> Camp:
    camp = results_lack_a_quorum()
    camp.pass_s(12.0, "c")
    return camp


def no_quorum_can_come() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a", "b", "c")
    camp.leave("b")
    camp.leave("c")
    return camp


def it_pauses_after_the_round() -> Camp:
    camp = some_train()
    camp.order(RunPaused("lunch"))
    return camp


def it_stops_after_the_round() -> Camp:
    camp = some_train()
    camp.order(RunStopped("enough"))
    return camp


def the_coordinator_has_just_started() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a")
    camp = camp.takeover()
    camp.pass_s(4.0, "b")
    return camp


# -- witnessing ----------------------------------------------------------------------------------------------------


def one_has_not_attested() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    camp.hold("a", "b")
    camp.hash("a", "b")
    camp.pass_s(3.0)
    return camp


def hashes_are_missing() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    camp.hold()
    camp.hash("a")
    camp.pass_s(3.0)
    return camp


def one_that_has_not_attested_is_silent() -> Camp:
    camp = training("a", "b", "c", **PATIENT)
    camp.commit()
    camp.hold("a", "b")
    camp.hash("a", "b")
    camp.pass_s(12.0, "c")
    return camp


def the_time_is_over_before_the_loss() -> Camp:
    camp = training("a", "b", "c", **SLOW)
    camp.commit()
    camp.hold("a", "b")
    camp.hash("a", "b")
    camp.pass_s(8.0, "c")
    return camp


def one_that_is_done_is_silent() -> Camp:
    camp = training("a", "b", "c", **PATIENT)
    camp.commit()
    camp.hold("a", "b")
    camp.hash("a", "b")
    camp.pass_s(12.0, "b")
    return camp


# -- the end of an epoch -------------------------------------------------------------------------------------------


def hashes_are_missing_at_the_end() -> Camp:
    camp = training("a", "b", rounds_per_epoch=1, **SLOW)
    camp.turn()
    camp.pass_s(2.0)
    return camp


def a_majority_is_there_and_a_hash_is_missing() -> Camp:
    camp = training("a", "b", rounds_per_epoch=1, **SLOW)
    camp.turn()
    camp.hash("a")
    camp.pass_s(2.0)
    return camp


def a_majority_is_there_and_the_last_one_is_silent() -> Camp:
    camp = training("a", "b", rounds_per_epoch=1, cooldown_s=120.0, **PATIENT)
    camp.turn()
    camp.hash("a")
    camp.pass_s(12.0, "b")
    return camp


def they_have_different_models() -> Camp:
    camp = training("a", "b", rounds_per_epoch=1, **SLOW)
    camp.turn()
    camp.hash("a")
    camp.hash("b", mark="other")
    camp.pass_s(2.0)
    return camp


def one_stores_the_checkpoint() -> Camp:
    camp = training("a", "b", rounds_per_epoch=1, **SLOW)
    camp.turn()
    camp.hash("a", "b")
    camp.pass_s(2.0)
    return camp


def the_one_that_stores_it_is_silent() -> Camp:
    camp = training("a", "b", rounds_per_epoch=1, checkpoint_retry_s=50.0, cooldown_s=120.0, **SLOW)
    camp.turn()
    camp.hash("a", "b")
    assert camp.course.storing is not None
    camp.pass_s(12.0, camp.course.storing.member)
    return camp


def it_is_paused() -> Camp:
    camp = camping("a", "b")
    camp.order(RunPaused("lunch"))
    return camp


def it_is_over() -> Camp:
    camp = camping("a", "b")
    camp.order(RunStopped("enough"))
    return camp


SITUATIONS: dict[Callable[[], Camp], str] = {
    too_few_have_come: (
        "epoch 0 waits for 3 more members (1 of init_min_clients = 4 are there; lost: c; left: b), 30.0 s so far"
    ),
    enough_are_there_and_more_may_come: (
        "epoch 0 waits until waiting_extra_s = 3 is over (2 members are there), 1.0 s so far; it begins in 2.0 s"
    ),
    enough_are_there_and_one_is_silent: (
        "epoch 0 waits until waiting_extra_s = 100 is over (2 members are there), 12.0 s so far; b is lost and "
        "it waits for 1 more member in 18.0 s. b has sent no heartbeat for 12.0 s; it is lost in 18.0 s"
    ),
    all_load_the_model: (
        "epoch 0 warms up (0 of 2 have the model of step 0, initial) and waits for a, b (loading the model), 0 "
        "ms so far; it waits for members again in 60.0 s"
    ),
    some_load_the_model: (
        "epoch 0 warms up (1 of 3 have the model of step 0, initial) and waits for a, c (loading the model), 2.0 "
        "s so far; the first round begins without them in 58.0 s"
    ),
    the_last_one_to_load_is_silent: (
        "epoch 0 warms up (2 of 3 have the model of step 0, initial) and waits for c (silent for 12.0 s), 12.0 s "
        "so far; c is lost and the first round begins in 18.0 s"
    ),
    one_that_loads_is_silent_and_the_epoch_needs_it: (
        "epoch 0 warms up (1 of 2 have the model of step 0, initial) and waits for b (silent for 12.0 s), 12.0 s "
        "so far; b is lost and it waits for members again in 18.0 s"
    ),
    too_few_had_the_model: (
        "epoch 1 waits until waiting_extra_s = 5 is over (2 members are there; 1 have the model of step 0, "
        "min_clients = 2), 0 ms so far; it begins in 5.0 s"
    ),
    some_train: (
        "round 0 of epoch 0 (1 of 3 results are committed) waits for the results of b, c (training), 3.0 s so "
        "far; it goes on without their results in 97.0 s"
    ),
    one_that_trains_is_silent: (
        "round 0 of epoch 0 (1 of 3 results are committed) waits for the results of c (silent for 12.0 s, lost "
        "in 18.0 s) and b (training), 12.0 s so far; c is lost and its work goes to another member in 18.0 s"
    ),
    one_is_silent_and_too_little_time_is_left_for_its_work: (
        "round 0 of epoch 0 (1 of 2 results are committed) waits for the results of b (silent for 11.0 s), 60.0 "
        "s so far; it goes on without its results in 40.0 s"
    ),
    all_are_silent: (
        "round 0 of epoch 0 (0 of 12 results are committed) waits for the results of m00, m01, m02, m03, m04 and "
        "7 more (silent for up to 12.0 s, the first is lost in 18.0 s), 12.0 s so far; m00, m01, m02, m03, m04 "
        "and 7 more are lost and the round ends in 18.0 s"
    ),
    one_is_stuck: (
        "round 0 of epoch 0 (0 of 2 results are committed) waits for the results of b (alive but stuck: no "
        "progress for 24.0 s) and a (training), 25.0 s so far; it goes on without their results in 75.0 s"
    ),
    work_is_left_for_the_next_round: (
        "round 0 of epoch 0 (1 of 3 results are committed, assignment <drawn> is left for the next round) waits for "
        "the results of c (training), 60.0 s so far; it goes on without its results in 40.0 s"
    ),
    only_what_is_left_for_the_next_round_is_missing: (
        "round 0 of epoch 0 (2 of 3 results are committed, assignment <drawn> is left for the next round) waits until "
        "its time is over, 60.0 s so far; it goes on in 40.0 s"
    ),
    results_lack_a_quorum: (
        "round 0 of epoch 0 (3 results lack a quorum of 2 of 3 witnesses) waits for attestations of b, c "
        "(alive), 3.0 s so far; it goes on without those results in 97.0 s"
    ),
    results_lack_a_quorum_and_a_witness_is_silent: (
        "round 0 of epoch 0 (3 results lack a quorum of 2 of 3 witnesses) waits for attestations of c (silent "
        "for 13.0 s, lost in 17.0 s) and b (alive), 15.0 s so far; it goes on without those results in 85.0 s"
    ),
    no_quorum_can_come: (
        "round 0 of epoch 0 (3 results lack a quorum of 2 of 3 witnesses, and 1 is here) waits until its time is "
        "over, 0 ms so far; it goes on without those results in 100.0 s"
    ),
    it_pauses_after_the_round: (
        "round 0 of epoch 0 (1 of 3 results are committed) waits for the results of b, c (training), 3.0 s so "
        "far; it goes on without their results in 97.0 s; it pauses after this round: lunch"
    ),
    it_stops_after_the_round: (
        "round 0 of epoch 0 (1 of 3 results are committed) waits for the results of b, c (training), 3.0 s so "
        "far; it goes on without their results in 97.0 s; the run ends after this round: enough"
    ),
    the_coordinator_has_just_started: (
        "round 0 of epoch 0 (1 of 3 results are committed) waits for the results of b (not heard since the "
        "coordinator started 4.0 s ago, lost in 26.0 s) and c (training), 4.0 s so far; b is lost and its work "
        "goes to another member in 26.0 s"
    ),
    one_has_not_attested: (
        "round 0 of epoch 0 waits for c (no attestation, no model hash), 3.0 s so far; it is sealed without c in "
        "7.0 s, and who has sent no model hash has to catch up"
    ),
    hashes_are_missing: (
        "round 0 of epoch 0 waits for b, c (no model hash), 3.0 s so far; it is sealed without them in 7.0 s, "
        "and who has sent no model hash has to catch up"
    ),
    one_that_has_not_attested_is_silent: (
        "round 0 of epoch 0 waits for c (silent for 12.0 s), 12.0 s so far; c is lost and it is sealed in 18.0 s"
    ),
    the_time_is_over_before_the_loss: (
        "round 0 of epoch 0 waits for c (silent for 8.0 s), 8.0 s so far; it is sealed without c in 2.0 s, and "
        "who has sent no model hash has to catch up"
    ),
    one_that_is_done_is_silent: (
        "round 0 of epoch 0 waits for c (no attestation, no model hash), 12.0 s so far; it is sealed without c "
        "in 48.0 s, and who has sent no model hash has to catch up. b has sent no heartbeat for 12.0 s; it is "
        "lost in 18.0 s"
    ),
    hashes_are_missing_at_the_end: (
        "epoch 0 cools down (rounds_per_epoch = 1 are over) and waits for the model hash of a, b (alive) at step "
        "1, 2.0 s so far; it goes back to step 0 in 58.0 s"
    ),
    a_majority_is_there_and_a_hash_is_missing: (
        "epoch 0 cools down (rounds_per_epoch = 1 are over) and waits for the model hash of b (alive) at step 1, "
        "2.0 s so far; the model that most of them have is taken in 8.0 s"
    ),
    a_majority_is_there_and_the_last_one_is_silent: (
        "epoch 0 cools down (rounds_per_epoch = 1 are over) and waits for the model hash of b (silent for 12.0 "
        "s) at step 1, 12.0 s so far; b is lost and the model that most of them have is taken in 18.0 s"
    ),
    they_have_different_models: (
        "epoch 0 cools down (rounds_per_epoch = 1 are over) and waits for a majority for one model at step 1, "
        "2.0 s so far; it goes back to step 0 in 58.0 s"
    ),
    one_stores_the_checkpoint: (
        "epoch 0 cools down (rounds_per_epoch = 1 are over) and waits for <drawn> (alive) to store the checkpoint of "
        "step 1, 2.0 s so far; another one is drawn in 8.0 s; if none is stored, it goes on with the model that "
        "the members have in 58.0 s"
    ),
    the_one_that_stores_it_is_silent: (
        "epoch 0 cools down (rounds_per_epoch = 1 are over) and waits for <drawn> (silent for 12.0 s) to store the "
        "checkpoint of step 1, 12.0 s so far; <drawn> is lost and another one is drawn in 18.0 s; if none is stored, "
        "it goes on with the model that the members have in 108.0 s"
    ),
    it_is_paused: "paused after 0 steps: lunch; resume it to go on",
    it_is_over: "the run is over after 0 steps: enough",
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_a_situation_is_told_in_one_sentence(situation: Callable[[], Camp]) -> None:
    camp = situation()
    assert sentence(camp) == SITUATIONS[situation].replace("<drawn>", drawn(camp))


def drawn(camp: Camp) -> str:
    """Who was drawn to store the checkpoint, or which assignment was drawn for one who is gone."""
    if camp.course.storing is not None:
        return camp.course.storing.member
    works = [] if camp.course.round is None else camp.round.works
    return ", ".join(str(work.index) for work in works if work.member not in camp.course.in_step)


# -- the value beside the sentence ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("situation", "phase"),
    [
        (enough_are_there_and_more_may_come, "Warmup"),
        (the_last_one_to_load_is_silent, "RoundTrain"),
        (one_that_loads_is_silent_and_the_epoch_needs_it, "WaitingForMembers"),
        (one_is_silent_and_too_little_time_is_left_for_its_work, "RoundWitness"),
        (all_are_silent, "WaitingForMembers"),
        (only_what_is_left_for_the_next_round_is_missing, "RoundWitness"),
        (no_quorum_can_come, "RoundWitness"),
        (one_that_has_not_attested_is_silent, "RoundTrain"),
        (the_time_is_over_before_the_loss, "RoundTrain"),
        (hashes_are_missing_at_the_end, "Warmup"),
        (they_have_different_models, "Warmup"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_said_end_is_what_then_happens(situation: Callable[[], Camp], phase: str) -> None:
    """All goes on as it is, and that end comes, and not before."""
    camp = situation()
    told, before = camp.explain(), (camp.phase, camp.course.number)
    silent = [name for wait in told.waits if wait.what == "a heartbeat" for name in wait.missing]
    left_us = told.waits[0].left_us
    assert left_us is not None
    camp.pass_s((left_us - 1000) / SECOND, *silent)
    assert (camp.phase, camp.course.number) == before
    camp.pass_s(0.001_001, *silent)
    assert (camp.phase, camp.course.number) != before
    assert camp.phase == phase


def test_work_goes_to_another_when_it_is_said() -> None:
    camp = one_that_trains_is_silent()
    (index,) = [work.index for work in camp.works("c")]
    camp.pass_s(18.000_001, "c")
    assert camp.round.works[index].member in ("a", "b")


def test_a_majority_is_taken_when_it_is_said() -> None:
    for situation, left_s in ((a_majority_is_there_and_a_hash_is_missing, 8.0),
                              (a_majority_is_there_and_the_last_one_is_silent, 18.000_001)):  # fmt: skip
        camp = situation()
        camp.pass_s(left_s - 0.001, "b")
        assert camp.course.storing is None
        camp.pass_s(0.001, "b")
        assert camp.course.storing is not None, situation


def test_another_one_is_drawn_when_it_is_said() -> None:
    camp = the_one_that_stores_it_is_silent()
    assert camp.course.storing is not None
    silent = camp.course.storing.member
    camp.pass_s(18.000_001, silent)
    assert camp.course.storing.member != silent


def test_while_members_are_missing_it_says_how_many_and_who_was_here() -> None:
    camp = Camp(init_min_clients=3)
    camp.join("a", "b")
    camp.leave("b")
    (wait,) = waits(camp)
    assert (wait.what, wait.missing, wait.left_us) == (
        "epoch 0: 1 of init_min_clients = 3 members are there", ("b",), None,
    )  # fmt: skip


def test_while_more_may_come_it_says_when_it_begins() -> None:
    camp = camping("a", "b", waiting_extra_s=3.0)
    camp.pass_s(1.0)
    (wait,) = waits(camp)
    assert (wait.what, wait.left_us, wait.then) == (
        "epoch 0: 2 members are there, more may come", 2_000_000, "it begins",
    )  # fmt: skip


def test_in_warmup_it_says_who_has_not_loaded() -> None:
    camp = camping("a", "b", "c")
    camp.load("b")
    (wait,) = waits(camp)
    assert wait.what == "epoch 0 warms up: 1 of 3 have the model of step 0 (initial)"
    assert (wait.missing, wait.left_us, wait.then) == (("a", "c"), 60_000_000, "the first round begins without them")
    camp = camping("a", "b", min_clients=2)
    assert waits(camp)[0].then == "it waits for members again"


def test_in_training_it_says_whose_results_are_missing_and_which_witnesses() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.commit("a")
    (results, quorum) = waits(camp)
    assert results.what == "round 0 of epoch 0: 1 of 3 results are committed"
    assert (results.missing, results.left_us, results.then) == (
        ("b", "c"),
        100_000_000,
        "it goes on without their results",
    )
    assert quorum.what == "round 0 of epoch 0: 1 result lacks a quorum of 2 of 3 witnesses"
    camp.commit("b", "c")
    camp.hold("a")
    (quorum,) = waits(camp)
    assert quorum.what == "round 0 of epoch 0: 3 results lack a quorum of 2 of 3 witnesses"
    assert quorum.missing == ("b", "c")


def test_work_that_waits_for_the_next_round_is_said_too() -> None:
    camp = training("a", "b", **SLOW)
    index = camp.works("b")[0].index
    camp.pass_s(60.0)
    camp.leave("b")
    assert f"assignment {index} is left for the next round" in camp.explain().sentence


def test_in_witnessing_it_says_who_has_not_attested_who_lacks_results_and_who_has_said_no_hash() -> None:
    camp = training("a", "b", "c", "d", witness_nodes=2, min_clients=2, **(SLOW | {"witness_quorum": "1/2"}))
    camp.commit()
    first, second = camp.round.witnesses
    camp.hold(first)
    others = tuple(sorted(set("abcd") - {first, second}))
    camp.hash(first)
    attested, lacking, silent = waits(camp)
    assert (attested.what, attested.missing) == (
        "round 0 of epoch 0: 1 of 2 witnesses have attested", (second,),
    )  # fmt: skip
    assert (lacking.what, lacking.missing) == ("round 0 of epoch 0: all results", others)
    assert (silent.what, silent.missing) == (
        "round 0 of epoch 0: the hash of the model of step 0", tuple(sorted(set("abcd") - {first})),
    )  # fmt: skip
    assert {wait.left_us for wait in (attested, lacking, silent)} == {10_000_000}


def test_in_cooldown_it_says_who_has_said_no_hash_and_then_who_is_to_store_it() -> None:
    camp = training("a", "b", rounds_per_epoch=1, **SLOW)
    camp.turn()
    camp.hash("a")
    (wait,) = waits(camp)
    assert wait.what == "epoch 0 cools down (rounds_per_epoch = 1 are over): the hash of the model of step 1"
    assert (wait.missing, wait.then) == (("b",), "the model that most of them have is taken")
    camp.hash("b")
    camp.pass_s(2.0)
    stored, over = waits(camp)
    assert camp.course.storing is not None
    assert stored.what.endswith("the checkpoint of step 1")
    assert (stored.missing, stored.left_us, stored.then) == (
        (camp.course.storing.member,), 8_000_000, "another one is drawn",
    )  # fmt: skip
    assert (over.left_us, over.then) == (58_000_000, "it goes on with the model that the members have")


def test_silence_and_standing_still_are_told_apart() -> None:
    camp = training("a", "b", stuck_after_s=20.0, **SLOW)
    camp.pass_s(12.0, "b")
    assert ("a heartbeat", ("b",)) in [(wait.what, wait.missing) for wait in waits(camp)]
    camp.pass_s(20.0)
    for name in "ab":
        camp.beat(name, progress=1)
    camp.pass_s(19.0)
    assert not [wait for wait in waits(camp) if "stuck" in wait.what]


def test_alive_but_stuck() -> None:
    camp = training("a", "b", stuck_after_s=20.0, **SLOW)
    for second in range(25):
        camp.pass_s(1.0, "a", "b")
        camp.beat("a", progress=second)
        camp.beat("b", progress=1)
    stuck = [wait.missing for wait in waits(camp) if "stuck" in wait.what]
    assert stuck == [("b",)]
    shown = {member["id"]: member["stuck_s"] for member in camp.overview()["members"]}
    assert shown["a"] == 0
    assert shown["b"] >= 20


def test_every_phase_has_a_sentence() -> None:
    camp = Camp(init_min_clients=2, **SLOW)
    said = [camp.explain().sentence]
    camp.join("a", "b")
    said.append(camp.explain().sentence)
    camp.load()
    said.append(camp.explain().sentence)
    camp.commit()
    camp.hold()
    said.append(camp.explain().sentence)
    camp.order(RunPaused("lunch"))
    camp.hash()
    said.append(camp.explain().sentence)
    camp.cool()
    said.append(camp.explain().sentence)
    camp.order(RunStopped("enough"))
    said.append(camp.explain().sentence)
    assert all(said)
    assert len(set(said)) == 7


# -- figures -------------------------------------------------------------------------------------------------------


def test_the_overview_has_all_that_top_shows() -> None:
    camp = training("a", "b", "c", global_batch_size_start=9, **SLOW)
    camp.turn()
    camp.commit("a")
    camp.hold("b", known=1)
    camp.hash("c")
    shown = camp.overview()
    assert (shown["phase"], shown["epoch"], shown["round"], shown["step"]) == ("RoundTrain", 0, 1, 1)
    assert (shown["here"], shown["in_step"], shown["quorum"], shown["left_s"]) == (3, 3, 2, 100.0)
    assert shown["model"] == model(0).hex()
    assert shown["checkpoint"]["source"] == "initial"
    current = shown["current"]
    assert (current["round"], current["step"], current["roster"]) == (1, 1, ["a", "b", "c"])
    assert (current["attested"], current["results"], current["reported"]) == (["b"], 1, ["c"])
    assert sorted(current["missing"]) == ["a", "c"]
    assert {a["member"]: a["committed"] for a in current["assignments"]} == {"a": True, "b": False, "c": False}
    (one, *_) = shown["members"]
    assert (one["id"], one["state"], one["score"], one["of"], one["strikes"]) == ("a", "InStep", 3, 3, 0)
    assert (one["witness"], one["speed"], one["silent_s"]) == (True, 1000, 0.0)
    assert one["assignments"] == [work.index for work in camp.works("a")]
    (sealed,) = shown["sealed"]
    assert (sealed["step"], sealed["loss"], sealed["applied"], sealed["counts"]) == (0, 1.0, 9, True)
    counted = {"trained": 12, "applied": 9, "open": 9, "waiting": 0, "skipped": 0, "moved": 0, "returned": 0}
    assert shown["account"].items() >= counted.items()
    assert (shown["account"]["reasons"], shown["account"]["newest_skipped"]) == ({}, [])


def test_earlier_epochs_stay_to_be_asked_for() -> None:
    camp = training("a", "b", rounds_per_epoch=2, **SLOW)
    camp.turn()
    camp.turn()
    camp.cool()
    (past,) = camp.overview()["epochs"]
    assert (past["epoch"], past["first_step"], past["step"], past["rounds"]) == (0, 0, 2, 2)
    assert (past["roster"], past["checkpoint"]["source"]) == (["a", "b"], "stored")
    assert past["account"] == {"applied": 16, "skipped": 0, "moved": 0, "waiting": 0}


def test_all_who_are_silent_have_a_wait_each() -> None:
    assert len(waits(all_are_silent())) == 13
