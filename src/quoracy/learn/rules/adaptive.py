"""What FedAdam, FedYogi and FedAdagrad share: Reddi et al. 2021, "Adaptive Federated Optimization", algorithm 2.

With d the step from the last model to the mean of the updates, weighted by samples as in the authors' experiments:

    m(t) = beta1 * m(t-1) + (1 - beta1) * d(t)
    v(t) = as the rule says, from v(t-1) and d(t)^2; v(-1) = tau^2, the smallest that the paper allows
    w(t+1) = w(t) + server_lr * m(t) / (sqrt(v(t)) + tau)

There is no bias correction: there is none in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quoracy.learn.rules.base import Row, Rule, Slice, moved, weighted_mean
from quoracy.learn.rules.whole import exact_weighted_mean


class Adaptive(Rule):
    keeps = ("mean", "scale")

    def __init__(self, server_lr: float, beta1: float, tau: float) -> None:
        self.server_lr = server_lr
        self.beta1 = beta1
        self.tau = tau

    def begins(self) -> Mapping[str, float]:
        return {"scale": self.tau**2}

    def rescale(self, scale: Row, square: Row) -> Row:
        """v(t) from v(t-1) and d(t)^2."""
        raise NotImplementedError

    def merge(self, piece: Slice) -> Row:
        step = weighted_mean(piece)
        step -= piece.previous
        mean = piece.state["mean"].astype("<f8")
        mean *= self.beta1
        mean += (1 - self.beta1) * step
        scale = self.rescale(piece.state["scale"].astype("<f8"), step * step)
        piece.state["mean"][:] = mean
        piece.state["scale"][:] = scale
        return moved(piece.previous, self.server_lr * mean / (np.sqrt(scale) + self.tau))

    def merge_whole(self, piece: Slice) -> Row:
        return exact_weighted_mean(piece)
