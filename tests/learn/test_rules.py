"""Each rule beside its simple twin, with any shapes, samples, numbers of liars, and width of the slices."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.learn import twins
from tests.learn.models import joined, made, split, update

from quoracy.core.federated import aggregation as rules
from quoracy.core.federated.aggregation import Aggregation, trimmed
from quoracy.learn.rules import order
from quoracy.learn.rules.bulyan import nearest_to_median

Vector = NDArray[np.float64]
few = settings(max_examples=40)


@contextmanager
def folder(width: int) -> Iterator[Path]:
    """A place for files, with slices of so many numbers."""
    with tempfile.TemporaryDirectory() as name, mock.patch("quoracy.learn.aggregate.width", return_value=width):
        yield Path(name)


class Case:
    """A model, some updates of it, and how wide slices are. ``exact``: eighths, whose sums and products have no
    rounding, with many ties; otherwise any numbers."""

    def __init__(self, draw: Any, least: int, exact: bool) -> None:
        self.shapes = draw(st.lists(st.lists(st.integers(0, 4), max_size=3).map(tuple), min_size=1, max_size=4))
        self.shapes.append((3,))
        size = sum(int(np.prod(shape)) for shape in self.shapes)
        self.width = draw(st.integers(1, 9))
        self.count = draw(st.integers(least, least + 8))
        eighths = st.integers(-16, 16).map(lambda n: n / 8)
        number = eighths if exact else st.floats(-100, 100, width=32)
        vector = st.lists(number, min_size=size, max_size=size).map(np.array)
        self.previous: Vector = draw(vector)
        self.updates: list[Vector] = [draw(vector) for _ in range(self.count)]
        self.samples: list[int] = draw(st.lists(st.integers(1, 1000), min_size=self.count, max_size=self.count))

    def made(self, place: Path, settings: Aggregation, state: Path | None = None) -> tuple[Vector, Path | None]:
        files = [
            update(place, f"p{number:02}", split(vector, self.shapes), samples)
            for number, (vector, samples) in enumerate(zip(self.updates, self.samples, strict=True))
        ]
        result = made(place, settings, files, split(self.previous, self.shapes), state)
        return joined(result.weights), result.state


def cases(least: int = 1, exact: bool = False) -> st.SearchStrategy[Case]:
    return st.composite(lambda draw: Case(draw, least, exact))()


@few
@given(cases())
def test_fedavg_is_the_mean_weighted_by_samples(case: Case) -> None:
    with folder(case.width) as place:
        merged, state = case.made(place, rules.FedAvg())
    assert np.allclose(merged, twins.fedavg(case.updates, case.samples), rtol=1e-6, atol=1e-5)
    assert state is None


@few
@given(cases(), st.floats(0, 10))
def test_fedprox_aggregates_as_fedavg(case: Case, mu: float) -> None:
    with folder(case.width) as place:
        assert np.array_equal(case.made(place, rules.FedProx(mu))[0], case.made(place, rules.FedAvg())[0])


@few
@given(cases())
def test_updates_that_agree_come_out_as_they_are(case: Case) -> None:
    case.updates = [case.updates[0]] * case.count
    with folder(case.width) as place:
        for settings in (rules.FedAvg(), rules.FedProx(), rules.Median(), rules.TrimmedMean(0.1)):
            assert np.array_equal(case.made(place, settings)[0], case.updates[0].astype(np.float32)), "exactly"


def rounds(case: Case, place: Path, settings: Aggregation, count: int) -> Vector:
    """So many rounds with the same updates, each with the state of the one before."""
    state: Path | None = None
    for _ in range(count):
        case.previous, state = case.made(place, settings, state)
        assert state is not None
    return case.previous


@few
@given(cases(), st.floats(0.1, 2), st.floats(0, 0.99), st.integers(1, 3))
def test_fedavgm_goes_on_from_what_it_kept(case: Case, lr: float, momentum: float, count: int) -> None:
    wanted = twins.fedavgm(case.previous, [(case.updates, case.samples)] * count, lr, momentum)
    with folder(case.width) as place:
        merged = rounds(case, place, rules.FedAvgM(lr, momentum), count)
    assert np.allclose(merged, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rule", [rules.FedAdam, rules.FedYogi, rules.FedAdagrad])
@few
@given(case=cases(), lr=st.floats(0.01, 1), beta1=st.floats(0, 0.99), tau=st.floats(1e-3, 0.1), count=st.integers(1, 3))
def test_the_adaptive_rules_are_algorithm_2(
    rule: Any, case: Case, lr: float, beta1: float, tau: float, count: int
) -> None:
    given = {"server_lr": lr, "beta1": beta1, "tau": tau}
    chosen = rule(**given)
    named = rule.__struct_config__.tag
    seen = given | {"beta2": getattr(chosen, "beta2", None)}
    wanted = twins.fedopt(case.previous, [(case.updates, case.samples)] * count, named, seen)
    with folder(case.width) as place:
        merged = rounds(case, place, chosen, count)
    assert np.allclose(merged, wanted, rtol=1e-3, atol=1e-3)


@few
@given(cases(exact=True))
def test_the_median_is_the_middle_of_every_number(case: Case) -> None:
    with folder(case.width) as place:
        assert np.array_equal(case.made(place, rules.Median())[0], twins.median(case.updates))


@few
@given(cases(least=3), st.one_of(st.floats(0, 0.49), st.just(1.0)))
def test_the_trimmed_mean_leaves_out_both_ends(case: Case, trim: float) -> None:
    with folder(case.width) as place:
        merged, _ = case.made(place, rules.TrimmedMean(trim))
    wanted = twins.trimmed_mean(case.updates, trimmed(trim, case.count))
    assert np.allclose(merged, wanted, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("f", [0, 1, 2])
@few
@given(data=st.data(), exact=st.booleans())
def test_krum_is_the_update_nearest_to_its_neighbours(data: st.DataObject, f: int, exact: bool) -> None:
    case = data.draw(cases(least=2 * f + 3, exact=exact))
    with folder(case.width) as place:
        merged, _ = case.made(place, rules.Krum(f))
    scores = np.array(twins.krum_scores(case.updates, f))
    chosen = [n for n, vector in enumerate(case.updates) if np.array_equal(merged, vector.astype(np.float32))]
    if exact:
        assert twins.krum(case.updates, f) in chosen
    else:
        assert min(scores[chosen]) <= scores.min() * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("f", [0, 1, 2])
@few
@given(data=st.data())
def test_multi_krum_is_the_mean_of_the_nearest(data: st.DataObject, f: int) -> None:
    case = data.draw(cases(least=2 * f + 3, exact=True))
    keep = data.draw(st.integers(0, case.count - f - 2))
    with folder(case.width) as place:
        merged, _ = case.made(place, rules.MultiKrum(f, keep))
    wanted = twins.multi_krum(case.updates, f, keep or case.count - f - 2)
    assert np.allclose(merged, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("f", [0, 1, 2])
@few
@given(data=st.data())
def test_bulyan_is_the_mean_nearest_to_the_median_of_those_krum_chose(data: st.DataObject, f: int) -> None:
    case = data.draw(cases(least=4 * f + 3, exact=True))
    with folder(case.width) as place:
        merged, _ = case.made(place, rules.Bulyan(f))
    assert np.allclose(merged, twins.bulyan(case.updates, f), rtol=1e-6, atol=1e-6)


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(st.lists(st.integers(-9, 9), min_size=n, max_size=n), st.integers(1, n))
    )
)
def test_the_window_around_the_median_is_the_nearest_set(case: tuple[list[int], int]) -> None:
    values, keep = case
    window = nearest_to_median([np.array([float(v)]) for v in sorted(values)], keep)
    assert sum(float(row[0]) for row in window) / keep == pytest.approx(
        twins._nearest([float(v) for v in values], keep)
    )


@pytest.mark.parametrize("count", [*range(1, 20), 33, order.NETWORK_ROWS, order.NETWORK_ROWS + 1, 100])
def test_rows_come_in_order_whatever_their_number(count: int) -> None:
    rows = np.random.default_rng(count).integers(-5, 5, (count, 50)).astype(np.float32)
    wanted = np.sort(rows, axis=0)
    for low, high in ((0, count), ((count - 1) // 2, count // 2 + 1), (count - 1, count)):
        assert np.array_equal(np.stack(order.in_order(rows.copy(), low, high)), wanted[low:high])


def test_zeros_of_both_signs_come_out_as_one() -> None:
    """Which of two equal zeros a processor takes for the smaller is its own affair: it must not show in the bytes."""
    for count in (4, order.NETWORK_ROWS + 1):
        rows = np.where(np.arange(count)[:, None] % 2, -0.0, 0.0).astype(np.float32).repeat(3, axis=1)
        assert not any(np.signbit(row).any() for row in order.in_order(rows, 0, count))


def test_a_network_compares_only_what_the_wanted_places_depend_on() -> None:
    whole = order.network(20, 0, 20)
    assert len(order.network(20, 9, 11)) < len(whole)
    assert all(smaller and larger for _, _, smaller, larger in whole)


def test_a_lie_far_away_does_not_blur_the_honest_distances(tmp_path: Path) -> None:
    """Its products are 1e30: beside them the distances of the others would be lost, were they added to anything."""
    honest = [np.array([1.0, 1.0, x]) for x in (0.0, 0.001, 0.0025, 0.0045, 0.007)]
    files = [update(tmp_path, f"p{n}", split(v, [(3,)])) for n, v in enumerate([*honest, np.full(3, 1e15)])]
    merged = joined(made(tmp_path, rules.Krum(1), files, split(np.zeros(3), [(3,)])).weights)
    scores = twins.krum_scores([v.astype(np.float32).astype(np.float64) for v in [*honest, np.full(3, 1e15)]], 1)
    assert np.array_equal(merged, honest[scores.index(min(scores))].astype(np.float32))
