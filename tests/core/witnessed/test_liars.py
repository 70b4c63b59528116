"""Liars: found out by their own words, out at once, and not back before an operator says so."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.core.witnessed.camp import LOST_S, Camp, blob, code, model, training

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted, Answer
from quoracy.core.witnessed.events import (
    Accusation,
    HealthCheck,
    Holds,
    MemberReadmitted,
    MemberRemoved,
    ResultVoided,
    TwoFacedShown,
)
from quoracy.core.witnessed.state import KEPT
from quoracy.core.witnessed.views import SEALED

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def keyed(*names: str, **config: Any) -> Camp:
    """In the first round, with members that have keys. Nobody here checks signatures: ``test_signatures`` does."""
    camp = Camp(**({"init_min_clients": len(names)} | SLOW | config))
    camp.join(*names, key=b"key")
    camp.load()
    return camp


def show(camp: Camp, by: str, accused: str, /, **changes: Any) -> Answer:
    """That it signed another result for what it committed to."""
    past = camp.course.past[-1] if camp.course.past else camp.round
    (result,) = [one for one in past.results if one.member == accused][:1]
    made: dict[str, Any] = {
        "accused": accused, "epoch": past.epoch, "round": past.number, "assignment": result.assignment,
        "attempt": result.attempt, "digest": blob(accused, 0, 0, 0, 0, "lie"), "base": result.base, "signature": b"s",
    }  # fmt: skip
    return camp.say(by, TwoFacedShown(by, camp.machine.incarnation_of(by), **(made | changes)))


# -- two results for one assignment --------------------------------------------------------------------------------


def test_who_signed_two_results_is_out_at_once_and_its_work_moves() -> None:
    camp = keyed("a", "b", "c")
    camp.turn()
    (work,) = camp.works("c")
    assert isinstance(show(camp, "a", "c"), Accepted)
    assert camp.states()["c"] == "Removed"
    assert camp.who("c").ejected
    assert "signed two results" in camp.who("c").reason
    assert "as a showed" in camp.who("c").reason
    assert work.member in ("a", "b")
    assert camp.standing("c").state == "Removed"


def test_a_liar_stays_out_until_an_operator_lets_it_back_in() -> None:
    camp = keyed("a", "b", "c")
    camp.turn()
    show(camp, "a", "c")
    refused = camp.try_join("c", key=b"key")
    assert code(refused) == "ejected"
    assert "signed two results" in refused.why  # type: ignore[union-attr]
    assert code(camp.beat("c")) == "ejected"
    assert isinstance(camp.order(MemberReadmitted("c")), Accepted)
    assert camp.states()["c"] == "Left"
    camp.join("c", key=b"key")
    assert camp.states()["c"] == "Resyncing"


def test_it_may_be_shown_in_the_round_itself_and_while_it_is_remembered() -> None:
    camp = keyed("a", "b", "c")
    camp.commit("c")
    assert isinstance(show(camp, "a", "c"), Accepted)
    camp = keyed("a", "b", "c")
    for _ in range(KEPT + 1):
        camp.turn()
    oldest = camp.course.past[0]
    (result,) = [one for one in oldest.results if one.member == "b"]
    assert oldest.number == 1
    gone = show(camp, "a", "b", round=0, assignment=result.assignment)
    assert (code(gone), "too long ago" in str(gone)) == ("contradiction", True)
    assert isinstance(show(camp, "a", "b", round=1, assignment=result.assignment), Accepted)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"round": 7}, "has committed to nothing"),
        ({"assignment": 9}, "has committed to nothing"),
        ({"attempt": 2}, "has committed to nothing"),
        ({"accused": "b"}, "has committed to nothing"),
        ({"digest": None}, "signed what it committed to"),
        ({"accused": "nobody"}, "has not joined"),
    ],
)
def test_nobody_is_out_for_what_is_no_contradiction(changes: dict[str, Any], why: str) -> None:
    camp = keyed("a", "b", "c")
    camp.turn()
    (result,) = [one for one in camp.course.past[-1].results if one.member == "c"]
    refused = show(camp, "a", "c", **{k: result.digest if v is None else v for k, v in changes.items()})
    assert why in refused.why  # type: ignore[union-attr]
    assert set(camp.states().values()) == {"InStep"}


def test_another_base_is_another_result_too() -> None:
    camp = keyed("a", "b", "c")
    camp.turn()
    (result,) = [one for one in camp.course.past[-1].results if one.member == "c"]
    assert isinstance(show(camp, "a", "c", digest=result.digest, base=model(9)), Accepted)


def test_who_is_gone_may_still_be_found_out() -> None:
    camp = keyed("a", "b", "c")
    camp.turn()
    camp.leave("c")
    assert isinstance(show(camp, "a", "c"), Accepted)
    assert code(camp.try_join("c", key=b"key")) == "ejected"
    camp.leave("b")
    assert code(show(camp, "b", "a")) == "member_gone"


# -- results that nobody has ---------------------------------------------------------------------------------------


def lost_result(**config: Any) -> Camp:
    """Result 0 of step 0 was attested by c and d, which are gone; a and b never had it."""
    camp = training("a", "b", "c", "d", witness_quorum="1/2", **(SLOW | config))
    camp.hash()
    camp.commit()
    first = camp.round.works[0].result
    camp.hold("c", "d")
    camp.hold("a", "b", positions=[i for i in range(4) if i != first])
    camp.pass_s(10.0)
    assert (camp.course.step, camp.phase) == (1, "RoundTrain")
    assert camp.course.past[0].positions[0] == first
    camp.leave("c")
    camp.leave("d")
    return camp


def test_a_result_is_void_only_if_everybody_in_step_misses_it() -> None:
    camp = lost_result()
    (owner,) = [camp.course.past[0].results[i] for i in camp.course.past[0].positions[:1]]
    camp.miss("a", 0)
    assert camp.course.past[0].voided == []
    assert camp.propose(ResultVoided(0, 0, ("a",))).code == "no_quorum"
    before = camp.account()
    camp.miss("b", 0)
    assert camp.course.past[0].voided == [0]
    after = camp.account()
    assert (before[0] - after[0], after[2] - before[2]) == (2, 2)
    assert [(span.first, span.end) for span in camp.course.account.waiting] == list(owner.batches)
    assert camp.machine.look(SEALED, "a").rounds[0].voided == (0,)
    assert {state for name, state in camp.states().items() if name in "ab"} == {"InStep"}  # they never attested it
    camp.turn()
    assert camp.course.step == 2


def test_who_misses_what_it_attested_is_out() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    for name in "abc":
        camp.miss(name, 1)
    assert set(camp.states().values()) == {"Removed"}
    assert camp.who("a").reason == "attested result 1 of step 0, and misses it"
    assert all(member.ejected for member in camp.course.members.values())


def test_only_those_who_attested_it_are_out() -> None:
    camp = training("a", "b", "c", "d", witness_nodes=3, min_clients=3, witness_quorum="1/3", **SLOW)
    camp.hash()
    camp.commit()
    liar, *others = camp.round.witnesses
    (plain,) = set("abcd") - set(camp.round.witnesses)
    camp.hold(liar)
    camp.hold(*others, plain, positions=range(1, 4))
    camp.pass_s(10.0)
    position = camp.course.past[0].positions.index(0)
    for name in "abcd":
        camp.miss(name, position)
    assert camp.states() == {name: "Removed" if name == liar else "InStep" for name in "abcd"}


def test_a_later_word_takes_the_complaint_back() -> None:
    camp = lost_result()
    camp.miss("a", 0)
    camp.miss("a")
    camp.miss("b", 0)
    assert camp.course.past[0].voided == []


def test_who_goes_need_not_complain() -> None:
    camp = lost_result()
    camp.miss("a", 0)
    camp.pass_s(LOST_S, "b")
    assert camp.course.past[0].voided == [0]


@pytest.mark.parametrize(
    ("voided", "refused"),
    [
        (ResultVoided(1, 0, ("a", "b")), "wrong_step"),
        (ResultVoided(0, 4, ("a", "b")), "contradiction"),
        (ResultVoided(0, 0, ("a", "b", "b")), "no_quorum"),
        (ResultVoided(0, 0, ("a", "b", "c")), "no_quorum"),
        (ResultVoided(0, 0, ()), "no_quorum"),
    ],
)
def test_the_fold_checks_what_is_void(voided: ResultVoided, refused: str) -> None:
    assert lost_result().propose(voided).code == refused


def test_what_most_have_applied_was_there_and_cannot_be_void() -> None:
    camp = lost_result()
    camp.turn()
    assert camp.propose(ResultVoided(0, 0, ("a", "b"))).code == "wrong_step"
    assert code(camp.tell(_missing(camp, "a", 0))) == "wrong_step"


def test_not_even_when_the_next_round_came_to_nothing() -> None:
    camp = lost_result()
    camp.hash()
    camp.commit()
    camp.pass_s(110.0)
    assert (camp.course.step, camp.course.agreed[-1][0]) == (1, 1)
    assert camp.phase == "Cooldown"
    refused = camp.propose(ResultVoided(0, 0, ("a", "b")))
    assert (refused.code, "they had it" in refused.why) == ("contradiction", True)


def _missing(camp: Camp, name: str, step: int) -> Any:
    return Holds(name, 1, step=step, missing=b"\1", **camp.held(name, (), 0))


def test_missing_bits_of_the_wrong_length_are_refused() -> None:
    camp = lost_result()
    wrong = _missing(camp, "a", 0)
    assert camp.tell(wrong) is not None
    assert code(camp.tell(replace(wrong, missing=b"\1\1"))) == "malformed"
    assert code(camp.tell(replace(wrong, missing=b"\xff"))) == "malformed"


def test_what_is_missing_in_cooldown_is_void_too() -> None:
    camp = training("a", "b", "c", rounds_per_epoch=1, witness_quorum="1/3", **SLOW)
    camp.hash()
    camp.commit()
    camp.hold("c")
    camp.hold("a", "b", positions=[1, 2])
    camp.pass_s(10.0)
    assert camp.phase == "Cooldown"
    camp.leave("c")
    position = camp.course.past[0].positions.index(0)
    camp.miss("a", position)
    camp.miss("b", position)
    assert camp.course.past[0].voided == [position]
    camp.cool()
    assert camp.course.stored.step == 1


# -- members that do not deliver -----------------------------------------------------------------------------------


def words(*names: str, step: int = 0) -> tuple[Accusation, ...]:
    """Each accuses for the first result of this step."""
    return tuple(Accusation(name, step, 0) for name in names)


def test_who_most_of_the_others_accuse_is_out() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    camp.accuse("a", "d")
    assert camp.states()["d"] == "InStep"
    refused = camp.propose(MemberRemoved("d", 1, words("a"), "so they say"))
    assert (refused.code, "more than half of the 3 others" in refused.why) == ("no_quorum", True)
    camp.accuse("b", "d")
    assert (camp.states()["d"], camp.who("d").ejected) == ("Removed", True)
    assert camp.who("d").reason == "2 of 3 others do not get from it what it attested"


def test_the_word_of_one_alone_proves_nothing() -> None:
    camp = training("a", "b", **SLOW)
    camp.turn()
    camp.accuse("a", "b")
    assert camp.states()["b"] == "InStep"
    assert camp.propose(MemberRemoved("b", 1, words("a"), "so it says")).code == "no_quorum"


def test_half_of_the_others_are_not_enough() -> None:
    camp = training("a", "b", "c", "d", "e", **SLOW)
    camp.turn()
    camp.accuse("a", "e")
    camp.accuse("b", "e")
    assert camp.states()["e"] == "InStep"
    camp.accuse("c", "e")
    assert camp.states()["e"] == "Removed"


def test_an_accusation_is_forgotten_after_two_steps_or_when_it_is_taken_back() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    camp.accuse("a", "d")
    camp.accuse("a")
    camp.accuse("b", "d")
    assert camp.states()["d"] == "InStep"
    camp.turn()
    camp.turn()
    camp.accuse("c", "d")
    assert camp.states()["d"] == "InStep"


def test_the_accused_must_have_attested_something_that_was_sealed() -> None:
    camp = training("a", "b", "c", "d", witness_nodes=1, **SLOW)
    camp.turn()
    (witness,) = {claim.member for claim in camp.course.past[0].claims}
    innocent = next(name for name in "abcd" if name != witness)
    for name in sorted(set("abcd") - {innocent}):
        camp.accuse(name, innocent)
    assert camp.states()[innocent] == "InStep"
    by = words(*sorted(set("abcd") - {innocent}))
    refused = camp.propose(MemberRemoved(innocent, 1, by, "so they say"))
    assert (refused.code, "has not attested result 0 of step 0" in refused.why) == ("contradiction", True)


def apart() -> tuple[Camp, str, int, int]:
    """One witness a round, and never the same in two: who attested a step, that one, and the other step."""
    for seed in range(50):
        camp = training("a", "b", "c", "d", witness_nodes=1, seed=seed, **SLOW)
        camp.turn()
        camp.turn()
        first, second = (past.claims[0].member for past in camp.course.past)
        if first != second:
            return camp, first, 0, 1
    pytest.fail("the same witness in every two rounds")


def test_an_accusation_counts_only_for_a_step_that_the_accused_attested() -> None:
    """Two that slander together: what it attested in another step is no evidence."""
    camp, accused, attested, other = apart()
    liars = sorted(set("abcd") - {accused})[:2]
    for name in liars:
        said = HealthCheck(name, 1, other, (accused,), (0,), 0)
        assert code(camp.tell(said)) == "contradiction"
    assert camp.states()[accused] == "InStep"
    for step, refused in ((other, "contradiction"), (attested, "")):
        by, cup = words(*liars, step=step), Cup("demo", bytes(16))
        decided = camp.run.decide(None, MemberRemoved(accused, 1, by, "x"), camp.hand.now_us, cup, camp.n + 1)
        assert (decided.code if isinstance(decided, Refusal) else "") == refused


def test_and_only_for_a_result_that_it_attested() -> None:
    camp = training("a", "b", "c", "d", witness_quorum="1/2", **SLOW)
    camp.hash()
    camp.commit()
    camp.hold("a", "b", "c")
    camp.hold("d", positions=[1, 2, 3])
    camp.pass_s(10.0)
    place = camp.course.past[0].positions.index(0)
    for result, refused in ((place, "contradiction"), (9, "contradiction"), ((place + 1) % 4, "")):
        assert code(camp.tell(HealthCheck("a", 1, 0, ("d",), (result,), 0))) == refused
    mixed = (Accusation("a", 0, (place + 1) % 4), Accusation("b", 0, place))
    assert camp.propose(MemberRemoved("d", 1, mixed, "so they say")).code == "contradiction"


def test_for_each_accused_one_result_is_named() -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    assert code(camp.tell(HealthCheck("a", 1, 0, ("b", "d"), (0,), 0))) == "malformed"


@pytest.mark.parametrize("by", [("a", "a"), ("a", "x"), ("a", "d"), ()])
def test_accusers_are_counted_once_and_only_those_in_step(by: tuple[str, ...]) -> None:
    camp = training("a", "b", "c", "d", **SLOW)
    camp.turn()
    assert camp.propose(MemberRemoved("d", 1, words(*by), "so they say")).code == "no_quorum"


def test_an_accusation_of_nothing_sealed_is_refused_by_name() -> None:
    camp = training("a", "b", **SLOW)
    assert code(camp.tell(HealthCheck("a", 1, 0, ("b",), (0,)))) == "wrong_step"


def test_what_a_filter_claims_proves_nothing() -> None:
    """It may have claimed it by chance: who does not deliver is out for this epoch, who misses it is not even that."""
    camp = training("a", "b", "c", "d", attestation="bloom", **SLOW)
    camp.turn()
    camp.accuse("a", "d")
    camp.accuse("b", "d")
    assert (camp.states()["d"], camp.who("d").ejected) == ("Removed", False)
    camp.join("d")
    assert camp.states()["d"] == "Pending"
    for name in "abc":
        camp.miss(name, 1)
    assert camp.course.past[0].voided == [1]
    assert {camp.states()[name] for name in "abc"} == {"InStep"}


def test_one_that_lies_once_in_each_way_is_out_by_the_end_of_the_next_round() -> None:
    """What is proven in a round is acted on within the entry that proves it."""
    camp = keyed("a", "b", "c", "d")
    camp.turn()
    lied_in = camp.course.number - 1
    show(camp, "a", "d")
    assert camp.states()["d"] == "Removed"
    camp.accuse("a", "c")
    camp.accuse("b", "c")
    assert camp.states()["c"] == "Removed"
    assert camp.course.number <= lied_in + 1
