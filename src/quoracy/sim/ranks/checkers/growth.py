"""Attempts always grow; the number grows by one exactly when an attempt was committed, and never falls."""

from __future__ import annotations

from quoracy.core.ranks.part import Turn
from quoracy.sim.ranks.checkers.base import Checker, Life, Record


class Growth(Checker):
    name = "growth"

    def __init__(self, attempt: int, number: int) -> None:
        self._begun: dict[str, int] = {}
        self._committed = number
        self._number_at: dict[int, int] = {attempt + 1: number}

    def began(self, process: str, _life: Life, turn: Turn) -> None:
        before = self._begun.get(process, 0)
        if turn.attempt <= before:
            self.fail(f"{process} begins attempt {turn.attempt} after attempt {before}")
        self._begun[process] = turn.attempt
        number = self._number_at.get(turn.attempt)
        if turn.number != number:
            self.fail(f"{process} tries iteration {turn.number} in attempt {turn.attempt}; it is {number}'s turn")

    def decided(self, record: Record) -> None:
        if record.number != self._committed:
            self.fail(f"entry {record.n} decides iteration {record.number} after {self._committed} commits")
        self._committed += record.event.outcome == "committed"
        self._number_at[record.attempt + 1] = self._committed
