"""Every sample comes once in a pass, in an order that everybody repeats, whatever the batches are asked for in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.batches import count_of, ids_of, permutation, ranges_of, rows
from quoracy.learn.witnessed.trainer import RunTask


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 5))
def test_every_sample_comes_once_in_a_pass(batch_size: int, count: int, seed: int) -> None:
    """Batches end where they end: a pass may end in the middle of one, or a batch hold several passes."""
    passes = 3
    found = rows(range(-(-passes * count // batch_size)), batch_size, count, seed)
    for number in range(passes):
        assert sorted(found[number * count : (number + 1) * count].tolist()) == list(range(count))


def test_a_batch_is_the_same_whatever_is_asked_for_beside_it() -> None:
    whole = rows(range(20), 7, 50, seed=3).reshape(20, 7)
    asked = [19, 0, 7, 8, 7]
    assert (rows(asked, 7, 50, seed=3).reshape(5, 7) == whole[asked]).all()


def test_passes_and_seeds_have_orders_of_their_own() -> None:
    orders = [permutation(seed, number, 100).tolist() for seed in (0, 1) for number in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_the_order_is_the_one_that_was_recorded() -> None:
    """A member with another version would train other samples under the same numbers."""
    assert permutation(0, 0, 8).tolist() == [3, 7, 2, 4, 1, 5, 6, 0]
    assert permutation(7, 3, 8).tolist() == [3, 2, 4, 7, 1, 6, 5, 0]


def test_nobody_can_spoil_the_order_for_others() -> None:
    with pytest.raises(ValueError, match="read-only"):
        permutation(1, 0, 5)[0] = 3


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8))
def test_ranges_and_numbers_are_the_same_thing(spans: list[tuple[int, int]]) -> None:
    ids = ids_of((first, first + length) for first, length in spans)
    assert ids_of(ranges_of(ids)) == ids
    assert all(first < end for first, end in ranges_of(ids))
    assert count_of(ranges_of(ids)) == len(ids)


def test_ranges_are_as_long_as_they_can_be_and_keep_their_order() -> None:
    assert ranges_of([5, 6, 7, 1, 2, 9]) == ((5, 8), (1, 3), (9, 10))


@pytest.mark.parametrize(
    ("asked", "batch_size", "count", "said"),
    [([0], 0, 5, "batch_size = 0"), ([0], 1, 0, "samples = 0"), ([3, -1], 1, 5, "batch = -1")],
)
def test_what_makes_no_sense_is_named(asked: list[int], batch_size: int, count: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        rows(asked, batch_size, count, 0)


def test_a_trainer_with_samples_of_its_own_asks_its_task() -> None:
    task = RunTask(seed=4, batch_size=6)
    assert np.array_equal(task.rows([1, 2], 30), rows([1, 2], 6, 30, 4))
