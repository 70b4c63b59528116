"""Curves as text: in their place, told apart with colours and without, and never wider than the terminal."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from quoracy.plots import Drawing, Plot, Series, text
from quoracy.plots.plot import wide
from quoracy.plots.terminal import MARKS

RISING = Series("rising", [(x, x / 10) for x in range(11)])
FALLING = Series("falling", [(x, 1 - x / 10) for x in range(11)])
BOTH = Plot("Two", "round", "accuracy", [RISING, FALLING])


def printed(plot: Plot, *, terminal: bool, no_color: bool = False, width: int = 60) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=terminal,
        width=width,
        no_color=no_color,
        color_system="truecolor" if terminal else None,
    )
    console.print(Drawing(plot))
    return out.getvalue()


def test_a_plot_is_what_it_was_when_somebody_looked_at_it() -> None:
    plot = Plot("Three rounds", "round", "loss", [Series("a", [(0, 4), (1, 1), (2, 0)]), Series("b", [(0, 0), (2, 4)])])
    assert text(plot, 30, 5).splitlines() == [
        "Three rounds",
        "loss",
        "4 ┤●●●                    ○○○○",
        "  │   ●●●●          ○○○○○○",
        "2 ┤       ●●●●○○○○○○",
        "  │    ○○○○○○ ●●●●●●●●●",
        "0 ┤○○○○                ●●●●●●●",
        "  └┬────────────┬────────────┬",
        "   0            1            2",
        "              round",
        "● a 0   ○ b 4",
    ]


def test_curves_go_where_their_values_are() -> None:
    rows = [row[row.index("│") + 1 :] if "│" in row else row.split("┤")[1] for row in text(BOTH, 60).splitlines()[2:18]]
    assert rows[0].startswith(MARKS[1])
    assert rows[0].rstrip().endswith(MARKS[0])
    assert rows[-1].startswith(MARKS[0])
    assert rows[-1].rstrip().endswith(MARKS[1])
    for column in range(55):
        assert any(len(row) > column and row[column] in MARKS[:2] for row in rows), column


def test_the_legend_says_who_is_who_and_where_each_ends() -> None:
    assert text(BOTH, 60).splitlines()[-1] == "● rising 1   ○ falling 0"


def test_one_curve_needs_no_mark() -> None:
    drawn = text(Plot("", "", "", [RISING]), 40)
    assert not set(MARKS) & set(drawn)
    assert any(0x2800 < ord(letter) < 0x2900 for letter in drawn)


def test_a_terminal_has_colours_and_a_pipe_has_marks() -> None:
    colored = printed(BOTH, terminal=True)
    assert "\x1b[36m" in colored  # cyan
    assert "\x1b[35m" in colored  # magenta
    assert not set(MARKS) & set(colored)
    piped = printed(BOTH, terminal=False)
    assert "\x1b" not in piped
    assert [line.rstrip() for line in piped.splitlines()] == text(BOTH, 60).splitlines()
    assert MARKS[1] in printed(BOTH, terminal=True, no_color=True)


def test_curves_that_lie_on_each_other_take_turns() -> None:
    rows = text(Plot("", "", "", [RISING, Series("same", RISING.points)]), 60).splitlines()[:16]
    counts = [sum(row.count(mark) for row in rows) for mark in MARKS[:2]]
    assert min(counts) >= 20


def test_a_gap_is_not_drawn_over() -> None:
    points = [(x, 1.0 if x < 30 or x > 70 else math.nan) for x in range(101)]
    rows = text(Plot("", "", "", [Series("a", points), Series("b", [(0, 0), (100, 0)])]), 103).splitlines()
    (row,) = [row for row in rows if row.count(MARKS[0]) > 10]
    start = row.index(MARKS[0])
    assert row[start : start + 25] == MARKS[0] * 25
    assert row[start + 35 : start + 65].strip() == ""


@pytest.mark.parametrize("width", [20, 33, 80, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    long = Series("a name that is quite long, 名前 and all, " * 4, [(x, -1e8 * x) for x in range(1, 9_000, 7)])
    plot = Plot("A title " * 40, "x " * 150, "y " * 150, [long, RISING, FALLING, long])
    for drawn in (text(plot, width), printed(plot, terminal=False, width=width)):
        assert max(wide(row) for row in drawn.splitlines()) <= width


@pytest.mark.parametrize(
    "series", [[], [Series("none", [])], [Series("nan", [(0, math.nan)])], [Series("one", [(3, 7)])]]
)
def test_little_or_nothing_is_drawn_too(series: list[Series]) -> None:
    drawn = text(Plot("Empty", "x", "y", series), 40)
    assert drawn.startswith("Empty")
    assert ("one 7" in drawn) == (series != [] and series[0].name == "one")


def test_a_name_cannot_command_the_terminal() -> None:
    evil = Plot("\x1b[2J", "\x07", "[red]y[/]", [Series("\x1b]0;title\x07", [(0, 0), (1, 1)])])
    piped = printed(evil, terminal=False)
    assert "\x1b" not in piped
    assert "\x07" not in piped
    assert "[red]y[/]" in piped
