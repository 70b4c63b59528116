"""Curves as text: one in a line, or several with axes.

rich colours them when it prints to a terminal. Without colours, in a file or a pipe, each curve has a mark of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from quoracy.plots.plot import Plot, cut, end_of, unbroken, wide
from quoracy.plots.scale import Axis, axes, number

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

LEVELS: Final = "▁▂▃▄▅▆▇█"
COLORS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red")
"""Over and over."""
MARKS: Final = "●○×+◆◇■□"
DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of a braille letter, by row and column."""
HEIGHT: Final = 16
"""Lines of the curves alone."""

Span = tuple[str, str]
"""Text, and the style rich would give it."""


def spark(values: Sequence[float | None]) -> str:
    """A curve in one line. The lowest is the lowest block, the highest the highest. One that never changes is drawn in
    the middle."""
    known = [value for value in values if value is not None]
    if not known:
        return " " * len(values)
    low, high = min(known), max(known)
    drawn = []
    for value in values:
        if value is None:
            drawn.append(" ")
        elif high == low:
            drawn.append(LEVELS[3])
        else:
            drawn.append(LEVELS[min(len(LEVELS) - 1, int((value - low) / (high - low) * len(LEVELS)))])
    return "".join(drawn)


def text(plot: Plot, width: int = 80, height: int = HEIGHT) -> str:
    """Lines without colours, none wider than ``width``; ``height`` of them for the curves themselves."""
    marked = len(plot.series) > 1
    return "\n".join("".join(said for said, _ in line).rstrip() for line in lines(plot, width, height, marked))


class Drawing:
    """A plot for rich to print, as wide as there is room. rich is imported when it asks, not before."""

    def __init__(self, plot: Plot, height: int = HEIGHT) -> None:
        self.plot = plot
        self.height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        colored = console.is_terminal and not console.no_color and console.color_system is not None
        marked = len(self.plot.series) > 1 and not colored
        for line in lines(self.plot, options.max_width, self.height, marked):
            yield Text.assemble(*line, no_wrap=True, overflow="crop")


def lines(plot: Plot, width: int, height: int, marked: bool) -> list[list[Span]]:
    """``marked``: each series has its own mark; otherwise finer dots, for colours to tell apart."""
    x_axis, y_axis = axes(plot, max(2, width // 11), max(2, height // 4))
    gutter = max(map(len, y_axis.labels))
    columns = max(4, width - gutter - 2)
    canvas = _canvas(plot, x_axis, y_axis, columns, height, marked)
    at_row = {
        height - 1 - round(y_axis.share(tick) * (height - 1)): label
        for tick, label in zip(y_axis.ticks, y_axis.labels, strict=True)
    }
    drawn: list[list[Span]] = [[(cut(plot.title, width), "bold")]] if plot.title else []
    if plot.y_label:
        drawn.append([(cut(plot.y_label, width), "dim")])
    for row, cells in enumerate(canvas):
        label = at_row.get(row, "")
        drawn.append([(f"{label:>{gutter}} {'┤' if label else '│'}", "dim"), *cells])
    drawn += [[(below, "dim")] for below in _foot(x_axis, gutter, columns)]
    if plot.x_label:
        said = cut(plot.x_label, columns)
        drawn.append([(" " * (gutter + 2 + (columns - wide(said)) // 2) + said, "dim")])
    return drawn + _legend(plot, width, marked)


def _canvas(plot: Plot, x_axis: Axis, y_axis: Axis, columns: int, rows: int, marked: bool) -> list[list[Span]]:
    across, down = (1, 1) if marked else (2, 4)
    last_x, last_y = columns * across - 1, rows * down - 1
    dots: dict[tuple[int, int], int] = {}
    owners: dict[tuple[int, int], list[int]] = {}
    for index, series in enumerate(plot.series):
        for stretch in unbroken(series.points):
            places = [(round(x_axis.share(x) * last_x), last_y - round(y_axis.share(y) * last_y)) for x, y in stretch]
            for x, y in _stroke(places):
                cell = (y // down, x // across)
                dots[cell] = dots.get(cell, 0) | DOTS[y % down][x % across]
                owners.setdefault(cell, [])
                if index not in owners[cell]:
                    owners[cell].append(index)
    canvas: list[list[Span]] = []
    for row in range(rows):
        cells: list[Span] = []
        for column in range(columns):
            who = owners.get((row, column))
            if who is None:
                cells.append((" ", ""))
                continue
            index = who[column % len(who)]  # curves that lie on each other take turns
            mark = MARKS[index % len(MARKS)] if marked else chr(0x2800 + dots[row, column])
            cells.append((mark, COLORS[index % len(COLORS)]))
        canvas.append(
            [("".join(mark for mark, _ in run), style) for style, run in groupby(cells, key=lambda cell: cell[1])]
        )
    return canvas


def _stroke(places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Every dot on the way from one place to the next."""
    yield places[0]
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0))
        for step in range(1, steps + 1):
            yield x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps)


def _foot(x_axis: Axis, gutter: int, columns: int) -> list[str]:
    """The line below, and its labels, of which some are left out if they would touch."""
    rule, labels = ["─"] * columns, [" "] * (columns + 2)
    free = 0
    for tick, label in zip(x_axis.ticks, x_axis.labels, strict=True):
        at = round(x_axis.share(tick) * (columns - 1))
        start = min(max(0, at + 1 - len(label) // 2), columns + 1 - len(label))
        if start >= free:  # never if it is wider than all of it
            rule[at] = "┬"
            labels[start : start + len(label)] = label
            free = start + len(label) + 1
    return [" " * gutter + " └" + "".join(rule), " " * (gutter + 1) + "".join(labels).rstrip()]


def _legend(plot: Plot, width: int, marked: bool) -> list[list[Span]]:
    rows: list[list[Span]] = []
    free = 0
    for index, series in enumerate(plot.series):
        mark = MARKS[index % len(MARKS)] if marked else "━━"
        last = end_of(series)
        value = "" if last is None else f" {number(last[1])}"
        name = cut(series.name, max(1, width - len(mark) - 1 - len(value)))
        taken = len(mark) + 1 + wide(name) + len(value)
        if not rows or taken + 3 > free:
            rows.append([])
            free = width
        else:
            rows[-1].append(("   ", ""))
            free -= 3
        rows[-1] += [(mark, COLORS[index % len(COLORS)]), (f" {name}", ""), (value, "dim")]
        free -= taken
    return rows
