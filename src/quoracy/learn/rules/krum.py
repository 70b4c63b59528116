"""Krum: Blanchard et al. 2017, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", section 3. The
update with the lowest score, as it is."""

from __future__ import annotations

from quoracy.learn.rules.multi_krum import MultiKrum


class Krum(MultiKrum):
    def __init__(self, byzantine: int) -> None:
        super().__init__(byzantine, keep=1)
