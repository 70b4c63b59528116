"""Numbers for people: with few digits, and ticks at round ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from quoracy.plots.plot import Plot, unbroken

SMALLEST: Final = 1e-290
"""What is nearer to each other is drawn at one height: floats end soon after."""


def number(value: float) -> str:
    """Four digits that matter."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


class Axis(NamedTuple):
    """From ``low`` to ``high``, with ticks at round numbers in between."""

    low: float
    high: float
    ticks: list[float]
    labels: list[str]

    def share(self, value: float) -> float:
        """How far along, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def axis(values: Sequence[float], at_most: int, *, round_ends: bool = False) -> Axis:
    """For these values, with about ``at_most`` ticks: steps of 1, 2 or 5 times a power of ten. With ``round_ends`` the
    axis begins and ends at a tick."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if high - low <= max(1e-9 * max(abs(low), abs(high)), SMALLEST):
        room = 0.1 * abs(low) if abs(low) > 100 * SMALLEST else 1.0
        low, high = low - room, high + room
    rough = (high - low) / max(1, at_most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if round_ends:
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        low, high = first * step, last * step
    ticks = [at * step for at in range(first, last + 1)]
    written_out = max(abs(low), abs(high)) < 1e7
    return Axis(low, high, ticks, [_tick(tick, step, written_out) for tick in ticks])


def _tick(value: float, step: float, written_out: bool) -> str:
    """As many decimals as the step has."""
    power = math.floor(math.log10(step) + 1e-9)
    if written_out and power >= -5:
        return f"{value + 0.0:,.{max(0, -power)}f}"
    digits = 1 if value == 0 else math.floor(math.log10(abs(value)) + 1e-9) - power + 1
    return f"{value:.{min(max(1, digits), 17)}g}"


def axes(plot: Plot, across: int, up: int) -> tuple[Axis, Axis]:
    points = [point for series in plot.series for stretch in unbroken(series.points) for point in stretch]
    return axis([x for x, _ in points], across), axis([y for _, y in points], up, round_ends=True)
