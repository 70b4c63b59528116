"""Multi-Krum: Blanchard et al. 2017, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", section
5: the mean of the updates with the lowest scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quoracy.learn.rules.base import CannotAggregate, Row, Rule, Slice, as_agreed, mean
from quoracy.learn.rules.distances import Distances, scores
from quoracy.learn.rules.whole import exact_mean


class MultiKrum(Rule):
    surveys = True

    def __init__(self, byzantine: int, keep: int) -> None:
        self.byzantine = byzantine
        self.keep = keep
        self._distances = Distances()

    def survey(self, piece: Slice) -> None:
        self._distances.add(piece)

    def decide(self) -> Sequence[int]:
        squared = self._distances.squared()
        count, f = len(squared), self.byzantine
        if count < 2 * f + 3:
            raise CannotAggregate(f"against {f} lies Krum needs 2 * {f} + 3 = {2 * f + 3} updates, there are {count}")
        keep = self.keep or count - f - 2
        if keep > count - f - 2:
            raise CannotAggregate(
                f"of {count} updates at most {count} - {f} - 2 = {count - f - 2} are kept, not {keep}"
            )
        best = np.argsort(scores(squared, f), kind="stable")[:keep]
        return sorted(int(place) for place in best)

    def merge(self, piece: Slice) -> Row:
        return as_agreed(piece, mean(piece.views))

    def merge_whole(self, piece: Slice) -> Row:
        return exact_mean(piece.views)
