"""The mean of whole numbers of up to 64 bits, exactly: rounded once, at the end, and halves to the even one.

Counters, tables and seeds have no room for an error in the last place. Float64 holds no more than 53 bits, and the
products with the numbers of samples need up to 128. So the differences to the smallest are weighted: they fit into 64
bits wherever the updates are anywhere near each other, and where they do not, Python's own integers have no end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quoracy.learn.rules.base import CannotAggregate, Slice

Wholes = NDArray[Any]
ROOM: Final = 2**63
"""Sums below this do not overflow."""


def exact_mean(rows: Sequence[Wholes], weights: Sequence[int] | None = None) -> Wholes:
    """Of int64 or uint64, number by number. ``weights``: how often each row counts; else once."""
    shares = [1] * len(rows) if weights is None else list(weights)
    count = sum(shares)
    if count <= 0:
        raise CannotAggregate("the updates were trained on 0 samples in all: there is nothing to weight them by")
    low, high = _bounds(rows)
    small = max(int(apart(high, low).max()), 1) * count < ROOM
    whole: type[Any] = np.uint64 if small else int
    total: Wholes = np.zeros(len(low), np.uint64 if small else object)
    for row, share in zip(rows, shares, strict=True):
        total += apart(row, low).astype(total.dtype) * whole(share)
    return _rounded(low, total, whole(count))


def exact_weighted_mean(piece: Slice) -> Wholes:
    """By samples."""
    return exact_mean(piece.views, [int(samples) for samples in piece.weights])


def apart(upper: Wholes, lower: Wholes) -> Wholes:
    """How far, where ``upper`` is not the smaller one. The difference of two numbers of 64 bits has 64 bits and no
    sign."""
    return np.subtract(upper.view(np.uint64), lower.view(np.uint64))


def _bounds(rows: Sequence[Wholes]) -> tuple[Wholes, Wholes]:
    low, high = rows[0].copy(), rows[0].copy()
    for row in rows[1:]:
        np.minimum(low, row, out=low)
        np.maximum(high, row, out=high)
    return low, high


def _rounded(low: Wholes, total: Wholes, count: Any) -> Wholes:
    """``low + total / count``: never above the largest of the rows, so that nothing overflows."""
    mean: Wholes = low.view(np.uint64) + (total // count).astype(np.uint64)
    twice = total % count * type(count)(2)
    up = (twice > count) | ((twice == count) & (mean % np.uint64(2) == 1))
    mean += up.astype(np.uint64)
    return mean.view(low.dtype)
