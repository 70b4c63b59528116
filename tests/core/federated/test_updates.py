"""Updates: what is asked of the workshop, what its verdict does, quarantine and the way back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.federated.study import INITIAL, Study, code, studying, weights

from quoracy.core.errors import Refusal
from quoracy.core.federated.events import ParticipantReadmitted, RunStopped, UpdateOffered
from quoracy.core.federated.rounds import weighted
from quoracy.core.federated.table import PARTICIPANT, RUN
from quoracy.core.journal import CommandRefused
from quoracy.core.members import Accepted, Cause


def test_the_workshop_is_told_all_it_needs_to_look_at_an_update() -> None:
    study = studying("a", norm_bound=2.5, max_update_bytes=1000)
    study.offer("a")
    assert study.duty("admit").order == {
        "round": 0, "ticket": 1, "participant": "a", "digest": weights("a0"), "size_bytes": 100, "reference": INITIAL,
        "norm_bound": 2.5, "max_update_bytes": 1000, "metrics_digest": "", "max_metrics_bytes": 2**24,
    }  # fmt: skip


def test_an_admitted_update_counts_and_its_sender_is_told() -> None:
    study = studying("a", "b")
    study.update("a")
    who = study.who("a")
    assert (who.state.value, who.updates, who.trained, who.refused) == ("Waiting", 1, 0, 0)
    assert study.verdict("a") == (True, "")
    assert study.told["a"][-1].verdict.admitted
    assert study.round.assignments["a"].norm == 1.0


def test_a_refused_update_is_quarantined_with_its_sender_and_the_reason_is_told() -> None:
    study = studying("a", "b")
    study.refuse("a", "tensor w has a NaN")
    assert study.who("a").state.value == "Quarantined"
    told = study.told["a"][-1]
    assert (told.state, told.phase, told.reason) == ("Quarantined", "STANDBY", "tensor w has a NaN")
    assert study.verdict("a") == (False, "tensor w has a NaN")
    assert "a" not in study.task.here
    assert code(study.beat("a")) == "quarantined"
    assert code(study.offer("a", ticket=1)) == "quarantined"
    assert code(study.try_join("a")) == "quarantined"


def test_below_refused_max_it_is_only_counted() -> None:
    study = studying("a", "b", refused_max=2)
    study.refuse("a")
    assert (study.who("a").state.value, study.who("a").refused) == ("Training", 1)
    study.refuse("a")
    assert (study.who("a").state.value, study.who("a").refused) == ("Quarantined", 2)


@pytest.mark.parametrize("how", ["lost", "left"])
def test_poison_is_held_against_one_that_is_gone(how: str) -> None:
    study = studying("a", "b", "c", count_min=2)
    study.offer("a")
    study.lose("a") if how == "lost" else study.leave("a")
    study.judge("a", ok=False)
    assert study.who("a").state.value == "Quarantined"
    assert code(study.try_join("a")) == "quarantined"


def test_what_one_that_is_gone_left_behind_counts() -> None:
    study = studying("a", "b")
    study.offer("a")
    study.lose("a")
    study.judge("a")
    assert (study.who("a").state.value, study.who("a").updates) == ("Lost", 1)
    assert study.fates()["a"] == "Admitted"


def test_an_operator_lets_a_quarantined_one_back_in() -> None:
    study = studying("a", "b")
    study.refuse("a")
    study.order(ParticipantReadmitted("a"))
    assert (study.who("a").state.value, study.who("a").refused) == ("Left", 0)
    assert code(study.beat("a")) == "member_gone"
    study.join("a")
    assert study.who("a").incarnation == 2


def test_letting_in_who_is_not_out_changes_nothing_and_a_stranger_is_unknown() -> None:
    study = studying("a", "b")
    assert isinstance(study.order(ParticipantReadmitted("a")), Accepted)
    assert study.who("a").state.value == "Training"
    assert code(study.order(ParticipantReadmitted("z"))) == "unknown_member"


def test_a_quarantined_one_says_goodbye_without_harm() -> None:
    study = studying("a", "b")
    study.refuse("a")
    assert isinstance(study.leave("a"), Accepted)
    assert study.who("a").state.value == "Quarantined"


@pytest.mark.parametrize("result", [None, {}, {"ok": False}, {"ok": 0, "why": None}])
def test_a_verdict_without_a_reason_is_a_refusal_with_one(result: dict[str, Any] | None) -> None:
    study = studying("a", "b")
    study.offer("a")
    study.end(study.duty("admit"), result)
    assert study.fates()["a"] == "Refused"
    assert study.verdict("a")[1]


@pytest.mark.parametrize("norm", [None, "big", [1.0]])
def test_a_strange_norm_is_none(norm: object) -> None:
    study = studying("a", "b")
    study.offer("a")
    study.end(study.duty("admit"), {"ok": True, "norm": norm})
    assert study.round.assignments["a"].norm == 0.0


def test_a_very_long_reason_is_cut() -> None:
    study = studying("a", "b")
    study.refuse("a", "x" * 1000)
    assert len(study.verdict("a")[1]) == 240


# -- what cannot be offered ----------------------------------------------------------------------------------------


def test_an_update_of_no_samples_weighs_nothing_and_is_refused() -> None:
    study = studying("a", "b")
    assert code(study.offer("a", samples=0)) == "malformed"


@pytest.mark.parametrize("fields", [{"metrics": {"loss": float("nan")}}, {"metrics": {"loss": [1.0, float("nan")]}},
                                    {"history": {"loss": [float("nan")]}}])  # fmt: skip
def test_metrics_that_are_not_numbers_are_refused(fields: dict[str, Any]) -> None:
    study = studying("a", "b")
    assert code(study.offer("a", **fields)) == "malformed"
    assert study.fates()["a"] == "Training"


def test_who_is_not_drawn_cannot_offer() -> None:
    study = studying("a", "b", "c", per_round=1)
    (drawn,) = study.training()
    (other, _) = sorted({"a", "b", "c"} - {drawn})
    assert code(study.offer(other, ticket=1)) == "late_update"


def test_a_late_update_is_in_the_journal_with_its_reason() -> None:
    study = studying("a", "b", "c", count_min=2, count_max=2)
    ticket = study.round.assignments["c"].ticket
    study.update("a", "b")
    study.offer("c", ticket=ticket, number=0)
    (refused,) = study.all_events(CommandRefused)
    assert refused.refusal.code == "late_update"
    assert refused.refusal.why.endswith(
        "not counted (late: round 0 closed with 2 updates, as many as it is meant to have)"
    )


def test_one_that_is_lost_must_join_before_it_offers() -> None:
    study = studying("a", "b")
    study.lose("a")
    assert code(study.offer("a")) == "member_gone"
    assert code(study._call("z", Cause("z", 1, 1), UpdateOffered("z", 1, 0, 1, 1, INITIAL))) == "unknown_member"


def test_nothing_counts_any_more_when_the_run_is_stopped() -> None:
    study = studying("a", "b", "c")
    study.update("a")
    study.offer("b")
    study.order(RunStopped("enough"))
    assert study.fates() == {"a": "Admitted", "b": "Dropped", "c": "Dropped"}
    study.judge("b", ok=False)
    assert study.who("b").state.value == "Training"
    assert study.verdict("b") == (False, "the run was stopped: enough")
    assert code(study.offer("c")) == "run_closed"


def test_there_is_room_for_so_many_and_the_next_is_told_to_come_later() -> None:
    study = studying("a", "b", max_participants=2)
    late = study.try_join("c")
    assert isinstance(late, Refusal)
    assert late.code == "come_later"
    assert "max_participants = 2" in late.why
    assert late.fix == "try again in 15 s, or raise max_participants"
    assert late.retry_after_s == study.task.config.heartbeat_timeout_s
    study.join("a")
    study.leave("b")
    study.join("c")
    assert code(study.try_join("b")) == "come_later"


def test_nobody_is_sent_away_for_very_long() -> None:
    late = studying("a", max_participants=1, heartbeat_timeout_s=86_400.0).try_join("b")
    assert isinstance(late, Refusal)
    assert late.retry_after_s == 60.0


# -- metrics -------------------------------------------------------------------------------------------------------


def test_metrics_are_weighted_by_samples() -> None:
    study = studying("a", "b")
    study.update("a", samples=10, metrics={"loss": 1.0, "per_class": [0.0, 1.0]})
    study.update("b", samples=30, metrics={"loss": 2.0, "per_class": [1.0, 1.0], "own": 5.0})
    assert study.task.history[0].metrics == {"loss": 1.75, "per_class": [0.75, 1.0], "own": 5.0}


def test_a_metric_in_two_shapes_has_no_mean() -> None:
    assert weighted([(1, {"x": 1.0}), (1, {"x": [1.0]})]) == {}
    assert weighted([(1, {"x": [1.0, 2.0]}), (1, {"x": [1.0]})]) == {}
    assert weighted([(0, {"x": 1.0})]) == {}


# -- what a participant is shown -----------------------------------------------------------------------------------


def test_a_standing_has_all_that_a_trainer_needs() -> None:
    steps = [{"round": 1, "hyper": {"lr": 0.01}}, {"round": 5, "hyper": {"batch_size": 64}}]
    study = studying("a", rounds=3, epochs=4, hyper={"lr": 0.1, "batch_size": 32}, hyper_steps=steps)
    first = study.standing("a")
    assert (first.phase, first.round, first.epochs, first.epoch_base, first.weights) == ("ROUND", 0, 4, 0, INITIAL)
    assert first.hyper == {"lr": 0.1, "batch_size": 32}
    study.run_round("a")
    second = study.standing("a")
    assert (second.round, second.epoch_base, second.weights, second.size_bytes) == (1, 4, weights("g1"), 100)
    assert second.hyper == {"lr": 0.01, "batch_size": 32}


def test_steps_count_from_their_round_on_in_whatever_order_they_are_written() -> None:
    steps = [{"round": 5, "hyper": {"lr": 0.5}}, {"round": 1, "hyper": {"lr": 0.1}}]
    config = Study(hyper={"lr": 1.0}, hyper_steps=steps, aggregation={"rule": "fedprox", "mu": 0.3}).task.config
    assert [config.hyper_at(i)["lr"] for i in (0, 1, 4, 5, 9)] == [1.0, 0.1, 0.1, 0.5, 0.5]
    assert config.hyper_at(0)["mu"] == 0.3


def test_outside_a_round_there_is_nothing_to_train_with() -> None:
    study = studying("a", clients=2, hyper={"lr": 0.1})
    standing = study.standing("a")
    assert (standing.ticket, standing.hyper, standing.offered) == (0, {}, False)
    assert study.machine.look("standing", "z") is None
    assert study.machine.look("weather", "a") is None
    assert (study.machine.topics("a"), study.machine.topics("z")) == (["standing"], [])


def test_a_standing_goes_over_the_wire_and_back() -> None:
    study = studying("a", "b")
    study.refuse("a")
    standing = study.standing("a")
    assert msgspec.convert(msgspec.to_builtins(standing), type(standing)) == standing


# -- heartbeats ----------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_answered_with_where_the_run_stands() -> None:
    study = studying("a", clients=2)
    seen = study.beat("a")
    assert not isinstance(seen, Refusal)
    assert (seen.phase, seen.round) == ("STANDBY", 0)
    study.join("b")
    seen = study.beat("a")
    assert not isinstance(seen, Refusal)
    assert (seen.phase, seen.round) == ("ROUND", 0)
    study.order(RunStopped())
    seen = study.beat("a")
    assert not isinstance(seen, Refusal)
    assert seen.phase == "FINISHED"


def test_a_new_life_begins_without_what_was_said_of_the_last_one() -> None:
    study = studying("a", "b")
    study.beat("a", progress=7)
    study.lose("a")
    assert study.who("a").reason.startswith("no sign of life")
    study.join("a")
    (shown,) = [one for one in study.overview()["participants"] if one["id"] == "a"]
    assert (shown["reason"], shown["incarnation"], shown["losses"]) == ("", 2, 1)
    assert "progress" not in shown
    study.join("a")
    study.beat("a", progress=1)
    study.join("a")
    (shown,) = [one for one in study.overview()["participants"] if one["id"] == "a"]
    assert "progress" not in shown


def test_heartbeats_of_strangers_and_of_older_lives_are_refused() -> None:
    study = studying("a", "b")
    assert code(study.beat("z", incarnation=1)) == "unknown_member"
    assert code(study.beat("a", incarnation=7)) == "contradiction"
    study.lose("a")
    assert code(study.beat("a")) == "member_gone"


def test_every_state_of_the_tables_is_shown_in_a_scene() -> None:
    """See ``tests/core/scenes``; here only that names did not change unnoticed."""
    assert [state.value for state in RUN.states] == [
        "Standby", "Round", "Closing", "Evaluating", "Paused", "Finished", "Stopped",
    ]  # fmt: skip
    assert [state.value for state in PARTICIPANT.states] == [
        "Absent", "Waiting", "Training", "Quarantined", "Lost", "Left", "Done",
    ]  # fmt: skip
