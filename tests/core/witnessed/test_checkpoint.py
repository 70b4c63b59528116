"""Where the model is: agreed in Cooldown, stored by one that was drawn, and never a newer step with older weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.core.witnessed.camp import LOST_S, Camp, camping, code, model, training

from quoracy.core.dice import Cup
from quoracy.core.members import Accepted
from quoracy.core.run import Decided
from quoracy.core.witnessed.checkpoint import HOLDERS_SHOWN
from quoracy.core.witnessed.events import CheckpointStored, CooldownEnded, ModelAgreed, Report, RunStopped

SLOW: dict[str, Any] = {"round_train_max_s": 100.0, "round_witness_s": 10.0, "adaptive_deadline": False}


def cooling(*names: str, **config: Any) -> Camp:
    """After the only round of the first epoch."""
    camp = training(*names, **(SLOW | {"rounds_per_epoch": 1} | config))
    camp.turn()
    assert camp.phase == "Cooldown"
    return camp


def storer(camp: Camp) -> str:
    assert camp.course.storing is not None
    return camp.course.storing.member


# -- agreeing ------------------------------------------------------------------------------------------------------


def test_the_model_of_the_end_step_is_what_most_report_and_they_are_its_holders() -> None:
    camp = cooling("a", "b", "c")
    camp.hash("a", "b")
    assert camp.course.storing is None
    camp.hash("c", mark="other")
    assert (camp.course.place.source, camp.course.place.step, camp.course.place.model) == ("p2p", 1, model(1))
    assert camp.course.holders == [("a", 1), ("b", 1)]
    assert storer(camp) in ("a", "b")
    assert [name for name in "abc" if camp.standing(name).store] == [storer(camp)]


def test_who_says_nothing_is_waited_for_only_so_long() -> None:
    camp = cooling("a", "b", "c")
    camp.hash("a", "b")
    camp.pass_s(9.0)
    assert camp.course.storing is None
    camp.pass_s(1.0)
    assert camp.course.holders == [("a", 1), ("b", 1)]
    assert camp.all_events(ModelAgreed)[0].late


def test_the_fold_checks_who_agrees_on_what() -> None:
    camp = cooling("a", "b", "c")

    def reports(*names: str, step: int = 1, life: int = 1, mark: str = "") -> tuple[Report, ...]:
        return tuple(Report(name, life, step, model(step, mark)) for name in names)

    cases: list[tuple[ModelAgreed, str]] = [
        (ModelAgreed(2, reports("a", "b", "c", step=2)), "wrong_step"),
        (ModelAgreed(1, reports("a", "b", "c", step=0)), "wrong_step"),
        (ModelAgreed(1, reports("a", "b")), "round_early"),
        (ModelAgreed(1, reports("a", "b"), True), "round_early"),
        (ModelAgreed(1, reports("a", "a", "b", "c")), "contradiction"),
        (ModelAgreed(1, reports("a", "b", "c", life=2)), "contradiction"),
        (ModelAgreed(1, reports("a", "b", "c", "x")), "contradiction"),
        (ModelAgreed(1, (*reports("a"), *reports("b", mark="x"), *reports("c", mark="y"))), "no_quorum"),
        (ModelAgreed(1, ()), "no_quorum"),
    ]
    for agreed, refused in cases:
        assert camp.propose(agreed).code == refused, agreed


def test_what_was_agreed_before_is_not_put_to_the_vote_again() -> None:
    """The last round sealed nothing, so that the model's hash is known from its beginning."""
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    camp.hash()
    camp.commit()
    camp.hold("a")
    camp.pass_s(110.0)
    assert camp.phase == "Cooldown"
    camp.hash("a", "b", mark="other")
    camp.hash("c")
    assert (camp.course.place.model, camp.course.holders) == (model(1), [("c", 1)])


def test_without_anything_new_there_is_nothing_to_keep() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.hash()
    camp.pass_s(100.0)
    camp.hold("a")
    camp.pass_s(10.0)
    assert (camp.phase, camp.course.epoch) == ("Warmup", 1)
    assert camp.all_events(ModelAgreed) == []


# -- storing -------------------------------------------------------------------------------------------------------


