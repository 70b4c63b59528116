"""What a participant measured, made fit for the journal: a bad metric costs the metric and a warning, never the update
that it came with.

Metrics are numbers or arrays of any shape. What is small is in the offer; what is large is an object that the
participant has brought, and the offer has its digest. Here is what can be said without looking into one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from quoracy.core.federated.events import (
    MAX_AXES,
    MAX_METRICS,
    MAX_NAME,
    MAX_NUMBERS,
    MAX_REASON,
    MAX_WARNINGS,
    Array,
    History,
    Metric,
    Metrics,
)

MOST: Final = 1e300
SHOWN: Final = 60
"""Characters of a bad name or value that a warning repeats."""


class Fit(msgspec.Struct, frozen=True):
    """What is left, and what is not."""

    metrics: Metrics
    history: History
    warnings: list[str]


class BadMetric(Exception):
    """Why it cannot be kept. Caught here, always."""


def fit(metrics: Any, history: Any, told: Iterable[Any] = ()) -> Fit:
    """``told``: warnings that the sender has itself."""
    warnings = [str(one) for one in told]
    kept = dict(_each("metrics", metrics, _metric, warnings))
    lists = dict(_each("history", history, _epochs, warnings))
    return Fit(kept, lists, few_warnings(warnings))


def few_warnings(warnings: list[str]) -> list[str]:
    """As many, and as long, as an event has room for."""
    short = [one if len(one) <= MAX_REASON else one[: MAX_REASON - 1] + "…" for one in warnings]
    if len(short) <= MAX_WARNINGS:
        return short
    return [*short[: MAX_WARNINGS - 1], f"and {len(short) - MAX_WARNINGS + 1} more warnings"]


def nested(value: Metric) -> Any:
    """For people and JSON: an array as lists in lists."""
    if not isinstance(value, Array):
        return value
    rows: list[Any] = value.values
    for size in reversed(value.shape[1:]):
        rows = [rows[at : at + size] for at in range(0, len(rows), size)]
    return rows


def shape_of(value: Metric) -> tuple[int, ...]:
    if isinstance(value, Array):
        return value.shape
    return (len(value),) if isinstance(value, list) else ()


def numbers_of(value: Metric) -> list[float]:
    if isinstance(value, Array):
        return value.values
    return value if isinstance(value, list) else [value]


def shaped(shape: tuple[int, ...], numbers: list[float]) -> Metric:
    """The plainest form: a number, a list, or an array."""
    if not shape:
        return numbers[0]
    return numbers if len(shape) == 1 else Array(shape, numbers)


def _each(what: str, given: Any, read: Any, warnings: list[str]) -> Iterable[tuple[str, Any]]:
    if not isinstance(given, Mapping):
        if given is not None:
            warnings.append(f"{what}: {type(given).__name__} is no table of names and numbers, and is left out")
        return
    kept = 0
    for name, value in given.items():
        try:
            if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
                raise BadMetric(f"a name has 1 to {MAX_NAME} characters")
            if kept >= MAX_METRICS:
                raise BadMetric(f"at most {MAX_METRICS} names are kept")
            found = read(value)
        except BadMetric as error:
            warnings.append(f"{what}.{str(name)[:SHOWN]} is left out: {error}")
            continue
        kept += 1
        yield name, found


def _metric(value: Any) -> Metric:
    if isinstance(value, Array):
        value = {"shape": list(value.shape), "values": value.values}
    if isinstance(value, Mapping):
        shape, flat = value.get("shape"), value.get("values")
        if not isinstance(shape, list | tuple) or not isinstance(flat, list | tuple):
            raise BadMetric("an array has a shape and values")
        if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(flat):
            raise BadMetric(f"the shape {str(list(shape))[:SHOWN]} is not that of {len(flat)} values")
        return _checked(tuple(shape), list(flat))
    if isinstance(value, list | tuple):
        flat = []
        return _checked(_flattened(value, flat, 1), flat)
    return _number(value)


def _checked(shape: tuple[int, ...], flat: list[Any]) -> Metric:
    if len(shape) > MAX_AXES:
        raise BadMetric(f"it has {len(shape)} axes, at most {MAX_AXES} are kept")
    if len(shape) > 1 and not flat:
        raise BadMetric("it has no numbers")
    if len(flat) > MAX_NUMBERS:
        fix = "bring it as an object (metrics_digest)"
        raise BadMetric(f"it has {len(flat)} numbers, and an offer has room for {MAX_NUMBERS}: {fix}")
    return shaped(shape, [_number(value) for value in flat])


def _flattened(rows: Any, flat: list[Any], depth: int) -> tuple[int, ...]:
    """The shape of lists in lists, whose numbers are added to ``flat``."""
    if depth > MAX_AXES:
        raise BadMetric(f"it has more than {MAX_AXES} axes")
    inner: set[tuple[int, ...]] = set()
    for row in rows:
        if isinstance(row, list | tuple):
            inner.add(_flattened(row, flat, depth + 1))
        else:
            inner.add(())
            flat.append(row)
    if len(inner) > 1:
        raise BadMetric("its rows have different lengths")
    return (len(rows), *(inner.pop() if inner else ()))


def _epochs(value: Any) -> list[float]:
    if not isinstance(value, list | tuple):
        raise BadMetric(f"{type(value).__name__} is no list of numbers, one for each epoch")
    if len(value) > MAX_NUMBERS:
        raise BadMetric(f"it has {len(value)} numbers, at most {MAX_NUMBERS} are kept")
    return [_number(number) for number in value]


def _number(value: Any) -> float:
    if not isinstance(value, float | int):
        raise BadMetric(f"{str(value)[:SHOWN]!r} is no number")
    try:
        number = float(value)
    except OverflowError:
        raise BadMetric(f"{str(value)[:SHOWN]} is too large") from None
    if not math.isfinite(number) or abs(number) > MOST:
        raise BadMetric(f"{number} is not a finite number of at most {MOST:g}")
    return number
