"""FedAdam: v(t) = beta2 * v(t-1) + (1 - beta2) * d(t)^2. The rest is in ``adaptive``."""

from __future__ import annotations

from quoracy.learn.rules.adaptive import Adaptive
from quoracy.learn.rules.base import Row


class FedAdam(Adaptive):
    def __init__(self, server_lr: float, beta1: float, beta2: float, tau: float) -> None:
        super().__init__(server_lr, beta1, tau)
        self.beta2 = beta2

    def rescale(self, scale: Row, square: Row) -> Row:
        return self.beta2 * scale + (1 - self.beta2) * square
