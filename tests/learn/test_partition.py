"""However a set is cut: every sample is in one part, and the parts are as their name says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import ConfigError
from quoracy.learn import digits
from quoracy.learn.draws import fractions, order, raw
from quoracy.learn.partition import Classes, Iid, Volume, parse_partition, partitions, shares

EVEN = np.repeat(np.arange(10), 6_000)
"""As many of each class as Fashion-MNIST has."""
WAYS = ["iid", "classes:1", "classes:2", "classes:3", "classes:10", "volume:1", "volume:1.02", "volume:1.045"]


def digest(parts: list[npt.NDArray[Any]]) -> list[list[int]]:
    return [part.tolist() for part in parts]


# -- every way -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [EVEN, digits.labels("train")], ids=["even", "digits"])
@pytest.mark.parametrize("way", WAYS)
def test_every_sample_is_in_exactly_one_part(way: str, labels: npt.NDArray[np.int64]) -> None:
    parts = partitions(way, labels, 100, 7)
    assert len(parts) == 100
    assert min(map(len, parts)) > 0
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert all(np.all(np.diff(part) > 0) for part in parts)


@pytest.mark.parametrize("way", WAYS)
def test_the_seed_decides(way: str) -> None:
    labels = digits.labels("train")
    assert digest(partitions(way, labels, 20, 1)) == digest(partitions(way, labels, 20, 1))
    assert digest(partitions(way, labels, 20, 1)) != digest(partitions(way, labels, 20, 2))


def test_the_cut_is_the_same_for_ever() -> None:
    """Participants cut for themselves: with another version of numpy they must get the same."""
    labels = np.arange(12) % 3
    assert digest(partitions("iid", labels, 4, 5)) == [[0, 3, 5], [4, 6, 10], [2, 7, 9], [1, 8, 11]]
    assert digest(partitions("classes:2", labels, 3, 5)) == [[1, 6, 7, 9], [0, 3, 8, 11], [2, 4, 5, 10]]
    assert digest(partitions("volume:2", labels, 3, 5)) == [[0, 5], [3, 4, 6], [1, 2, 7, 8, 9, 10, 11]]


# -- one way each --------------------------------------------------------------------------------------------------


def test_iid_parts_are_equal_and_have_all_classes() -> None:
    parts = partitions("iid", EVEN, 100, 0)
    assert {len(part) for part in parts} == {600}
    assert all(np.bincount(EVEN[part], minlength=10).min() >= 25 for part in parts)
    assert sorted({len(part) for part in partitions("iid", np.zeros(103), 10, 0)}) == [10, 11]


@pytest.mark.parametrize("labels", [EVEN, digits.labels("train")], ids=["even", "digits"])
@pytest.mark.parametrize("per_part", [1, 2, 3, 9, 10])
def test_parts_have_as_many_classes_as_asked(per_part: int, labels: npt.NDArray[np.int64]) -> None:
    parts = partitions(Classes(per_part), labels, 100, 3)
    assert {len(np.unique(labels[part])) for part in parts} == {per_part}
    fair = len(labels) / 100
    assert all(0.6 * fair <= len(part) <= 1.4 * fair for part in parts)


def test_classes_meet_in_many_ways() -> None:
    parts = partitions("classes:2", EVEN, 100, 0)
    met = Counter(tuple(np.unique(EVEN[part]).tolist()) for part in parts)
    assert len(met) > 25  # of 45 pairs
    assert {len(part) for part in parts} == {600}


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    parts=st.integers(1, 12),
    per_part=st.integers(1, 6),
    seed=st.integers(0, 2**70),
)
def test_shards_are_dealt_or_the_reason_is_given(sizes: list[int], parts: int, per_part: int, seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    room = sum(min(parts, size) for size in sizes)
    if per_part <= len(sizes) <= parts * per_part <= room:
        cut = partitions(Classes(per_part), labels, parts, seed)
        assert {len(np.unique(labels[part])) for part in cut} == {per_part}
        assert sorted(np.concatenate(cut).tolist()) == list(range(len(labels)))
    else:
        with pytest.raises(ConfigError):
            partitions(Classes(per_part), labels, parts, seed)


def test_volumes_grow_by_the_factor() -> None:
    sizes = [len(part) for part in partitions("volume:1.02", EVEN, 100, 0)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (192, 1365)  # 60,000 * 0.02 / (1.02 ** 100 - 1), and that * 1.02 ** 99
    assert all(abs(sizes[i + 10] / sizes[i] - 1.02**10) < 0.02 for i in range(90))
    assert {len(part) for part in partitions("volume:1", EVEN, 100, 0)} == {600}


# -- names and errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("iid", Iid()), ("classes:2", Classes(2)), ("volume:1.02", Volume(1.02)), ("volume:3", Volume(3.0))],
)
def test_names_are_parsed(text: str, parsed: Iid | Classes | Volume) -> None:
    assert parse_partition(text) == parsed
    assert type(parse_partition(text)) is type(parsed)
    assert parse_partition(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    ["", "IID", "iid:1", "classes", "classes:", "classes:0", "classes:-1", "classes:1.5", "volume:0.9", "volume:nan",
     "volume:inf", "volume:1e3", "volume:", "volume:1.", " iid", "classes:2\n"],
)  # fmt: skip
def test_a_name_that_is_none_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(ConfigError, match=r"partition = .*classes:N") as caught:
        parse_partition(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("way", "parts", "said"),
    [
        ("classes:11", 10, "at most classes:10"),
        ("classes:2", 4, "at least classes:3, or 5 parts"),
        ("iid", 0, "from 1 to the number of samples, 1442"),
        ("iid", 1443, "from 1 to the number of samples, 1442"),
        ("volume:1.5", 100, "would get none of 1442 samples"),
        ("volume:999999999", 100, "would get none of 1442 samples"),
        ("classes:10", 1400, "14000 shards cannot be cut from 1442 samples"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_a_way_out(way: str, parts: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        partitions(way, digits.labels("train"), parts, 0)


def test_shares_add_up_and_go_to_the_largest_remainders() -> None:
    assert shares(10, [1, 1, 1]) == [4, 3, 3]
    assert shares(10, [1, 2, 4]) == [1, 3, 6]
    assert shares(0, [1, 2]) == [0, 0]


@given(total=st.integers(0, 10**6), weights=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=50))
def test_no_share_is_off_by_one_or_more(total: int, weights: list[float]) -> None:
    cut = shares(total, weights)
    assert sum(cut) == total
    assert all(abs(size - total * weight / sum(weights)) < 1 + 1e-6 for size, weight in zip(cut, weights, strict=True))


# -- draws ---------------------------------------------------------------------------------------------------------


def test_draws_are_the_same_for_ever() -> None:
    assert raw(2, 1, 0).tolist() == [9441442522235856127, 17532960557476522086]
    assert order(6, 1, 0).tolist() == [2, 4, 5, 0, 3, 1]
    assert fractions(2, 3, 0, 1).tolist() == [0.7243886590003967, 0.4103625416755676]


def test_fractions_are_even_and_below_one() -> None:
    drawn = fractions(20_000, 3, 1)
    assert drawn.dtype == np.float32
    assert 0 <= drawn.min() < 0.001
    assert 0.999 < drawn.max() < 1
    assert abs(float(drawn.mean()) - 0.5) < 0.01


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="seed = -1"):
        partitions("iid", EVEN, 10, -1)
