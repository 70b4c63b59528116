"""A vote counts as it was given, once, and a single no repeats the iteration."""

from __future__ import annotations

from quoracy.sim.ranks.checkers.base import Checker, Life, Record


class Votes(Checker):
    name = "votes"

    def __init__(self) -> None:
        self._votes: dict[tuple[Life, int], bool] = {}

    def voted(self, process: str, life: Life, attempt: int, ok: bool) -> None:
        if (life, attempt) in self._votes:
            self.fail(f"{process} votes twice on attempt {attempt}")
        self._votes[life, attempt] = ok

    def decided(self, record: Record) -> None:
        said = [self._votes.get((record.members[seat], record.attempt), True) for seat in record.event.arrived]
        against = [seat for seat, ok in zip(record.event.arrived, said, strict=True) if not ok]
        if sorted(against) != sorted(record.event.against):
            self.fail(f"entry {record.n} has {record.event.against} against attempt {record.attempt}; {against} were")
        if (record.event.outcome == "committed") != (bool(said) and all(said)):
            self.fail(f"entry {record.n} says {record.event.outcome}; the votes were {said}")
