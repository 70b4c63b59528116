"""Coordinate-wise trimmed mean: Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates", definition 2: of every number the mean without the largest and the smallest."""

from __future__ import annotations

from quoracy.core.federated.aggregation import trimmed
from quoracy.learn.rules.base import CannotAggregate, Row, Rule, Slice, as_agreed, mean
from quoracy.learn.rules.order import in_order
from quoracy.learn.rules.whole import exact_mean


class TrimmedMean(Rule):
    def __init__(self, trim: float) -> None:
        self.trim = trim

    def merge(self, piece: Slice) -> Row:
        return as_agreed(piece, mean(self._kept(piece)))

    def merge_whole(self, piece: Slice) -> Row:
        return exact_mean(self._kept(piece))

    def _kept(self, piece: Slice) -> list[Row]:
        count = len(piece.rows)
        out = trimmed(self.trim, count)
        if 2 * out >= count:
            raise CannotAggregate(f"leaving out {out} on each side leaves none of {count} updates")
        return in_order(piece.rows, out, count - out)