def test_cooldown_ends_when_the_drawn_member_has_stored_the_model() -> None:
    camp = cooling("a", "b", "c")
    camp.hash()
    who = storer(camp)
    assert isinstance(camp.store(who), Accepted)
    assert camp.phase == "Warmup"
    place = camp.course.place
    assert (place.source, place.step, place.model, place.size_bytes) == ("stored", 1, model(1), 1000)
    assert camp.course.stored == place
    assert [type(event).__name__ for event in camp.events()][:2] == ["CheckpointStored", "CooldownEnded"]


def test_newcomers_get_the_model_from_the_members_and_from_the_store_when_none_is_left() -> None:
    camp = cooling("a", "b", "c")
    camp.hash()
    camp.store(storer(camp))
    load = camp.standing("a").load
    assert load is not None
    assert (load.source, load.step, load.model) == ("p2p", 1, model(1))
    assert (load.digest, load.holders) == (camp.course.stored.digest, ("c", "b"))
    camp.leave("b")
    assert camp.standing("a").load.holders == ("c",)  # type: ignore[union-attr]
    camp.leave("c")
    camp.leave("a")
    camp.join("d")
    camp.pass_s(10.0)
    assert camp.phase == "Warmup"
    load = camp.standing("d").load
    assert load is not None
    assert (load.source, load.step, load.digest, load.holders) == ("stored", 1, camp.course.stored.digest, ())


def test_only_the_agreed_model_is_taken_for_the_checkpoint() -> None:
    camp = cooling("a", "b")
    early = CheckpointStored("a", 1, 0, 1, model(1), model(1, "file"))
    assert code(camp.say("a", early)) == "checkpoint_late"
    camp.hash()
    who = storer(camp)
    assert code(camp.store(who, model=model(1, "other"))) == "checkpoint_late"
    assert code(camp.store(who, step=0)) == "checkpoint_late"
    assert isinstance(camp.store(who), Accepted)
    assert isinstance(camp.try_join("c"), Accepted)
    assert code(camp.store(who)) == "checkpoint_late"  # the next epoch warms up


def test_only_who_was_drawn_for_it_may_say_that_it_is_stored() -> None:
    camp = cooling("a", "b", "c")
    camp.join("d")
    camp.hash()
    before = camp.state()
    for name in sorted(set("abcd") - {storer(camp)}):
        assert code(camp.store(name)) == "not_yours"
    assert camp.course.stored.step == 0
    assert camp.state() != before, "that it was refused is known"
    assert isinstance(camp.store(storer(camp)), Accepted)


def test_a_new_life_of_the_one_who_was_drawn_has_not_stored_it() -> None:
    camp = cooling("a", "b", "c")
    camp.hash()
    who = storer(camp)
    camp.join(who)
    assert storer(camp) != who
    assert code(camp.store(who)) == "not_yours"


def test_what_the_coordinator_does_not_find_is_not_stored() -> None:
    camp = cooling("a", "b", "c")
    camp.hash()
    assert code(camp.store(storer(camp), seen="missing")) == "object_missing"
    assert (camp.phase, camp.course.place.source, camp.course.stored.step) == ("Cooldown", "p2p", 0)
    assert isinstance(camp.store(storer(camp), seen="there"), Accepted)


def test_if_nothing_comes_another_one_is_drawn() -> None:
    camp = cooling("a", "b", "c", checkpoint_retry_s=5.0)
    camp.hash()
    seen = [storer(camp)]
    again = ModelAgreed(1, tuple(Report(name, 1, 1, model(1)) for name in "abc"))
    assert camp.propose(again).code == "round_early"
    for _ in range(3):
        camp.pass_s(5.0)
        seen.append(storer(camp))
    assert all(one != other for one, other in pairwise(seen))
    assert camp.standing(seen[-1]).store
    assert not camp.standing(seen[-2]).store
    assert isinstance(camp.store(seen[0]), Accepted)  # who was drawn before may be done first
    assert camp.course.stored.step == 1


def test_if_the_drawn_one_is_gone_another_is_drawn_at_once() -> None:
    camp = cooling("a", "b", "c")
    camp.hash()
    first = storer(camp)
    camp.leave(first)
    assert storer(camp) != first
    assert first not in dict(camp.course.holders)


