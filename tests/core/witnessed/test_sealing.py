"""Sealing: what counts, who is in step afterwards, whose batches wait, and who gets a strike."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.witnessed.camp import LOST_S, Camp, model, training

from quoracy.core.witnessed.attestation import bitmap
from quoracy.core.witnessed.events import Attested, Report, RoundSealed
from quoracy.core.witnessed.sealing import trimmed
from quoracy.core.witnessed.state import KEPT, Past
from quoracy.core.witnessed.views import SEALED, SEALED_BRIEF

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def evidence(camp: Camp, *names: str) -> tuple[Attested, ...]:
    known = len(camp.round.results)
    return tuple(
        Attested(name, camp.machine.incarnation_of(name), known, bitmap(range(known), known)) for name in names
    )


def models(camp: Camp, *names: str, mark: str = "") -> tuple[Report, ...]:
    step = camp.round.step
    return tuple(Report(name, camp.machine.incarnation_of(name), step, model(step, mark)) for name in names)


def witnessing(*names: str, **config: Any) -> Camp:
    """All is committed, and a quorum has attested; nobody has said which model it has."""
    camp = training(*names, **(SLOW | config))
    camp.commit()
    camp.hold(*names[:-1])
    assert camp.phase == "RoundWitness"
    return camp


# -- early and late ------------------------------------------------------------------------------------------------


def test_a_round_is_sealed_at_once_when_all_hold_everything_and_have_said_which_model_they_have() -> None:
    camp = witnessing("a", "b", "c")
    camp.hash()
    assert camp.phase == "RoundWitness"
    camp.hold("c")
    assert (camp.course.step, camp.course.number, camp.phase) == (1, 1, "RoundTrain")
    assert not camp.all_events(RoundSealed)[0].late


def test_every_condition_of_an_early_seal_is_checked_by_the_fold() -> None:
    camp = witnessing("a", "b", "c", "d", "e", witness_nodes=4, min_clients=4, global_batch_size_start=10)
    witnesses = camp.round.witnesses
    (other,) = set("abcde") - set(witnesses)
    everybody = models(camp, *"abcde")
    holding = evidence(camp, other)
    attested = evidence(camp, *witnesses)
    partly = Attested(witnesses[0], 1, 5, bitmap([0, 1], 5))
    less = Attested(other, 1, 5, bitmap([0, 1], 5))
    cases: list[tuple[RoundSealed, str]] = [
        (RoundSealed(0, 0, attested[1:], holding, everybody), "no_quorum"),
        (RoundSealed(0, 0, (partly, *attested[1:]), holding, everybody), "no_quorum"),
        (RoundSealed(0, 0, attested, (), everybody), "round_early"),
        (RoundSealed(0, 0, attested, (less,), everybody), "round_early"),
        (RoundSealed(0, 0, attested, holding, everybody[1:]), "round_early"),
        (RoundSealed(0, 0, attested, attested[:1], everybody), "no_quorum"),
        (RoundSealed(0, 0, (*attested, *holding), (), everybody), "no_quorum"),
        (RoundSealed(0, 0, attested, holding, (*everybody, everybody[0])), "contradiction"),
        (RoundSealed(0, 0, attested, holding, (*everybody, Report("x", 1, 0, model(0)))), "contradiction"),
        (RoundSealed(0, 1, attested, holding, everybody), "round_early"),
        (RoundSealed(0, 0, attested, holding, everybody, True), "round_early"),
    ]
    for sealed, refused in cases:
        assert camp.propose(sealed).code == refused, sealed
    camp.hold(other, *witnesses)
    camp.hash()
    assert camp.course.step == 1


def test_while_it_trains_a_round_cannot_be_sealed() -> None:
    camp = training("a", "b")
    camp.commit()
    assert camp.propose(RoundSealed(0, 0, evidence(camp, "a", "b"), (), models(camp, "a", "b"))).code == "round_early"


def test_a_quorum_of_those_elected_is_needed_also_when_all_who_are_left_attest() -> None:
    camp = witnessing("a", "b", "c")
    camp.leave("b")
    camp.hash()
    camp.leave("c")
    assert camp.phase == "RoundWitness"
    assert camp.propose(RoundSealed(0, 0, evidence(camp, "a"), (), models(camp, "a"))).code == "no_quorum"
    camp.pass_s(10.0)
    assert camp.course.epochs[0].because == "1 witnesses attested, 2 are needed"
    assert camp.course.step == 0


def test_when_the_time_for_witnesses_is_over_it_is_sealed_with_what_a_quorum_holds() -> None:
    camp = witnessing("a", "b", "c")
    camp.hash()
    camp.pass_s(9.0)
    assert camp.phase == "RoundWitness"
    camp.pass_s(1.0)
    assert (camp.course.step, camp.phase) == (1, "RoundTrain")
    assert camp.all_events(RoundSealed)[0].late
    (past,) = camp.course.past
    assert not past.all_hold
    shown = camp.machine.look(SEALED_BRIEF, "a").rounds[0]
    assert all(set(holders) == {"a", "b"} for holders in shown.holders)


# -- what counts ---------------------------------------------------------------------------------------------------


def test_sealed_is_what_a_quorum_holds_in_the_order_of_the_assignments() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.hash()
    order = [work.member for work in camp.round.works]
    for name in reversed(order):
        camp.commit(name)
    lacking = camp.round.works[1].result
    held = [i for i in range(4) if i != lacking]
    camp.hold("a", "b")
    camp.hold("c", "d", positions=held)
    assert camp.phase == "RoundTrain"  # two of four hold the one, three are needed
    camp.pass_s(100.0)
    assert camp.phase == "RoundWitness"
    camp.pass_s(10.0)
    (past,) = camp.course.past
    assert [past.results[i].member for i in past.positions] == [order[0], order[2], order[3]]
    assert past.positions == [3, 1, 0]
    shown = camp.machine.look(SEALED, "a").rounds[0]
    assert [result.member for result in shown.results] == [order[0], order[2], order[3]]
    assert shown.positions == (3, 1, 0)
    assert camp.account() == (6, 8, 0, 0)
    assert camp.round.spans[0].tries == 1


def test_what_was_trained_on_another_model_than_most_have_does_not_count() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash("a", "b")
    camp.hash("c", mark="mine")
    camp.commit("a", "b")
    camp.commit("c", base=model(0, "mine"))
    camp.hold()
    (past,) = camp.course.past
    assert {past.results[i].member for i in past.positions} == {"a", "b"}
    assert past.model == model(0)
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "Resyncing"}
    assert camp.who("c").reason == "has another model than most at step 0"
    assert camp.who("c").strikes == 0  # its work was held: that it is in the minority is no fault of its delivery


def test_who_says_nothing_when_it_is_late_has_to_catch_up() -> None:
    camp = witnessing("a", "b", "c")
    camp.hold("c")
    camp.hash("a", "b")
    camp.pass_s(10.0)
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "Resyncing"}
    assert camp.who("c").reason == "did not say which model it has at step 0"
    assert camp.round.roster == ("a", "b")


def test_who_catches_up_is_in_step_from_the_next_round_on() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash("a", "b")
    camp.hash("c", mark="mine")
    camp.commit()
    camp.hold()
    assert camp.states()["c"] == "Resyncing"
    load = camp.standing("c").load
    assert load is not None
    assert (load.source, load.step, load.model, set(load.holders)) == ("p2p", 0, model(0), {"a", "b"})
    camp.hash("c", step=0)
    assert camp.states()["c"] == "Resyncing"
    camp.turn("a", "b")
    assert (camp.states()["c"], camp.round.roster) == ("InStep", ("a", "b", "c"))
    camp.turn()
    assert camp.states()["c"] == "InStep"


def test_a_wrong_hash_does_not_bring_anybody_back() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash("a", "b")
    camp.hash("c", mark="mine")
    camp.commit()
    camp.hold()
    camp.hash("c", step=0, mark="mine")
    camp.turn("a", "b")
    assert camp.states()["c"] == "Resyncing"
    camp.hash("c", mark="mine")
    camp.turn("a", "b")
    assert camp.states()["c"] == "Resyncing"
    camp.hash("c")
    camp.turn("a", "b")
    assert camp.states()["c"] == "InStep"


def test_of_the_last_eight_steps_each_will_do_and_an_older_one_will_not() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash("a", "b")
    camp.hash("c", mark="mine")
    camp.commit()
    camp.hold()
    for _ in range(9):
        camp.turn("a", "b")
    assert [step for step, _ in camp.course.agreed] == list(range(2, 10))
    camp.hash("c", step=1)
    camp.turn("a", "b")
    assert camp.states()["c"] == "Resyncing"
    camp.hash("c", step=3)
    camp.turn("a", "b")
    assert camp.states()["c"] == "InStep"


# -- no majority ---------------------------------------------------------------------------------------------------


def test_without_a_majority_the_run_rolls_back_to_the_last_checkpoint_and_its_step() -> None:
    camp = training("a", "b", rounds_per_epoch=2, **SLOW)
    camp.turn()
    camp.turn()
    camp.cool()
    camp.load()
    camp.turn()
    assert (camp.course.step, camp.course.stored.step) == (3, 2)
    camp.commit()
    camp.hold()
    camp.hash("a")
    camp.hash("b", mark="other")
    assert (camp.phase, camp.course.epoch, camp.course.step) == ("Warmup", 2, 2)
    assert (camp.course.roll_backs, camp.course.place.source) == (1, "stored")
    assert camp.account() == (16, 0, 16, 0)
    load = camp.standing("a").load
    assert load is not None
    assert (load.source, load.step, load.model) == ("stored", 2, model(2))
    assert camp.course.epochs[-1].because == "no majority for one model of step 3: back to step 2"
    camp.load()
    assert (camp.round.step, [(s.first, s.end) for s in camp.round.spans]) == (2, [(16, 24)])
    camp.turn()
    assert camp.account()[0] == 24


def test_half_is_no_majority_and_one_more_than_half_is() -> None:
    for agreeing, step in (("ab", 0), ("abc", 1)):
        camp = training("a", "b", "c", "d", **SLOW)
        camp.commit()
        camp.hold()
        camp.hash(*agreeing)
        camp.hash(*(name for name in "abcd" if name not in agreeing), mark="other")
        assert camp.course.step == step


def test_reports_that_never_came_roll_nothing_back() -> None:
    """The network was away: who has which model is asked again in Cooldown."""
    camp = training("a", "b", rounds_per_epoch=5, **SLOW)
    camp.turn()
    camp.commit()
    camp.hold()
    camp.pass_s(10.0)
    assert (camp.phase, camp.course.reason) == ("Cooldown", "nobody said which model it has")
    assert camp.states() == {"a": "InStep", "b": "InStep"}
    camp.cool()
    assert (camp.course.step, camp.course.stored.step, camp.course.roll_backs) == (1, 1, 0)
    assert camp.account() == (8, 0, 8, 0)


def test_a_round_that_seals_nothing_is_not_applied_and_the_step_stays() -> None:
    camp = training("a", "b", "c", **(SLOW | {"strikes_max": 9}))
    camp.hash()
    camp.pass_s(100.0)
    camp.hold()
    assert (camp.course.step, camp.course.number, camp.phase) == (0, 1, "RoundTrain")
    assert camp.machine.look(SEALED, "a").rounds == ()
    assert camp.account() == (0, 8, 0, 0)


# -- the account ---------------------------------------------------------------------------------------------------


def test_a_batch_that_fails_too_often_is_skipped_with_the_reason() -> None:
    camp = training("a", "b", "c", **(SLOW | {"strikes_max": 99, "attempts_max": 3, "global_batch_size_start": 3}))
    for failed in range(3):
        camp.hash()
        first = next(work for work in camp.round.works if work.batches[0][0] == 0)
        assert camp.round.spans[0].tries == failed
        camp.commit(*(name for name in "abc" if name != first.member))
        camp.pass_s(100.0)
        camp.hold()
    assert camp.overview()["account"]["reasons"] == {"failed 3 times": 1}
    assert camp.overview()["account"]["newest_skipped"] == [{"first": 0, "end": 1, "reason": "failed 3 times"}]
    assert camp.round.spans[0].first > 0
    camp.turn()
    assert camp.account()[3] == 1


def test_when_hardly_anybody_attested_it_is_not_the_batches_fault() -> None:
    camp = training("a", "b", "c", **SLOW)
    for epoch in range(3):
        camp.hash()
        camp.commit()
        camp.hold("a")
        camp.pass_s(110.0)
        assert camp.course.epoch == epoch + 1
        assert [span.tries for span in camp.course.account.waiting] == [0]
        camp.load()


def test_batches_of_several_tries_are_dealt_together_and_counted_apart() -> None:
    camp = training("a", "b", "c", **(SLOW | {"strikes_max": 99, "global_batch_size_start": 6}))
    camp.hash()
    late = camp.round.works[2]
    camp.commit(*(name for name in "abc" if name != late.member))
    camp.pass_s(100.0)
    camp.hold()
    assert [(span.end - span.first, span.tries) for span in camp.round.spans] == [(2, 1), (4, 0)]
    camp.hash()
    camp.pass_s(100.0)
    camp.hold()
    assert sorted((span.end - span.first, span.tries) for span in camp.round.spans) == [(2, 2), (4, 1)]


# -- strikes -------------------------------------------------------------------------------------------------------


def bad_round(camp: Camp, idle: str) -> None:
    """Everybody does its part but for the one, which attests and does not train."""
    camp.hash()
    camp.commit(*(name for name in sorted(camp.course.in_step) if name != idle))
    camp.pass_s(100.0)
    camp.hold()


def test_work_that_fewer_than_a_quorum_hold_is_a_strike_and_too_many_in_a_row_are_the_end() -> None:
    camp = training("a", "b", "c", **SLOW)
    bad_round(camp, "c")
    assert (camp.who("c").strikes, camp.who("c").reason) == (1, "its work was not done in time")
    assert (camp.standing("c").strikes, camp.who("a").strikes) == (1, 0)
    bad_round(camp, "c")
    assert (camp.who("c").strikes, camp.states()["c"]) == (2, "InStep")
    bad_round(camp, "c")
    assert camp.states() == {"a": "InStep", "b": "InStep", "c": "Removed"}
    assert camp.who("c").reason.startswith("3 bad rounds in a row")
    assert "not done in time" in camp.who("c").reason
    assert camp.round.roster == ("a", "b")
    assert not camp.who("c").ejected


def test_who_was_removed_for_strikes_may_come_back_in_the_next_epoch() -> None:
    camp = training("a", "b", "c", **(SLOW | {"strikes_max": 0}))
    bad_round(camp, "c")
    assert camp.states()["c"] == "Removed"
    camp.join("c")
    assert camp.states()["c"] == "Pending"
    camp.join("c")
    assert camp.states()["c"] == "Pending"  # nor with one life more
    camp.turn()
    assert camp.states()["c"] == "Pending"


def test_strikes_are_not_lost_by_leaving_and_joining_again() -> None:
    camp = training("a", "b", "c", **SLOW)
    bad_round(camp, "c")
    bad_round(camp, "c")
    camp.leave("c")
    camp.try_join("c")
    camp.hash("c")
    assert camp.who("c").strikes == 2
    camp.turn("a", "b")
    assert camp.states()["c"] == "InStep"
    bad_round(camp, "c")
    assert camp.states()["c"] == "Removed"


def test_a_good_round_takes_the_strikes_back() -> None:
    camp = training("a", "b", "c", **SLOW)
    bad_round(camp, "c")
    bad_round(camp, "c")
    camp.turn()
    assert (camp.who("c").strikes, camp.who("c").reason) == (0, "")
    bad_round(camp, "c")
    assert camp.who("c").strikes == 1


def test_a_witness_in_step_that_does_not_attest_gets_a_strike() -> None:
    camp = witnessing("a", "b", "c")
    camp.hash()
    camp.pass_s(10.0)
    assert (camp.who("c").strikes, camp.who("c").reason) == (1, "was a witness and did not attest")


def test_who_commits_and_does_not_deliver_gets_a_strike() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash()
    camp.commit()
    mine = camp.works("c")[0].result
    camp.hold("c")
    camp.hold("a", "b", positions=[i for i in range(3) if i != mine])
    camp.pass_s(110.0)
    assert camp.who("c").strikes == 1
    assert camp.who("c").reason == "its work was held by 1 of 3 witnesses, not 2"
    assert (camp.who("c").held, camp.who("c").elected) == (1, 3)
    assert (camp.who("a").held, camp.who("a").elected) == (3, 3)


def test_if_fewer_than_a_quorum_attested_at_all_nobody_gets_a_strike() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash()
    camp.commit("a", "b")
    camp.pass_s(100.0)
    camp.hold("a")
    camp.pass_s(10.0)
    assert {member.strikes for member in camp.course.members.values()} == {0}


def test_at_most_one_strike_in_a_round() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash()
    camp.commit("a", "b")
    camp.pass_s(100.0)
    camp.hold("a", "b")
    camp.pass_s(10.0)
    assert camp.who("c").strikes == 1


def test_who_is_gone_gets_none() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.hash()
    camp.commit("a", "b", "d")
    camp.pass_s(LOST_S, "c")
    camp.pass_s(100.0)
    camp.hold()
    assert camp.who("c").strikes == 0


def past(number: int, applied: bool) -> Past:
    return Past(0, number, number, b"", b"", [], [0] if applied else [], [], False)


def test_applied_rounds_are_remembered_longer_than_those_that_were_not() -> None:
    some = [past(number, number % 3 == 0) for number in range(12)]
    assert [one.number for one in trimmed(list(some))] == list(range(12))
    many = [past(number, number < 10) for number in range(40)]
    kept = trimmed(many)
    assert [one.number for one in kept if one.positions] == list(range(2, 10))
    assert [one.number for one in kept if not one.positions] == list(range(32, 40))
    assert len(kept) == 2 * KEPT


# -- figures -------------------------------------------------------------------------------------------------------


def test_the_figures_of_a_round_are_kept_for_people() -> None:
    camp = training("a", "b", **SLOW)
    camp.hash()
    camp.pass_s(2.0)
    camp.commit("a", loss=2.0)
    camp.commit("b", loss=1.0)
    camp.hold("a", "b")
    (figures,) = camp.course.sealed
    sizes = {r.member: r.samples for r in camp.course.past[0].results}
    assert figures.loss == pytest.approx((2.0 * sizes["a"] + 1.0 * sizes["b"]) / 8)
    assert (figures.step, figures.epoch, figures.number, figures.samples, figures.results) == (0, 0, 0, 8, 2)
    assert (figures.batches, figures.back, figures.late, figures.train_us) == (8, 0, False, 2_000_000)
    assert figures.model == model(0)
