"""Rows put in order, number by number: what a median or a trimmed mean of many updates needs.

A few dozen rows are sorted by a network: a fixed sequence of compare and exchange, each for all numbers of two rows at
once, which is one instruction for sixteen of them. It is Batcher's merge exchange (Knuth, volume 3, 5.2.2, algorithm
M), without the comparisons that no wanted place depends on. With many rows, sorting each column by itself takes less.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from quoracy.learn.rules.base import Row, Rows

NETWORK_ROWS: Final = 40
"""Above this the columns are sorted one by one."""


def in_order(rows: Rows, low: int, high: int) -> list[Row]:
    """Rows ``low`` to ``high - 1`` of the rows with every column sorted. The rows given are used up."""
    # Zero has two signs, equal in every comparison: which one comes out would depend on the processor.
    if rows.dtype.kind == "f":
        np.add(rows, 0.0, out=rows)
    if len(rows) > NETWORK_ROWS:
        columns = np.ascontiguousarray(rows.T)
        columns.sort(axis=1)
        return list(np.ascontiguousarray(columns[:, low:high].T))
    places = list(rows)
    spare = np.empty_like(rows[0])
    for upper, lower, smaller, larger in network(len(rows), low, high):
        one, other = places[upper], places[lower]
        if smaller and larger:
            np.minimum(one, other, out=spare)
            np.maximum(one, other, out=other)
            places[upper], spare = spare, one
        elif smaller:
            np.minimum(one, other, out=one)
        else:
            np.maximum(one, other, out=other)
    return places[low:high]


@cache
def network(count: int, low: int, high: int) -> tuple[tuple[int, int, bool, bool], ...]:
    """Comparisons in their order: two places, and whether the smaller and the larger are needed by what follows."""
    needed = set(range(low, high))
    kept = []
    for upper, lower in reversed(_merge_exchange(count)):
        smaller, larger = upper in needed, lower in needed
        if smaller or larger:
            kept.append((upper, lower, smaller, larger))
            needed |= {upper, lower}
    return tuple(reversed(kept))


def _merge_exchange(count: int) -> list[tuple[int, int]]:
    pairs = []
    top = 1 << max(count - 1, 0).bit_length() >> 1
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            pairs += [(i, i + d) for i in range(count - d) if i & p == r]
            if q == p:
                break
            q, r, d = q >> 1, p, q - p
        p >>= 1
    return pairs
