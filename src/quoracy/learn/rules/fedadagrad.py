"""FedAdagrad: v(t) = v(t-1) + d(t)^2. The rest is in ``adaptive``."""

from __future__ import annotations

from quoracy.learn.rules.adaptive import Adaptive
from quoracy.learn.rules.base import Row


class FedAdagrad(Adaptive):
    def rescale(self, scale: Row, square: Row) -> Row:
        return scale + square
