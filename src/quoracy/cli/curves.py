"""Curves in one line of text each: how fast a run goes, and what its training measures.

The history is asked for by its length and not by its beginning: the clocks of two machines are never compared.
"""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from quoracy.cli.asking import Talk, one_line, said
from quoracy.core.errors import Refused
from quoracy.plots import LEVELS as LEVELS
from quoracy.plots import number as number
from quoracy.plots import spark as spark

STEPS: Final = "steps_per_s"
METRIC: Final = "metric."
FAVOURITE: Final = "loss"
"""The metric to show if nobody says which, and if there is one."""
COLUMNS: Final = 60
"""Of a curve, at most."""
AGAIN_S: Final = 2.0
"""How often curves are asked for. They change slowly, and are longer than the page."""


class Curve(msgspec.Struct, frozen=True):
    """``buckets`` as the coordinator keeps them; the last ``span_s`` seconds before ``now_s``."""

    name: str
    called: str
    """What people call it."""
    buckets: list[dict[str, Any]]
    now_s: float
    span_s: float

    def means(self, columns: int) -> list[float | None]:
        """One number for each column, None where nothing is known. A bucket wider than a column fills several: it
        tells of its whole time."""
        sums, counts = [0.0] * columns, [0] * columns
        begin_s, column_s = self.now_s - self.span_s, self.span_s / columns
        for bucket in self.buckets:
            first = int((bucket["start_s"] - begin_s) // column_s)
            last = int((min(bucket["start_s"] + bucket["width_s"], self.now_s) - begin_s - 1e-6) // column_s)
            for column in range(max(0, first), min(columns - 1, max(first, last)) + 1):
                sums[column] += bucket["total"]
                counts[column] += bucket["count"]
        return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def curve_table(curves: list[Curve], width: int) -> Table | None:
    """A line for each curve that has something to tell: the curve, where it stands, between what it moved."""
    wide = width >= 100
    columns = max(8, min(COLUMNS, width - (62 if wide else 44)))
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2 if wide else 1, 0, 0))
    table.add_column(style="dim", no_wrap=True, overflow="ellipsis", max_width=20 if wide else 12)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", no_wrap=True, overflow="ellipsis")
    rows = 0
    for curve, color in zip(curves, ("cyan", "magenta"), strict=False):
        means = curve.means(columns)
        if not any(mean is not None for mean in means):
            continue
        newest = curve.buckets[-1]["total"] / curve.buckets[-1]["count"]
        low = min(bucket["low"] for bucket in curve.buckets)
        high = max(bucket["high"] for bucket in curve.buckets)
        between = f"{number(low)} to {number(high)}" + (f" in {said(curve.span_s)}" if wide else "")
        table.add_row(one_line(curve.called), Text(spark(means), style=color), number(newest), between)
        rows += 1
    return table if rows else None


class Curves:
    """The curves of one run, asked for now and then. ``metric``: which one beside the speed; "" for the favourite."""

    def __init__(self, talk: Talk, run: str, metric: str, span_s: float) -> None:
        self._talk = talk
        self._run = run
        self._metric = metric
        self._span_s = span_s
        self._asked_s = -AGAIN_S
        self.known: list[Curve] = []

    def look(self) -> list[Curve]:
        """Raises what ``ask`` raises, but for a coordinator that keeps no history: then there are no curves."""
        now = time.monotonic()
        if now - self._asked_s >= AGAIN_S:
            self._asked_s = now
            try:
                self.known = self._ask()
            except Refused as error:
                if error.code not in ("malformed", "unknown_run"):
                    raise
                self.known = []
        return self.known

    def _ask(self) -> list[Curve]:
        names = [
            series["name"] for series in self._talk.ask("series-names", self._run)["series"] if not series["subject"]
        ]
        metrics = [name.removeprefix(METRIC) for name in names if name.startswith(METRIC)]
        wanted = [(STEPS, "steps/s")] if STEPS in names else []
        if metric := pick_metric(metrics, self._metric):
            wanted.append((METRIC + metric, metric))
        return [self._one(name, called) for name, called in wanted]

    def _one(self, name: str, called: str) -> Curve:
        told = self._talk.ask("series", self._run, name=name, last_s=self._span_s, max_points=4 * COLUMNS)
        return Curve(name, called, told["buckets"], told["now_s"], self._span_s)


def pick_metric(metrics: list[str], wanted: str) -> str:
    """The one that is wanted; else the favourite, or one that is called like it, or the first."""
    if wanted:
        return wanted if wanted in metrics else ""
    if FAVOURITE in metrics:
        return FAVOURITE
    alike = sorted(name for name in metrics if FAVOURITE in name.lower())
    return next(iter([*alike, *sorted(metrics)]), "")
