"""Axes: everything is on them, ticks are round and told apart, and no number breaks them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.plots.plot import Series, clean, cut, end_of, unbroken, wide
from quoracy.plots.scale import axis, number

ANY = st.floats(-1e300, 1e300)


@pytest.mark.parametrize(
    ("values", "at_most", "labels"),
    [
        ([0.1, 0.93], 5, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ([1, 50], 5, ["0", "10", "20", "30", "40", "50"]),
        ([0.9712, 0.9788], 4, ["0.970", "0.972", "0.974", "0.976", "0.978", "0.980"]),
        ([0, 123_456], 3, ["0", "50,000", "100,000", "150,000"]),
        ([-3, 4], 4, ["-4", "-2", "0", "2", "4"]),
        ([0, 1.7e7], 4, ["0", "5e+06", "1e+07", "1.5e+07", "2e+07"]),
        ([0, 3e9], 3, ["0", "1e+09", "2e+09", "3e+09"]),
        ([1e9, 1e9 + 2], 2, ["1000000000", "1000000001", "1000000002"]),
        ([0, 3e-7], 3, ["0", "1e-07", "2e-07", "3e-07"]),
        ([7, 7], 4, ["6.0", "6.5", "7.0", "7.5", "8.0"]),
        ([0, 0], 2, ["-1", "0", "1"]),
        ([], 2, ["0.0", "0.5", "1.0"]),
    ],
)
def test_ticks_are_round(values: list[float], at_most: int, labels: list[str]) -> None:
    assert axis(values, at_most, round_ends=True).labels == labels


def test_an_axis_ends_where_the_values_end_unless_asked_otherwise() -> None:
    shown = axis([1, 47], 5)
    assert (shown.low, shown.high) == (1, 47)
    assert shown.labels == ["10", "20", "30", "40"]
    assert (shown.share(1), shown.share(47)) == (0.0, 1.0)


@given(values=st.lists(ANY, max_size=6), at_most=st.integers(1, 12), round_ends=st.booleans())
def test_everything_is_on_the_axis_and_no_tick_is_named_twice(
    values: list[float], at_most: int, round_ends: bool
) -> None:
    shown = axis(values, at_most, round_ends=round_ends)
    assert shown.high > shown.low
    assert all(-1e-6 <= shown.share(value) <= 1 + 1e-6 for value in [*values, *shown.ticks])
    assert len(shown.ticks) <= at_most + 3
    assert len(set(shown.labels)) == len(shown.labels)
    if round_ends:
        assert len(shown.ticks) >= 2


@pytest.mark.parametrize("value", [5e-324, 1e-300, -1e-300, 1e300, -1e300])
def test_the_ends_of_what_a_float_can_be_are_drawn(value: float) -> None:
    for values in ([value], [0.0, value], [value, -value]):
        shown = axis(values, 5, round_ends=True)
        assert all(0 <= shown.share(each) <= 1 for each in values)


def test_what_is_no_number_is_a_gap() -> None:
    points = [(0, math.nan), (1, 1.0), (2, 2.0), (3, math.inf), (4, -math.inf), (5, 5.0), (math.nan, 6.0), (7, 1e301)]
    assert unbroken(points) == [[(1, 1.0), (2, 2.0)], [(5, 5.0)]]
    assert end_of(Series("a", points)) == (5, 5.0)
    assert end_of(Series("a", [(0, math.nan)])) is None


def test_names_are_one_line_that_no_terminal_obeys() -> None:
    assert clean("a\n b\t\x1b[31mc\u202e\0\ud800") == "a b �[31mc���"
    assert cut("a rather long name", 8) == "a rathe…"
    assert cut("名前名前", 5) == "名前…"
    assert wide(cut("名前名前", 4)) <= 4
    assert cut("short", 5) == "short"


def test_numbers_have_a_few_digits() -> None:
    assert [number(value) for value in (0.878912, 12_345.6, 3, 1e12)] == ["0.8789", "12,346", "3", "1e+12"]
