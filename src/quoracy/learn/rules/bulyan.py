"""Bulyan: El Mhamdi et al. 2018, "The Hidden Vulnerability of Distributed Learning in Byzantium", section 4.

Of n updates, f of them lies, Krum chooses one after the other until n - 2f are chosen. Then every number is the mean of
the n - 4f chosen ones nearest to their median. The median is one of them, the lower of two in the middle; of two
equally near the smaller counts, since the paper leaves both open.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quoracy.learn.rules.base import CannotAggregate, Row, Rule, Slice, as_agreed, mean
from quoracy.learn.rules.distances import Distances, Matrix, scores
from quoracy.learn.rules.order import in_order
from quoracy.learn.rules.whole import apart, exact_mean


class Bulyan(Rule):
    surveys = True

    def __init__(self, byzantine: int) -> None:
        self.byzantine = byzantine
        self._distances = Distances()

    def survey(self, piece: Slice) -> None:
        self._distances.add(piece)

    def decide(self) -> Sequence[int]:
        squared = self._distances.squared()
        count, f = len(squared), self.byzantine
        if count < 4 * f + 3:
            raise CannotAggregate(f"against {f} lies Bulyan needs 4 * {f} + 3 = {4 * f + 3} updates, there are {count}")
        return sorted(choose(squared, f, count - 2 * f))

    def merge(self, piece: Slice) -> Row:
        return as_agreed(piece, mean(self._nearest(piece)))

    def merge_whole(self, piece: Slice) -> Row:
        return exact_mean(self._nearest(piece))

    def _nearest(self, piece: Slice) -> list[Row]:
        ordered = in_order(piece.rows, 0, len(piece.rows))
        return nearest_to_median(ordered, len(ordered) - 2 * self.byzantine)


def choose(squared: Matrix, byzantine: int, wanted: int) -> list[int]:
    """Krum's choice, again and again among those that are left."""
    left = list(range(len(squared)))
    chosen: list[int] = []
    while len(chosen) < wanted:
        best = int(np.argmin(scores(squared[np.ix_(left, left)], byzantine)))
        chosen.append(left.pop(best))
    return chosen


def nearest_to_median(ordered: list[Row], keep: int) -> list[Row]:
    """Of rows in order, ``keep`` per column nearest to the median.

    In order they are neighbours, so it is a window that begins at the lowest row and moves up by one for as long as
    what comes in is nearer than what goes out. What comes in takes the place of what goes out: they are ``keep``
    apart."""
    median = ordered[(len(ordered) - 1) // 2]
    distance = apart if median.dtype.kind in "iu" else np.subtract
    window = ordered[:keep]
    for place in range(len(ordered) - keep):
        out, comes = ordered[place], ordered[place + keep]
        nearer = distance(comes, median) < distance(median, out)
        window[place % keep] = np.where(nearer, comes, window[place % keep])
    return window
