"""A model that nobody has is not waited for: whoever named its hash was wrong, or lied."""

from __future__ import annotations

from typing import Any

from tests.core.witnessed.camp import Camp, camping, model, training

from quoracy.core.witnessed.account import Account
from quoracy.core.witnessed.checkpoint import OLDER_KEPT
from quoracy.core.witnessed.epochs import BARREN, BARREN_STORED

QUICK: dict[str, Any] = {"min_clients": 2, "warmup_s": 2.0, "rounds_per_epoch": 1}


def phantom(**config: Any) -> Camp:
    """The epoch ended with a model of step 1 that most said they have, and nobody does; it was not stored."""
    camp = training("a", "b", "c", cooldown_s=2.0, **(QUICK | config))
    camp.turn()
    assert camp.phase == "Cooldown"
    camp.hash(mark="phantom")
    camp.pass_s(2.0)
    assert (camp.phase, camp.course.place.source, camp.course.place.step) == ("Warmup", "p2p", 1)
    return camp


def test_after_several_warm_ups_in_which_nobody_had_it_the_run_falls_back() -> None:
    camp = phantom()
    for _ in range(BARREN - 1):
        camp.pass_s(2.0)
        assert camp.course.place.step == 1
    waiting = camp.account()[2]
    camp.pass_s(2.0)
    assert (camp.course.place.source, camp.course.step) == ("initial", 0)
    assert camp.account()[2] > waiting
    assert camp.explain().sentence
    camp.load()
    assert (camp.phase, camp.round.step) == ("RoundTrain", 0)


def test_while_one_has_it_the_others_may_take_their_time() -> None:
    camp = phantom()
    for _ in range(2 * BARREN):
        camp.load("a", mark="phantom")
        camp.pass_s(2.0)
    assert (camp.course.place.source, camp.course.step) == ("p2p", 1)


def test_only_warm_ups_in_a_row_count() -> None:
    camp = phantom()
    for loads in (False, False, True, False, False):
        if loads:
            camp.load("a", mark="phantom")
        camp.pass_s(2.0)
    assert (camp.course.place.source, camp.course.step) == ("p2p", 1)


def test_the_first_models_hash_is_named_anew() -> None:
    """By those who come after the ones that named it, and cannot make such a model."""
    camp = camping("a", "b", **QUICK)
    camp.load(mark="phantom")
    assert camp.phase == "RoundTrain"
    camp.leave("a")
    camp.leave("b")
    assert (camp.phase, camp.course.place.model) == ("WaitingForMembers", model(0, "phantom"))
    camp.join("c", "d")
    assert (camp.phase, camp.course.barren) == ("Warmup", 0)
    camp.load("c")
    camp.load("d")
    assert (camp.phase, camp.course.barren, camp.course.place.model) == ("Warmup", 1, model(0, "phantom"))
    camp.pass_s(4.0)
    assert camp.course.place.model == b""
    camp.load()
    assert (camp.phase, camp.course.place.model) == ("RoundTrain", model(0))


def test_the_count_survives_a_takeover() -> None:
    camp = phantom()
    camp.pass_s(2.0)
    camp = camp.takeover()
    assert camp.course.barren == 1


# -- a checkpoint that is not there ----------------------------------------------------------------------------------


def hollow(epochs: int) -> Camp:
    """So many epochs of one round, each with a checkpoint; then all who have the model leave, and others come."""
    camp = training("a", "b", **(QUICK | {"init_min_clients": 2}))
    for _ in range(epochs):
        camp.turn()
        camp.cool()
        camp.load()
    assert (camp.phase, camp.course.step, camp.course.stored.step) == ("RoundTrain", epochs, epochs)
    camp.leave("a")
    camp.leave("b")
    camp.join("c", "d")
    assert (camp.phase, camp.course.place) == ("Warmup", camp.course.stored)
    return camp


def barren(camp: Camp) -> None:
    """Until what is there is given up."""
    for _ in range(BARREN_STORED - 1):
        before = camp.course.place
        camp.pass_s(2.0)
        assert camp.course.place == before
    camp.pass_s(2.0)


def test_from_a_checkpoint_that_nobody_can_load_the_run_goes_back_to_the_one_before() -> None:
    camp = hollow(2)
    first = camp.course.older[-1]
    assert (first.source, first.step, first.model) == ("stored", 1, model(1))
    barren(camp)
    assert (camp.course.place, camp.course.stored, camp.course.step) == (first, first, 1)
    assert camp.standing("c").load.digest == first.digest  # type: ignore[union-attr]
    assert camp.account()[0] == 8
    camp.load()
    assert (camp.phase, camp.round.step) == ("RoundTrain", 1)


def test_and_lastly_to_the_model_it_began_with() -> None:
    camp = hollow(1)
    barren(camp)
    assert (camp.course.place.source, camp.course.step, camp.course.older) == ("initial", 0, [])
    camp.load()
    camp.turn()
    camp.cool()
    assert (camp.course.stored.step, camp.account()[0]) == (1, 8)


def test_of_many_checkpoints_the_first_and_the_newest_are_remembered() -> None:
    camp = hollow(OLDER_KEPT + 3)
    steps = [place.step for place in camp.course.older]
    assert steps == [0, OLDER_KEPT + 1, OLDER_KEPT + 2]
    for step in reversed(steps):
        barren(camp)
        assert (camp.course.step, camp.account()[0]) == (step, 8 * step)
    camp.load()
    assert (camp.phase, camp.round.step) == ("RoundTrain", 0)


def test_older_checkpoints_survive_a_takeover() -> None:
    camp = hollow(2)
    older, keepers = camp.course.older, camp.course.keepers
    camp = camp.takeover()
    assert (camp.course.older, camp.course.keepers) == (older, keepers)


def test_the_account_of_a_forgotten_checkpoint_belongs_to_the_next() -> None:
    account = Account(next_batch=6)
    for first in (0, 2, 4):
        account.apply([(first, first + 2)])
        account.keep()
    account.forget(0)
    assert (account.layers, account.stored) == ([[(0, 4)], [(4, 6)]], 6)
    account.give_up()
    assert (account.stored, account.waiting_in_all, account.returned) == (4, 2, 2)
    account.give_up()
    assert (account.stored, account.waiting_in_all) == (0, 6)
