"""Attempts always grow; the number grows by one exactly when an attempt was committed, and never falls. A rank's last
iteration is the newest that a record has named it for, whatever became of the rank since."""

from __future__ import annotations

from quoracy.core.ranks.part import Turn
from quoracy.sim.ranks.checkers.base import Checker, Life, Record


class Growth(Checker):
    name = "growth"

    def __init__(self, attempt: int, number: int, members: list[str]) -> None:
        """``members``: who was in when the run began anew after a loss; they were at that number."""
        self._begun: dict[str, int] = {}
        self._committed = number
        self._number_at: dict[int, int] = {attempt + 1: number}
        self._last: dict[str, int | None] = dict.fromkeys(members, number)

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
        self._last.update(dict.fromkeys(record.named, self._committed))
        for rank, said in record.last_iterations.items():
            if said != self._last.get(rank):
                why = f"the last iteration of rank {rank} is {said}, and it was named for {self._last.get(rank)}"
                self.fail(f"entry {record.n}: {why}")