def test_agreed_is_agreed() -> None:
    """Where nobody has to store it, a second agreement has nothing to change."""
    camp = cooling("a", "b", checkpoint="none")
    agreed = ModelAgreed(1, tuple(Report(name, 1, 1, model(1)) for name in "ab"))
    cup = Cup("demo", bytes(16))
    assert isinstance(camp.run.decide(None, agreed, camp.hand.now_us, cup, camp.n + 1), Decided)
    assert camp.propose(agreed).code == "contradiction"


def test_every_holder_is_drawn_now_and_then() -> None:
    drawn = set()
    for turn in range(60):
        camp = cooling("a", "b", "c", "d", seed=turn)
        camp.hash()
        drawn.add(storer(camp))
    assert drawn == set("abcd")


def test_when_its_time_is_over_cooldown_ends_with_the_model_that_the_members_have() -> None:
    camp = cooling("a", "b", "c", cooldown_s=20.0)
    camp.hash()
    camp.pass_s(20.0)
    assert (camp.phase, camp.course.epoch, camp.course.step) == ("Warmup", 1, 1)
    assert (camp.course.place.source, camp.course.stored.step) == ("p2p", 0)
    camp.join("d")
    load = camp.standing("b").load
    assert load is not None
    assert (load.source, load.step, load.model, set(load.holders)) == ("p2p", 1, model(1), {"a", "c"})


def test_a_checkpoint_that_comes_after_cooldown_is_taken_while_nothing_has_changed() -> None:
    camp = cooling("a", "b", cooldown_s=20.0, min_clients=2, waiting_extra_s=10.0)
    camp.hash()
    camp.pass_s(20.0)
    assert camp.phase == "WaitingForMembers"
    assert isinstance(camp.store(camp.course.keepers[0][0]), Accepted)
    assert (camp.course.place.source, camp.course.stored.step) == ("stored", 1)
    assert camp.account() == (8, 0, 0, 0)


def test_and_when_the_run_is_over() -> None:
    camp = cooling("a", "b", cooldown_s=20.0)
    camp.order(RunStopped())
    camp.hash()
    camp.pass_s(20.0)
    assert (camp.phase, camp.course.place.source) == ("Finished", "p2p")
    assert isinstance(camp.store(camp.course.keepers[0][0]), Accepted)
    assert camp.course.stored.step == 1


def test_without_checkpoints_the_agreed_model_is_enough() -> None:
    camp = cooling("a", "b", checkpoint="none")
    camp.hash("a")
    assert camp.phase == "Cooldown"
    camp.hash("b")
    assert (camp.phase, camp.course.place.source, camp.course.stored.step) == ("Warmup", "p2p", 0)
    assert not any(camp.standing(name).store for name in "ab")


# -- falling back --------------------------------------------------------------------------------------------------


def test_if_nothing_was_agreed_on_the_run_falls_back_with_its_step_and_batches() -> None:
    camp = cooling("a", "b", cooldown_s=20.0)
    camp.hash("a")
    camp.hash("b", mark="other")
    camp.pass_s(20.0)
    assert (camp.phase, camp.course.epoch, camp.course.step) == ("Warmup", 1, 0)
    assert (camp.course.place, camp.course.roll_backs) == (camp.course.stored, 1)
    assert camp.course.epochs[0].because == "no model of step 1 was agreed on: back to step 0"
    assert camp.account() == (0, 0, 8, 0)
    camp.load()
    camp.turn()
    assert (camp.course.step, camp.account()[0]) == (1, 8)


def with_members_only(*names: str, **config: Any) -> Camp:
    """The model of step 2 is with the members; that of step 1 is stored."""
    camp = cooling(*names, **({"cooldown_s": 20.0, "min_clients": len(names), "waiting_extra_s": 3.0} | config))
    camp.cool()
    camp.pass_s(3.0)
    camp.load()
    camp.turn()
    camp.hash()
    camp.pass_s(20.0)
    assert (camp.phase, camp.course.place.source, camp.course.step, camp.course.stored.step) == (
        "WaitingForMembers", "p2p", 2, 1,
    )  # fmt: skip
    return camp


def test_if_later_no_holder_is_left_the_run_falls_back_to_the_last_stored_and_its_step() -> None:
    camp = with_members_only("a", "b")
    camp.leave("a")
    assert camp.course.step == 2
    camp.leave("b")
    assert (camp.course.step, camp.course.place.source, camp.course.place.model) == (1, "stored", model(1))
    assert camp.account() == (8, 0, 8, 0)
    assert "nobody is left who has the model of step 2" in camp.explain().sentence


