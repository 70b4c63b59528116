"""The parts of ``make soak``, and which of them is under way: ``QUORACY_SOAK=faults``, as ``make soak-faults`` says.

A test of a part is marked ``@pytest.mark.soak("faults")`` and is collected only there. One that has a shorter version
in ``make test`` is marked ``@pytest.mark.soak("faults", shorter=True)`` and asks ``soaking("faults")`` how much to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import pytest

PARTS: Final = {
    "sim": "thousands of simulated lives, every state that the explorer reaches",
    "faults": "every point at which something can be killed, stopped or cut off, with real processes",
    "hostile": "requests that nobody would send, by the thousand; many at once",
    "integrations": "whole demonstrations and measurements, on every store, with the larger data",
    "browser": "pages and pictures in Chromium",
}


def part_under_way() -> str:
    """Nothing in ``make test``."""
    part = os.environ.get("QUORACY_SOAK", "")
    if part and part not in PARTS:
        raise pytest.UsageError(f"QUORACY_SOAK = {part!r}: choose one of: {', '.join(PARTS)}")
    return part


def soaking(part: str) -> bool:
    """Whether this part of the long ones is under way."""
    assert part in PARTS, part
    return part_under_way() == part


def belongs(item: pytest.Item, part: str) -> bool:
    """Whether the test is to run in this part; in ``make test``, if that is nothing."""
    marks = list(item.iter_markers("soak"))
    for mark in marks:
        if not (len(mark.args) == 1 and mark.args[0] in PARTS and set(mark.kwargs) <= {"shorter"}):
            given = [repr(value) for value in mark.args] + [f"{name}={value!r}" for name, value in mark.kwargs.items()]
            raise pytest.UsageError(f"{item.nodeid}: soak({', '.join(given)}): give it one of: {', '.join(PARTS)}")
    if part:
        return any(mark.args[0] == part for mark in marks)
    return all(mark.kwargs.get("shorter", False) for mark in marks)


def select(items: Sequence[pytest.Item], part: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Those that run, and those that do not."""
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (chosen if belongs(item, part) else others).append(item)
    return chosen, others
