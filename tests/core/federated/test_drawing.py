"""Who is drawn: by the seed alone, whoever serves; more than needed if so wished; refused ones again if nobody else is
there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.federated.study import Study, studying

from quoracy.core.dice import Dice
from quoracy.core.federated.drawing import Pool, wanted
from quoracy.core.federated.events import ParticipantReadmitted, RoundSuspended
from quoracy.core.federated.explain import over_shown
from quoracy.core.federated.state import Round, Task

VECTORS = Path(__file__).parent.parent / "vectors" / "selection.json"
NAMES = [f"p{i:02}" for i in range(20)]


def draws(study: Study, rounds: int = 3) -> list[list[str]]:
    """Whom each round drew."""
    drawn = []
    for _ in range(rounds):
        drawn.append(study.training())
        study.run_round(*study.training())
    return drawn


def test_the_recorded_selections_come_out_again(rewrite_vectors: bool) -> None:
    """What a released Quoracy drew must be drawn for ever."""
    made: list[dict[str, Any]] = []
    for seed, per_round in ((0, 5), (1, 5), (2**53, 7), (7, 1)):
        study = studying(*NAMES, per_round=per_round, seed=seed)
        made.append({"seed": seed, "per_round": per_round, "drawn": draws(study)})
    if rewrite_vectors:
        VECTORS.write_text(json.dumps(made, indent=1) + "\n")
    assert made == json.loads(VECTORS.read_text())


def test_whoever_serves_and_whenever_they_came_the_draw_is_the_same() -> None:
    first = draws(studying(*NAMES, per_round=5, seed=3))
    study = Study(clients=20, per_round=5, seed=3)
    study.join(*NAMES[:7])
    study.pass_s(3.0)
    study = study.takeover()
    study.join(*reversed(NAMES[7:]))
    assert draws(study) == first


def test_another_seed_draws_others() -> None:
    assert draws(studying(*NAMES, per_round=5, seed=3)) != draws(studying(*NAMES, per_round=5, seed=4))


def test_every_round_draws_anew() -> None:
    drawn = draws(studying(*NAMES, per_round=5, seed=3), rounds=4)
    assert len({tuple(some) for some in drawn}) == 4


def test_who_is_not_drawn_is_in_standby() -> None:
    study = studying(*NAMES, per_round=5)
    drawn = study.training()
    assert len(drawn) == 5
    for name in NAMES:
        phase = study.standing(name).phase
        assert phase == ("ROUND" if name in drawn else "STANDBY")
        seen = study.beat(name)
        assert (seen.phase, seen.round) == (phase, 0)  # type: ignore[union-attr]


@pytest.mark.parametrize(("share", "drawn"), [(0.0, 5), (0.1, 6), (0.2, 6), (0.3, 7), (1.0, 10), (10.0, 20)])
def test_more_may_be_drawn_than_needed_and_the_first_to_finish_count(share: float, drawn: int) -> None:
    study = studying(*NAMES, per_round=5, over_select=share)
    training = study.training()
    assert len(training) == drawn
    study.update(*training[-5:])
    assert study.phase == "Closing"
    assert [who for who, _, _ in study.task.history[0].admitted] == training[-5:]
    assert sorted(who for who, _ in study.task.history[0].dropped) == training[:-5]


@pytest.mark.parametrize(
    ("target", "share", "want"), [(10, 0.1, 11), (50, 0.1, 55), (25, 0.12, 28), (3, 0.1, 4), (10, 0.0, 10)]
)
def test_a_share_is_rounded_up_and_not_by_what_a_float_makes_of_it(target: int, share: float, want: int) -> None:
    study = Study(per_round=target, over_select=share)
    assert wanted(study.task, Round(0, target, 0)) == want


def test_over_selection_makes_up_for_losses_before_anybody_steps_in() -> None:
    study = studying(*NAMES, per_round=5, over_select=0.4)
    one, two, *others = study.training()
    study.lose(one, two)
    assert study.all_events(RoundSuspended) == []
    study.update(*others)
    assert study.phase == "Closing"


def test_losses_beyond_that_are_made_up_by_substitutes_with_tickets_of_their_own() -> None:
    study = studying(*NAMES, clients=10, per_round=5, seed=3)
    before = set(study.training())
    tickets = {assignment.ticket for assignment in study.round.assignments.values()}
    gone = sorted(before)[:2]
    study.lose(*gone)
    substitutes = set(study.training()) - before
    assert len(substitutes) == 2
    assert {study.round.assignments[who].ticket for who in substitutes}.isdisjoint(tickets)
    assert study.round.attempt == 2


def test_a_refused_one_tries_again_only_if_nobody_else_can_step_in() -> None:
    study = studying("a", "b", "c", per_round=2, refused_max=3, seed=1)
    one, two = study.training()
    (spare,) = {"a", "b", "c"} - {one, two}
    study.refuse(one)
    assert study.training() == sorted([two, spare])
    study.refuse(spare)
    assert len(study.training()) == 2
    (again,) = set(study.training()) - {two}
    assert again in (one, spare)
    study.update(two, again)
    admitted = [who for who, _, _ in study.task.history[0].admitted]
    assert admitted == sorted([two, again])
    assert len(study.task.history[0].dropped) == 2


def test_a_round_that_is_over_names_everybody_who_was_drawn() -> None:
    """By what became of them: counted, refused, lost, late."""
    study = studying(*NAMES, clients=10, per_round=5, over_select=0.2, refused_max=3, seed=3)
    drawn = set(study.training())
    assert len(drawn) == 6
    gone, poison, second, *rest = sorted(drawn)
    study.lose(gone)
    study.refuse(poison)
    study.lose(second)
    substitutes = set(study.training()) - drawn
    assert substitutes
    drawn |= substitutes
    study.update(*sorted({*rest, *substitutes})[:5])
    over = over_shown(study.task.history[0])
    why = {dropped["participant"]: dropped["why"] for dropped in over["dropped"]}
    assert {*over["admitted"], *why} == drawn
    assert set(over["admitted"]).isdisjoint(why)
    assert (why[poison], why[gone].split(":")[0]) == ("nan in w", "late")


def test_one_that_was_let_back_in_gets_a_place_in_the_same_round() -> None:
    study = studying("a", "b", refused_max=1)
    study.update("a")
    study.refuse("b")
    assert (study.phase, study.who("b").state.value) == ("Standby", "Quarantined")
    study.order(ParticipantReadmitted("b"))
    study.join("b")
    assert (study.phase, study.training()) == ("Round", ["b"])
    study.update("b")
    assert study.task.history[0].dropped == [("b", "nan in w")]
    assert [who for who, _, _ in study.task.history[0].admitted] == ["a", "b"]


@given(st.sets(st.integers(0, 99), max_size=30), st.sets(st.integers(100, 199), max_size=30), st.integers(0, 80))
def test_a_pool_is_drawn_from_once_each_and_the_fresh_ones_first(fresh: set[int], again: set[int], want: int) -> None:
    pool = Pool([str(i) for i in sorted(fresh)], [str(i) for i in sorted(again)])
    drawn = pool.draw(Dice("r", "select", 1, 0, b"seed"), want)
    assert len(drawn) == len(set(drawn)) == min(want, len(pool))
    assert drawn == sorted(drawn)
    assert set(drawn) <= {*pool.fresh, *pool.again}
    if want <= len(fresh):
        assert set(drawn) <= set(pool.fresh)
    else:
        assert set(pool.fresh) <= set(drawn)


def test_the_order_of_arrival_changes_nothing_in_what_is_aggregated() -> None:
    orders = []
    for names in (("a", "b", "c"), ("c", "a", "b")):
        study = studying("a", "b", "c")
        study.update(*names)
        orders.append(study.duty("aggregate").order["updates"])
    assert orders[0] == orders[1]
    assert [who for who, _, _ in orders[0]] == ["a", "b", "c"]


def test_a_task_without_a_round_wants_as_many_as_are_here() -> None:
    study = studying("a", "b", clients=3)
    assert isinstance(study.task, Task)
    study.join("c")
    assert study.round.target == 3
