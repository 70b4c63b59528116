"""Bugs in the run's table, and the search for a life that shows one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quoracy.core.witnessed.table import RUN
from quoracy.sim.witnessed import live

SEEDS = 200


def found_by(checker: str, since: int = 1) -> str:
    """What the first seed that breaks this promise says. Other promises may break too; this one must. ``since``: where
    to begin, for bugs that few lives show."""
    for seed in range(since, since + SEEDS):
        outcome = live(seed)
        if outcome.violation.startswith(f"{checker}:"):
            return outcome.violation
    pytest.fail(f"{SEEDS} lives with a planted bug, and {checker} noticed nothing")


def plant(monkeypatch: pytest.MonkeyPatch, event: str, **changes: Any) -> None:
    """Change every row of the run's table for this event."""
    for kind, moves in RUN._moves.items():
        if kind.__name__ == event:
            for state, move in moves.items():
                if move.refuse is None:
                    monkeypatch.setitem(moves, state, msgspec.structs.replace(move, **changes))
