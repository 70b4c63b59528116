"""Never early: a record names as arrived who really arrived, accounts for everybody, and leaves enough to go on."""

from __future__ import annotations

from quoracy.sim.ranks.checkers.base import Checker, Life, Record


class Early(Checker):
    name = "early"

    def __init__(self) -> None:
        self._arrived: set[tuple[Life, int]] = set()

    def voted(self, _process: str, life: Life, attempt: int, _ok: bool) -> None:
        self._arrived.add((life, attempt))

    def decided(self, record: Record) -> None:
        for seat in record.event.arrived:
            life = record.members.get(seat, ("?", 0))
            if (life, record.attempt) not in self._arrived:
                self.fail(f"entry {record.n} counts rank {life[0]} in, which has not arrived at {record.attempt}")
        settled = {*record.event.arrived, *(seat for seat, _ in record.event.gone)}
        if missing := record.members.keys() - settled:
            self.fail(f"entry {record.n} says nothing of seats {sorted(missing)}")
        if record.going_on < record.enough:
            self.fail(f"entry {record.n} goes on with {record.going_on}; {record.enough} are needed")
