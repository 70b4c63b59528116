"""Bugs in the run's table, and the search for a life that shows one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quoracy.core.witnessed.table import RUN
from quoracy.sim.witnessed import Life
from quoracy.sim.world import MS

SEEDS = 200


def found_by(checker: str, since: int = 1, beset_by: str = "", only: tuple[str, ...] = (), size: int = 0) -> str:
    """What the first seed that breaks this promise says. Other promises may break too; this one must. For bugs that few
    lives show, ``beset_by``: the fault that it takes, again and again; or ``since``: where to begin; ``only``: the
    faults to draw from; ``size``: how many members."""
    for seed in range(since, since + SEEDS):
        life = beset(seed, beset_by, size)
        life.faults.only = only
        outcome = life.live()
        if outcome.violation.startswith(f"{checker}:"):
            return outcome.violation
    pytest.fail(f"{SEEDS} lives with a planted bug, and {checker} noticed nothing")


def beset(seed: int, fault: str, size: int = 0) -> Life:
    life = Life(seed, size=size)
    for after_ms in range(1000, 6000, 400) if fault else ():
        life.world.after(after_ms * MS, getattr(life.faults, fault))
    return life


def plant(monkeypatch: pytest.MonkeyPatch, event: str, **changes: Any) -> None:
    """Change every row of the run's table for this event."""
    for kind, moves in RUN._moves.items():
        if kind.__name__ == event:
            for state, move in moves.items():
                if move.refuse is None:
                    monkeypatch.setitem(moves, state, msgspec.structs.replace(move, **changes))
