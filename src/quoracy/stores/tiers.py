"""The arithmetic of series: which bucket a number belongs into, how two become one, which tier answers a question.

Pure, so that a dictionary and a file cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import floor, isfinite
from typing import Final

import msgspec

from quoracy.ports.series import MAX_AT_S, MAX_SERIES_NAME_BYTES, MAX_VALUE, Bucket, Key, Point, Tier
from quoracy.stores.limits import bounded, run_name

MAX_POINTS: Final = 100_000


class Sum(msgspec.Struct, frozen=True):
    """What is kept of the numbers of one bucket. ``at_s`` is the time of ``last``."""

    count: int
    low: float
    high: float
    total: float
    last: float
    at_s: float

    def plus(self, later: Sum) -> Sum:
        """Both together. ``later`` was written later, whatever its time says."""
        newest = later if later.at_s >= self.at_s else self
        return Sum(
            self.count + later.count,
            min(self.low, later.low),
            max(self.high, later.high),
            self.total + later.total,
            newest.last,
            newest.at_s,
        )

    def bucket(self, start_s: int, width_s: int) -> Bucket:
        return Bucket(start_s, width_s, self.count, self.low, self.high, self.total, self.last)


def key_of(point: Point) -> Key:
    return Key(point.run, point.name, point.subject)


def sum_of(point: Point) -> Sum:
    value = float(point.value)
    low = value if point.low is None else float(point.low)
    high = value if point.high is None else float(point.high)
    return Sum(point.count, low, high, value * point.count, value, float(point.at_s))


def check_points(points: Iterable[Point]) -> None:
    for point in points:
        called = f"series {point.name!r} of {point.subject or 'the run'!r} in run {point.run!r}"
        run_name(point.run)
        bounded(point.name.encode(), 1, MAX_SERIES_NAME_BYTES, "a series' name")
        bounded(point.subject.encode(), 0, MAX_SERIES_NAME_BYTES, "a series' subject")
        for field, value in (("value", point.value), ("low", point.low), ("high", point.high)):
            if value is not None and not abs(value) <= MAX_VALUE:
                raise ValueError(f"{called}: {field} = {value}: write finite numbers up to {MAX_VALUE:g} only")
        if not 0.0 <= point.at_s <= MAX_AT_S:
            raise ValueError(f"{called}: at_s = {point.at_s}: write seconds since 1970")
        if not 1 <= point.count <= 10**9:
            raise ValueError(f"{called}: count = {point.count}: how many numbers it stands for, from 1 on")


def check_tiers(tiers: Sequence[Tier]) -> tuple[Tier, ...]:
    """Each must be made of whole buckets of the one before, and reach back further."""
    if not tiers:
        raise ValueError("tiers = (): at least one is needed")
    for tier in tiers:
        if tier.width_s < 1 or tier.keep_s < tier.width_s:
            raise ValueError(f"tiers: {tier} must keep at least one bucket of at least a second")
    for fine, coarse in pairwise(tiers):
        if coarse.width_s % fine.width_s or coarse.width_s == fine.width_s or coarse.keep_s < fine.keep_s:
            raise ValueError(f"tiers: {coarse} must be a multiple of {fine} and keep longer")
    return tuple(tiers)


def start_of(at_s: float, width_s: int) -> int:
    return floor(at_s) // width_s * width_s


def check_span(since_s: float, until_s: float, max_points: int) -> None:
    if not (isfinite(since_s) and isfinite(until_s)):
        raise ValueError(f"since_s = {since_s}, until_s = {until_s}: ask for a span between two times")
    if not 1 <= max_points <= MAX_POINTS:
        raise ValueError(f"max_points = {max_points}: ask for 1 to {MAX_POINTS}")


def pick(
    tiers: Sequence[Tier], since_s: float, until_s: float, max_points: int, oldest_of: Callable[[int], int | None]
) -> int:
    """The index of the tier that answers. ``oldest_of(index)``: where the oldest bucket of that tier begins.

    A finer tier reaches back less far. It is good enough unless a coarser one has a whole bucket within the span that
    lies before it."""
    best = len(tiers) - 1
    for index in reversed(range(len(tiers))):
        width_s = tiers[index].width_s
        if (start_of(until_s, width_s) - start_of(since_s, width_s)) // width_s + 1 > max_points:
            break
        begins_s = oldest_of(index)
        coarser = ((tier.width_s, oldest_of(i)) for i, tier in enumerate(tiers[index + 1 :], index + 1))
        if begins_s is None or any(
            older_s is not None and max(start_of(since_s, wide_s), older_s) + wide_s <= begins_s
            for wide_s, older_s in coarser
        ):
            break
        best = index
    return best


def coarsen(
    found: Iterable[tuple[int, Sum]], width_s: int, since_s: float, until_s: float, max_points: int
) -> list[Bucket]:
    """The buckets of one tier, oldest first; several made into one if there would be too many."""
    while (start_of(until_s, width_s) - start_of(since_s, width_s)) // width_s + 1 > max_points:
        width_s *= 2
    merged: dict[int, Sum] = {}
    for start_s, held in found:
        start_s = start_of(start_s, width_s)
        merged[start_s] = merged[start_s].plus(held) if start_s in merged else held
    return [held.bucket(start_s, width_s) for start_s, held in merged.items()]
