"""Coordinate-wise median: Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
definition 1. Of an even number of updates it is the mean of the two in the middle."""

from __future__ import annotations

from quoracy.learn.rules.base import Row, Rule, Slice, as_agreed, mean
from quoracy.learn.rules.order import in_order
from quoracy.learn.rules.whole import exact_mean


class Median(Rule):
    def merge(self, piece: Slice) -> Row:
        middle = _middle(piece)
        return as_agreed(piece, middle[0] if len(middle) == 1 else mean(middle))

    def merge_whole(self, piece: Slice) -> Row:
        return exact_mean(_middle(piece))


def _middle(piece: Slice) -> list[Row]:
    return in_order(piece.rows, (len(piece.rows) - 1) // 2, len(piece.rows) // 2 + 1)
