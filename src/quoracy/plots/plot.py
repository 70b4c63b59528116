"""What is drawn: named curves, and names that are safe to draw."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

TALLEST: Final = 1e300
"""What is larger is not drawn: the height of the plot would be infinite."""

Point = tuple[float, float]


class Series(NamedTuple):
    """One curve, from left to right. A value that is no number is a gap."""

    name: str
    points: Sequence[Point]


class Plot(NamedTuple):
    """Several curves over one axis. A label may be empty."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]


def unbroken(points: Sequence[Point]) -> list[list[Point]]:
    """The points that can be drawn, in stretches without a gap."""
    stretches: list[list[Point]] = [[]]
    for x, y in points:
        if abs(x) <= TALLEST and abs(y) <= TALLEST:  # false for what is no number
            stretches[-1].append((x, y))
        elif stretches[-1]:
            stretches.append([])
    return [stretch for stretch in stretches if stretch]


def end_of(series: Series) -> Point | None:
    stretches = unbroken(series.points)
    return stretches[-1][-1] if stretches else None


def clean(text: str) -> str:
    """One line, without what a terminal obeys or XML cannot hold."""
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))


def wide(text: str) -> int:
    """Columns of a terminal."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def cut(text: str, most: int) -> str:
    text = clean(text)
    if wide(text) <= most:
        return text
    while text and wide(text) > most - 1:
        text = text[:-1]
    return text + "…" if most > 0 else ""
