"""FedAvgM: Hsu et al. 2019, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", section 4.3. With d the step from the last model to the mean of the updates:

    v(t) = momentum * v(t-1) + d(t)
    w(t+1) = w(t) + server_lr * v(t)
"""

from __future__ import annotations

from quoracy.learn.rules.base import Row, Rule, Slice, moved, weighted_mean
from quoracy.learn.rules.whole import exact_weighted_mean


class FedAvgM(Rule):
    keeps = ("velocity",)

    def __init__(self, server_lr: float, momentum: float) -> None:
        self.server_lr = server_lr
        self.momentum = momentum

    def merge(self, piece: Slice) -> Row:
        step = weighted_mean(piece)
        step -= piece.previous
        velocity = piece.state["velocity"].astype("<f8")
        velocity *= self.momentum
        velocity += step
        piece.state["velocity"][:] = velocity
        velocity *= self.server_lr
        return moved(piece.previous, velocity)

    def merge_whole(self, piece: Slice) -> Row:
        return exact_weighted_mean(piece)
