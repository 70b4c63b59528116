"""Ranks with real processes, on every store: any of them can die at any time, and whoever is left goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.ranks_crew import STORES, Crew, next_it, store_url
from tests.stores.etcd import Etcd


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, etcd: Etcd) -> Iterator[str]:
    with store_url(request.param, tmp_path, etcd) as url:
        yield url


def test_a_rank_crashes_during_training_and_the_rest_go_on_without_it(store: str, tmp_path: Path) -> None:
    """The first fault scenario: the barrier waits for the dead, gives it up, and the iteration counts without it."""
    with Crew(store, tmp_path, form_members=3) as crew:
        ranks = [crew.start(rank) for rank in range(3)]
        next_it(ranks[0], lambda it: it["number"] >= 3)
        ranks[1].kill(signal.SIGKILL)
        decision, why = crew.until_gone(1)
        assert "no sign of life" in why
        assert decision.members == ["0", "2"]
        assert decision.outcome == "committed"
        crew.until_number(decision.number + 5)
        for rank in (ranks[0], ranks[2]):
            it = next_it(rank, lambda it: it["attempt"] > decision.attempt)
            assert it["members"] == [0, 2]
            assert not it["joined"]
        crew.numbers_once()


def test_a_rank_that_is_restarted_early_continues_with_the_others_at_the_next_number(
    store: str, tmp_path: Path
) -> None:
    """The second fault scenario: it comes back before it was given up, and nobody waits out its old life."""
    with Crew(store, tmp_path, form_members=3, t_dead_s=20.0, beat_s=0.5) as crew:
        ranks = [crew.start(rank, "led") for rank in range(3)]
        for rank in ranks:
            assert rank.hear("it")["number"] == 0
        ranks[1].kill(signal.SIGKILL)
        ranks[1].wait()
        for rank in (ranks[0], ranks[2]):
            rank.tell("yes")
        again = crew.start(1, "led")
        shown = [rank.hear("it") for rank in (ranks[0], again, ranks[2])]
        assert [it["number"] for it in shown] == [1, 1, 1]
        assert [it["members"] for it in shown] == [[0, 1, 2]] * 3
        assert [it["joined"] for it in shown] == [False, True, False]
        assert shown[0]["gone"] == []
        for rank in (ranks[0], again, ranks[2]):
            rank.tell("yes")
        assert [rank.hear("voted") for rank in (ranks[0], again, ranks[2])] == [[1, True]] * 3
        assert ranks[0].said("voted") == ranks[2].said("voted") == [[0, True], [1, True]]
        crew.numbers_once()


def test_a_rank_that_was_stopped_for_too_long_is_given_up_and_comes_back_as_a_new_life(
    store: str, tmp_path: Path
) -> None:
    with Crew(store, tmp_path, form_members=3) as crew:
        ranks = [crew.start(rank) for rank in range(3)]
        next_it(ranks[2], lambda it: it["number"] >= 3)
        ranks[2].kill(signal.SIGSTOP)
        decision, _ = crew.until_gone(2)
        crew.until_number(decision.number + 3)
        ranks[2].kill(signal.SIGCONT)
        back = next_it(ranks[2], lambda it: it["attempt"] > decision.attempt)
        assert back["joined"]
        assert 2 in back["members"]
        crew.until(lambda looker: looker.crew.ranks["2"].incarnation == 2, "its second life")
        crew.numbers_once()


def test_whoever_joins_late_is_counted_in_by_the_next_record(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path) as crew:
        first = crew.start(0)
        next_it(first, lambda it: it["number"] >= 3)
        late = crew.start(5)
        it = late.hear("it")
        assert it["joined"]
        assert it["members"] == [0, 5]
        assert it["number"] >= 3
        assert next_it(first, lambda each: each["attempt"] == it["attempt"])["members"] == [0, 5]
        crew.numbers_once()


def test_one_no_repeats_the_number_for_all(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2) as crew:
        ranks = [crew.start(rank, "led") for rank in range(2)]
        first = [rank.hear("it") for rank in ranks]
        ranks[0].tell("yes")
        ranks[1].tell("no")
        assert [rank.hear("voted") for rank in ranks] == [[0, False], [0, False]]
        again = [rank.hear("it") for rank in ranks]
        assert [it["number"] for it in again] == [0, 0]
        assert again[0]["attempt"] == first[0]["attempt"] + 1
        for rank in ranks:
            rank.tell("yes")
        assert [rank.hear("voted") for rank in ranks] == [[0, True], [0, True]]


def test_what_is_made_once_is_the_same_for_everybody(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2) as crew:
        ranks = [crew.start(rank, "led") for rank in range(2)]
        for rank in ranks:
            rank.hear("it")
            rank.tell("once")
        made = [rank.hear("once") for rank in ranks]
        assert made[0] == made[1]
        assert made[0] in ("0", "1")