def test_a_new_life_of_a_holder_has_not_what_the_old_one_had() -> None:
    camp = with_members_only("a", "b")
    camp.join("a")
    camp.leave("b")
    assert (camp.course.step, camp.course.place.source) == (1, "stored")


def test_in_warmup_too_and_then_it_has_the_whole_time_again() -> None:
    camp = with_members_only("a", "b", warmup_s=60.0, min_clients=1)
    camp.join("c")
    camp.pass_s(3.0)
    assert camp.phase == "Warmup"
    camp.pass_s(40.0)
    camp.leave("a")
    camp.told.clear()
    camp.leave("b")
    assert (camp.phase, camp.course.step) == ("Warmup", 1)
    assert [(t, v.load.step) for t, v in camp.told["c"] if t == "standing"] == [("standing", 1)]
    camp.pass_s(40.0)
    assert camp.phase == "Warmup"
    camp.load("c")
    assert (camp.phase, camp.round.step) == ("RoundTrain", 1)


def test_who_loaded_it_in_warmup_holds_it_too() -> None:
    camp = with_members_only("a", "b", min_clients=2)
    camp.join("c")
    camp.pass_s(3.0)
    camp.load()
    assert sorted(name for name, _ in camp.course.holders) == ["a", "b", "c"]


def test_a_lost_epoch_falls_back_and_nobody_waits_for_it() -> None:
    """The only member dies in a round and comes back with nothing."""
    camp = training("a", **SLOW)
    camp.turn()
    camp.turn()
    assert camp.course.step == 2
    camp.join("a")
    assert (camp.phase, camp.course.epoch, camp.course.step) == ("Warmup", 1, 0)
    assert camp.states() == {"a": "Warming"}
    assert camp.account() == (0, 0, 24, 0)
    assert camp.all_events(CooldownEnded)[0].late


def test_who_was_only_too_slow_to_say_it_is_still_asked_in_cooldown() -> None:
    camp = training("a", "b", "c", **SLOW)
    camp.turn()
    camp.commit()
    camp.hold("a", "b")
    camp.hash("a")
    camp.pass_s(10.0)
    assert camp.states() == {"a": "InStep", "b": "Resyncing", "c": "Resyncing"}
    camp.leave("a")
    assert camp.phase == "Cooldown"
    camp.hash("b", "c")
    assert (camp.course.place.source, camp.course.step) == ("p2p", 2)


# -- the first model -----------------------------------------------------------------------------------------------


def test_a_given_initial_model_is_loaded_from_the_store() -> None:
    camp = camping("a", "b", initial="ab" * 32)
    load = camp.standing("a").load
    assert load is not None
    assert (load.source, load.step, load.model, load.digest) == ("stored", 0, b"", bytes.fromhex("ab" * 32))
    camp.load()
    assert (camp.course.stored.model, camp.course.stored.digest) == (model(0), bytes.fromhex("ab" * 32))


def test_without_one_everybody_makes_it_and_its_hash_is_known_from_then_on() -> None:
    camp = camping("a", "b")
    load = camp.standing("a").load
    assert load is not None
    assert (load.source, load.model) == ("initial", b"")
    camp.load()
    assert (camp.course.stored.source, camp.course.stored.model) == ("initial", model(0))


@pytest.mark.parametrize("members", [3, HOLDERS_SHOWN + 5])
def test_of_many_holders_some_are_named_and_not_the_same_to_everybody(members: int) -> None:
    names = [f"m{i:02}" for i in range(members)]
    camp = camping(*names, "z", warmup_s=10.0, global_batch_size_start=members + 1)
    camp.load(*names)
    camp.pass_s(10.0)
    load = camp.standing("z").load
    assert load is not None
    assert len(load.holders) == min(members, HOLDERS_SHOWN)
    camp.join(names[0])
    other = camp.standing(names[0]).load
    assert other is not None
    assert other.holders != load.holders
    assert names[0] not in other.holders


def test_who_is_lost_in_cooldown_is_not_waited_for() -> None:
    camp = cooling("a", "b", "c", cooldown_s=1000.0, round_witness_s=500.0)
    camp.hash("a", "b")
    camp.pass_s(LOST_S, "c")
    assert camp.course.storing is not None
