"""Metrics made fit for the journal: numbers and arrays of any shape are kept, and what is not costs itself alone."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.codec import encode
from quoracy.core.federated.events import Array, UpdateOffered
from quoracy.core.federated.measured import fit, nested
from quoracy.doors.offers import TAG, fitted


def test_numbers_and_arrays_of_any_shape_are_kept() -> None:
    said = {
        "a": 1, "b": True, "c": [1, 2.5], "d": [[1, 2], [3, 4]], "e": {"shape": [2, 1, 2], "values": [1, 2, 3, 4]},
        "f": {"shape": [], "values": [7]}, "g": [], "h": Array((2, 2), [1.0, 2.0, 3.0, 4.0]), "i": ((1,), (2,)),
    }  # fmt: skip
    kept = fit(said, {"loss": [1, 0.5], "none": []})
    assert kept.warnings == []
    assert kept.metrics == {
        "a": 1.0, "b": 1.0, "c": [1.0, 2.5], "d": Array((2, 2), [1.0, 2.0, 3.0, 4.0]),
        "e": Array((2, 1, 2), [1.0, 2.0, 3.0, 4.0]), "f": 7.0, "g": [], "h": Array((2, 2), [1.0, 2.0, 3.0, 4.0]),
        "i": Array((2, 1), [1.0, 2.0]),
    }  # fmt: skip
    assert kept.history == {"loss": [1.0, 0.5], "none": []}
    assert [nested(kept.metrics[name]) for name in "adei"] == [
        1.0, [[1.0, 2.0], [3.0, 4.0]], [[[1.0, 2.0]], [[3.0, 4.0]]], [[1.0], [2.0]],
    ]  # fmt: skip


DEEP: Any = 1.0
for _ in range(9):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (float("nan"), "not a finite number"), (float("-inf"), "not a finite number"), (1e301, "not a finite number"),
        (10**400, "too large"), ("much", "'much' is no number"), (None, "is no number"), (b"1", "is no number"),
        ([1, float("nan")], "not a finite number"), ([1, [2]], "different lengths"),
        ([[1], [2, 3]], "different lengths"), (DEEP, "more than 8 axes"), ([0] * 257, "257 numbers"),
        ([[0] * 16] * 17, "bring it as an object"), ([[], []], "has no numbers"),
        ({"shape": [2], "values": [1]}, "not that of 1 values"),
        ({"shape": [2**40, 0], "values": []}, "has no numbers"), ({"shape": [-1], "values": [1]}, "not that of"),
        ({"shape": "2", "values": [1, 2]}, "a shape and values"), ({}, "a shape and values"),
        ({"shape": [1] * 9, "values": [1]}, "9 axes"), ({"shape": [True], "values": [1]}, "not that of"),
    ],
)  # fmt: skip
def test_a_bad_metric_costs_the_metric(bad: Any, why: str) -> None:
    kept = fit({"bad": bad, "good": 1.0}, {"loss": [1.0]})
    assert (kept.metrics, kept.history) == ({"good": 1.0}, {"loss": [1.0]})
    (warning,) = kept.warnings
    assert warning.startswith("metrics.bad is left out: ")
    assert why in warning


@pytest.mark.parametrize("bad", [1.0, [float("nan")], [[1.0]], [0.0] * 257, "x", None])
def test_a_bad_list_of_a_history_costs_that_list(bad: Any) -> None:
    kept = fit({}, {"bad": bad, "loss": [1.0]})
    assert kept.history == {"loss": [1.0]}
    assert kept.warnings[0].startswith("history.bad is left out: ")


def test_names_and_warnings_are_bounded() -> None:
    assert fit([], 7).warnings == [
        "metrics: list is no table of names and numbers, and is left out",
        "history: int is no table of names and numbers, and is left out",
    ]
    kept = fit({7: 1.0, "": 1.0, "n" * 65: 1.0, **{f"m{n}": 0.0 for n in range(60)}}, {}, ["x" * 1000])
    assert len(kept.metrics) == 32
    assert len(kept.warnings[0]) == 256
    assert (len(kept.warnings), kept.warnings[-1]) == (8, "and 25 more warnings")


plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
anything = st.recursive(
    plain | st.text(max_size=70) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=70), inner, max_size=5),
    max_leaves=20,
)


@given(anything, anything, anything, anything)
def test_whatever_comes_makes_an_event(metrics: Any, history: Any, digest: Any, warnings: Any) -> None:
    """Also what nobody would send: the update is taken in, and a second look finds nothing more."""
    said = [TAG, "p1", 1, 0, 1, 10, "0" * 64, 0, metrics, history, digest, warnings]
    made = msgspec.msgpack.decode(encode(fitted(said)))
    event = msgspec.convert(made, UpdateOffered)
    assert all(math.isfinite(number) for numbers in event.history.values() for number in numbers)
    assert msgspec.msgpack.decode(encode(fitted(made))) == made
