"""A model that nobody has is not waited for: whoever named its hash was wrong, or lied."""

from __future__ import annotations

from typing import Any

from tests.core.witnessed.camp import Camp, camping, model, training

from quorate.core.witnessed.epochs import BARREN

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
