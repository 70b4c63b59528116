"""Epochs: when one begins and with whom, who has the model, when it ends, and what operators may ask for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.witnessed.camp import Camp, camping, code, model, training

from quoracy.core.members import Accepted
from quoracy.core.witnessed.events import (
    CooldownEnded,
    Loaded,
    Report,
    RunPaused,
    RunResumed,
    RunStopped,
    WarmupBegan,
    WarmupEnded,
)
from quoracy.core.witnessed.state import EPOCHS_KEPT


def finish(camp: Camp) -> None:
    """Rounds until the epoch cools down, and the model is kept."""
    while camp.phase == "RoundTrain":
        camp.turn()
    camp.cool()


# -- beginning -----------------------------------------------------------------------------------------------------


def test_the_first_epoch_waits_for_init_min_clients_and_a_later_one_for_min_clients() -> None:
    camp = Camp(init_min_clients=3, min_clients=2, rounds_per_epoch=1)
    camp.join("a", "b")
    assert camp.phase == "WaitingForMembers"
    assert camp.propose(WarmupBegan(0)).why == "2 of at least 3 members are there"
    camp.join("c")
    assert camp.phase == "Warmup"
    camp.load()
    camp.leave("c")
    finish(camp)
    assert (camp.phase, camp.course.epoch, len(camp.course.here)) == ("Warmup", 1, 2)


def test_an_epoch_begins_only_when_the_least_have_been_there_for_waiting_extra() -> None:
    camp = camping("a", "b", waiting_extra_s=3.0)
    camp.pass_s(2.0)
    assert camp.propose(WarmupBegan(0)).code == "round_early"
    camp.join("c")
    assert camp.phase == "WaitingForMembers"
    camp.pass_s(1.0)
    assert camp.states() == {"a": "Warming", "b": "Warming", "c": "Warming"}


def test_when_the_least_are_there_no_more_the_wait_begins_anew() -> None:
    camp = camping("a", "b", waiting_extra_s=3.0)
    camp.pass_s(2.0)
    camp.leave("b")
    camp.pass_s(10.0)
    assert camp.phase == "WaitingForMembers"
    camp.join("b")
    camp.pass_s(2.0)
    assert camp.phase == "WaitingForMembers"
    camp.pass_s(1.0)
    assert camp.phase == "Warmup"


def test_those_who_have_waited_longest_take_part_and_the_rest_stays_pending() -> None:
    camp = Camp(init_min_clients=2, max_clients=2, rounds_per_epoch=1)
    camp.join("a", "b", "c", "d")
    assert camp.states() == {"a": "Warming", "b": "Warming", "c": "Pending", "d": "Pending"}
    camp.load("a", "b")
    camp.pass_s(1.0)
    finish(camp)
    assert camp.states() == {"a": "Pending", "b": "Pending", "c": "Warming", "d": "Warming"}
    assert camp.course.epochs[0].roster == ("a", "b")


def test_every_join_is_answered_at_once() -> None:
    camp = Camp(init_min_clients=2, max_clients=2)
    for name, status, epoch in (("a", "accepted", 0), ("b", "accepted", 0), ("c", "pending", 1), ("d", "pending", 1)):
        answer = camp.try_join(name)
        assert isinstance(answer, Accepted)
        assert answer.result is not None
        assert (answer.result["status"], answer.result["epoch"]) == (status, epoch)
        assert answer.result["attestation"] == "bitmap"
        assert (answer.result["heartbeat_interval_s"], answer.result["heartbeat_timeout_s"]) == (5.0, 30.0)
    refused = camp.try_join("e")
    assert code(refused) == "come_later"
    camp.leave("d")
    assert isinstance(camp.try_join("e"), Accepted)


def test_an_epoch_that_is_not_the_next_does_not_begin() -> None:
    camp = camping("a", waiting_extra_s=1.0)
    camp.wait_us(1_000_000 - 1)
    assert camp.propose(WarmupBegan(1)).code == "round_early"


# -- warm-up -------------------------------------------------------------------------------------------------------


def test_rounds_begin_when_all_have_the_model() -> None:
    camp = camping("a", "b", "c")
    camp.load("a", "b")
    assert camp.phase == "Warmup"
    refusal = camp.propose(WarmupEnded(0, reports("a", "b")))
    assert (refusal.code, refusal.why) == ("round_early", "1 members have not loaded the model")
    camp.load("c")
    assert (camp.phase, set(camp.round.roster)) == ("RoundTrain", {"a", "b", "c"})


def reports(*names: str, step: int = 0, mark: str = "", life: int = 1) -> tuple[Report, ...]:
    return tuple(Report(name, life, step, model(step, mark)) for name in names)


def test_who_has_not_the_model_in_time_catches_up_while_the_others_begin() -> None:
    camp = camping("a", "b", "c", warmup_s=20.0)
    camp.load("a", "b")
    assert camp.propose(WarmupEnded(0, reports("a", "b"), True)).code == "round_early"
    assert camp.propose(WarmupEnded(1, reports("a", "b"), True)).why == "epoch 0 warms up, not 1"
    camp.pass_s(20.0)
    assert camp.phase == "RoundTrain"
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "Resyncing"}
    load = camp.standing("c").load
    assert load is not None
    assert (load.source, load.step, load.model, set(load.holders)) == ("p2p", 0, model(0), {"a", "b"})


def test_with_too_few_that_have_the_model_the_run_waits_for_members_again() -> None:
    camp = camping("a", "b", "c", min_clients=2, warmup_s=20.0)
    camp.load("a")
    camp.pass_s(20.0)
    assert (camp.phase, camp.course.epoch) == ("Warmup", 1)
    ended = camp.all_events(WarmupEnded)
    assert [(event.epoch, event.late) for event in ended] == [(0, True)]
    assert camp.course.epochs == []  # it had no round: nothing to remember


def test_when_too_few_are_left_to_begin_with_nobody_waits_for_the_warm_up() -> None:
    camp = camping("a", "b", min_clients=2)
    camp.leave("b")
    assert (camp.phase, camp.states()) == ("WaitingForMembers", {"a": "Pending", "b": "Left"})


@pytest.mark.parametrize(
    ("loaded", "why"),
    [
        (reports("a", "a", "b"), "twice"),
        (reports("a", "b", "x"), "may not"),
        (reports("a", "b", life=2), "may not"),
        (reports("a", step=1), "another step"),
    ],
)
def test_reports_that_nobody_can_have_given_are_refused(loaded: tuple[Report, ...], why: str) -> None:
    camp = camping("a", "b")
    assert why in camp.propose(WarmupEnded(0, loaded)).why


def test_the_first_model_is_the_one_most_have_made_and_the_others_get_it_from_them() -> None:
    camp = camping("a", "b", "c")
    camp.load("a", "b")
    camp.load("c", mark="other seed")
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "Resyncing"}
    assert camp.course.stored.model == model(0)
    assert camp.course.agreed == [(0, model(0))]


def test_without_a_majority_for_the_first_model_nothing_begins_and_it_is_said_why() -> None:
    camp = camping("a", "b", waiting_extra_s=1.0)
    camp.pass_s(1.0)
    camp.load("a")
    camp.load("b", mark="other seed")
    assert camp.phase == "WaitingForMembers"
    assert "no majority for one initial model" in camp.explain().sentence


def test_later_only_the_agreed_model_will_do() -> None:
    camp = training("a", "b", "c", rounds_per_epoch=1)
    finish(camp)
    camp.load("a", "b", mark="other")
    camp.load("c")
    assert camp.states() == {"a": "Resyncing", "b": "Resyncing", "c": "InStep"}


def test_a_stale_report_of_having_loaded_is_refused_by_name() -> None:
    camp = camping("a", "b")
    camp.load("a")
    camp.load("b")
    from_before = camp.tell(_loaded(camp, "a", epoch=0))
    assert code(from_before) == "wrong_step"
    assert "RoundTrain" in from_before.why  # type: ignore[union-attr]


def _loaded(camp: Camp, name: str, **fields: Any) -> Any:
    at = camp.course.step
    made: dict[str, Any] = {"epoch": camp.course.epoch, "step": at, "model": model(at)} | fields
    return Loaded(name, camp.machine.incarnation_of(name), **made)


def test_a_report_of_another_step_or_epoch_counts_for_nothing() -> None:
    camp = camping("a", "b")
    assert code(camp.tell(_loaded(camp, "a", step=3))) == "wrong_step"
    assert code(camp.tell(_loaded(camp, "a", epoch=1))) == "wrong_step"
    camp.load("b")
    assert camp.phase == "Warmup"


# -- ending --------------------------------------------------------------------------------------------------------


def test_an_epoch_ends_after_its_rounds_and_the_next_begins_with_everybody_who_is_here() -> None:
    camp = training("a", "b", rounds_per_epoch=3)
    camp.turn()
    camp.turn()
    camp.join("c")
    assert camp.states()["c"] == "Pending"
    camp.turn()
    assert (camp.phase, camp.course.reason) == ("Cooldown", "rounds_per_epoch = 3 are over")
    camp.cool()
    assert (camp.phase, camp.course.epoch, camp.course.number) == ("Warmup", 1, 0)
    assert set(camp.states().values()) == {"Warming"}
    (past,) = camp.course.epochs
    assert (past.number, past.first_step, past.step, past.rounds, past.roster) == (0, 0, 3, 3, ("a", "b"))
    assert (past.checkpoint.source, past.checkpoint.step, past.applied) == ("stored", 3, 24)


def test_an_epoch_ends_with_the_round_in_which_its_time_is_over() -> None:
    camp = training("a", rounds_per_epoch=0, epoch_s=10.0, warmup_s=5.0, adaptive_deadline=False)
    camp.turn()
    camp.pass_s(9.0)
    camp.turn()
    assert camp.phase == "RoundTrain"
    camp.pass_s(1.0)
    camp.turn()
    assert (camp.phase, camp.course.reason) == ("Cooldown", "epoch_s = 10 are over")


def test_the_run_is_finished_when_all_steps_are_done_and_the_model_is_kept() -> None:
    camp = training("a", "b", total_steps=2)
    camp.turn()
    camp.turn()
    assert (camp.phase, camp.course.reason) == ("Cooldown", "total_steps = 2 is reached")
    camp.cool()
    assert (camp.phase, camp.course.stored.step) == ("Finished", 2)
    assert camp.states() == {"a": "Done", "b": "Done"}
    assert camp.explain().sentence == "the run is over after 2 steps: total_steps = 2 is reached"
    assert code(camp.try_join("c")) == "run_closed"
    assert code(camp.try_join("a")) == "run_closed"


def test_with_too_few_in_step_the_epoch_ends_with_the_round() -> None:
    camp = training("a", "b", "c", min_clients=3, witness_quorum="1/2")
    camp.commit()
    camp.hold()
    camp.hash("a", "b")
    camp.leave("c")
    assert (camp.phase, camp.course.reason) == ("Cooldown", "2 members are in step, min_clients = 3")
    camp.cool()
    assert camp.phase == "WaitingForMembers"
    assert camp.course.step == 1


def test_with_too_few_witnesses_that_attest_the_epoch_ends_with_the_round() -> None:
    camp = training("a", "b", "c", round_train_max_s=20.0, round_witness_s=5.0)
    camp.hash()
    camp.commit()
    camp.hold("a")
    camp.pass_s(25.0)
    (past,) = camp.course.epochs
    assert past.because == "1 witnesses attested, 2 are needed"
    assert (camp.phase, camp.course.epoch, camp.course.step) == ("Warmup", 1, 0)  # there is no new model to keep
    assert camp.account() == (0, 0, 8, 0)


def test_cooldown_does_not_end_early_or_by_another_name() -> None:
    camp = training("a", "b", rounds_per_epoch=1)
    camp.turn()
    assert camp.propose(CooldownEnded(0)).code == "round_early"
    assert camp.propose(CooldownEnded(0, True)).code == "round_early"
    assert camp.propose(CooldownEnded(1, True)).code == "round_early"


def test_the_last_sixteen_epochs_are_remembered() -> None:
    camp = training("a", rounds_per_epoch=1)
    for _ in range(EPOCHS_KEPT + 3):
        finish(camp)
        camp.load()
    assert [past.number for past in camp.course.epochs] == list(range(3, EPOCHS_KEPT + 3))


# -- operators -----------------------------------------------------------------------------------------------------


def test_a_pause_lets_the_round_be_sealed_and_its_model_be_kept() -> None:
    camp = training("a", "b")
    camp.commit("a")
    camp.order(RunPaused("lunch"))
    assert camp.phase == "RoundTrain"
    camp.turn()
    assert camp.phase == "Cooldown"
    camp.cool()
    assert (camp.phase, camp.course.step, camp.course.stored.step) == ("Paused", 1, 1)
    assert camp.account() == (8, 0, 0, 0)
    assert camp.explain().sentence == "paused after 1 steps: lunch; resume it to go on"
    assert camp.states() == {"a": "Pending", "b": "Pending"}
    camp.pass_s(3600.0, pace_s=10.0)
    assert camp.phase == "Paused"
    camp.order(RunResumed())
    assert (camp.phase, camp.course.epoch) == ("Warmup", 1)
    camp.load()
    camp.turn()
    assert camp.account() == (16, 8, 0, 0)


def test_a_pause_in_cooldown_is_kept_until_its_end() -> None:
    camp = training("a", rounds_per_epoch=1)
    camp.turn()
    camp.order(RunPaused())
    camp.cool()
    assert (camp.phase, camp.course.reason) == ("Paused", "an operator paused it")


def test_a_resume_before_the_pause_has_come_takes_it_back() -> None:
    camp = training("a", "b")
    camp.order(RunPaused())
    camp.order(RunResumed())
    camp.turn()
    assert (camp.phase, camp.course.number) == ("RoundTrain", 1)


@pytest.mark.parametrize("warm", [False, True])
def test_before_the_first_round_a_pause_comes_at_once(warm: bool) -> None:
    camp = camping("a", "b", waiting_extra_s=0.0 if warm else 5.0)
    assert camp.phase == ("Warmup" if warm else "WaitingForMembers")
    camp.order(RunPaused("not yet"))
    assert (camp.phase, camp.states()) == ("Paused", {"a": "Pending", "b": "Pending"})
    assert code(camp.order(RunPaused())) == ""
    assert camp.course.reason == "not yet"
    camp.order(RunResumed())
    assert (camp.phase, camp.course.epoch) == (("Warmup", 1) if warm else ("WaitingForMembers", 0))


def test_a_stop_finishes_the_round_keeps_a_checkpoint_and_ends_the_run() -> None:
    camp = training("a", "b")
    camp.turn()
    camp.order(RunStopped("enough"))
    camp.commit("a")
    assert camp.phase == "RoundTrain"
    camp.turn()
    camp.cool()
    assert (camp.phase, camp.course.step, camp.course.stored.step) == ("Finished", 2, 2)
    assert camp.explain().sentence == "the run is over after 2 steps: enough"
    assert camp.states() == {"a": "Done", "b": "Done"}
    assert camp.account() == (16, 0, 0, 0)
    assert code(camp.order(RunResumed())) == "run_closed"
    assert code(camp.order(RunStopped())) == ""


def test_a_stop_outweighs_a_pause() -> None:
    camp = training("a")
    camp.order(RunPaused())
    camp.order(RunStopped())
    camp.turn()
    camp.cool()
    assert camp.phase == "Finished"


@pytest.mark.parametrize("at", ["WaitingForMembers", "Warmup", "Paused"])
def test_outside_of_rounds_a_stop_comes_at_once(at: str) -> None:
    camp = camping("a", "b", waiting_extra_s=5.0 if at == "WaitingForMembers" else 0.0)
    if at == "Paused":
        camp.order(RunPaused())
    assert camp.phase == at
    camp.order(RunStopped())
    assert (camp.phase, camp.states()) == ("Finished", {"a": "Done", "b": "Done"})


def test_at_the_end_everybody_is_told_which_model_it_is() -> None:
    """Also who was catching up, and who waited for the next epoch; but not where nobody ever had one."""
    camp = training("a", "b", "c", total_steps=1)
    camp.join("d")
    camp.hash("a", "b")
    camp.commit()
    camp.hold()
    camp.pass_s(10.0)
    assert camp.states()["c"] == "Resyncing"
    camp.cool()
    assert camp.phase == "Finished"
    for name in "abcd":
        load = camp.standing(name).load
        assert load is not None
        assert (load.source, load.step, load.model, load.holders) == ("stored", 1, model(1), ())
    camp = camping("a", "b", init_min_clients=3)
    camp.order(RunStopped())
    assert (camp.states()["a"], camp.standing("a").load) == ("Done", None)


def test_what_still_waits_when_the_run_is_over_is_skipped_with_that_reason() -> None:
    camp = training("a", "b", "c", round_train_max_s=20.0, round_witness_s=5.0)
    camp.order(RunStopped())
    camp.hash()
    camp.commit("a", "b")
    late = sum(end - first for work in camp.works("c") for first, end in work.batches)
    camp.pass_s(20.0)
    camp.hold()
    camp.pass_s(5.0)
    camp.cool()
    assert camp.phase == "Finished"
    assert camp.account() == (8 - late, 0, 0, late)
    assert camp.overview()["account"]["reasons"] == {"the run ended": late}


def test_after_the_end_heartbeats_are_answered_and_nothing_else_is_taken() -> None:
    camp = training("a")
    camp.order(RunStopped())
    camp.turn()
    camp.cool()
    seen: Any = camp.beat("a")
    assert seen.phase == "Finished"
    assert code(camp.tell(_loaded(camp, "a"))) == "run_closed"
    assert code(camp.leave("a")) == ""
    assert camp.who("a").state.value == "Done"
