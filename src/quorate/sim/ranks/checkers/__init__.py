"""The promises among ranks, one file each.

records   one record per attempt, the same for all
early     nobody is counted in who has not arrived, nobody is forgotten, enough go on
votes     a vote counts as it was given; a single no repeats the iteration
growth    attempts always grow, the number exactly with each commit
duties    what is made once is the same for everybody
progress  when the faults stop, all who are alive are in and go on
"""

from __future__ import annotations

from typing import Any

from quorate.core.ranks.events import AttemptDecided
from quorate.core.ranks.part import Turn
from quorate.core.ranks.state import Crew
from quorate.core.run import Kinds, Run, fold
from quorate.sim.ranks.checkers.base import Checker, Life, Record
from quorate.sim.ranks.checkers.duties import Duties
from quorate.sim.ranks.checkers.early import Early
from quorate.sim.ranks.checkers.growth import Growth
from quorate.sim.ranks.checkers.progress import Progress
from quorate.sim.ranks.checkers.records import Records
from quorate.sim.ranks.checkers.votes import Votes


class Checkers:
    """All of them, told everything."""

    def __init__(self, run: str, kinds: Kinds) -> None:
        self._run = run
        self._kinds = kinds
        self._fold: Run | None = None
        self._all: list[Checker] = [Records(), Early(), Votes(), Growth(), Duties(), Progress()]

    def began(self, process: str, life: Life, turn: Turn) -> None:
        for checker in self._all:
            checker.began(process, life, turn)

    def voted(self, process: str, life: Life, attempt: int, ok: bool) -> None:
        for checker in self._all:
            checker.voted(process, life, attempt, ok)

    def delivered(self, process: str, attempt: int, value: bytes) -> None:
        for checker in self._all:
            checker.delivered(process, attempt, value)

    def crew(self) -> Crew | None:
        machine: Any = None if self._fold is None else self._fold.machine
        return None if machine is None else machine.crew

    def durable(self, _n: int, payload: bytes) -> None:
        run, crew = self._fold, self.crew()
        if run is None or crew is None:
            self._fold = fold(self._kinds, self._run, [payload])
            return
        attempt, number, enough = crew.attempt + 1, crew.number, crew.needed()
        before = {rank.seat: (rank.id, rank.incarnation) for rank in crew.members()}
        _, recorded = run.extend(payload)
        for _, event in recorded:
            if isinstance(event, AttemptDecided):
                named = {*event.arrived, *(seat for seat, _ in event.gone)}
                members = {seat: life for seat, life in before.items() if seat in named or self._is_in(life)}
                record = Record(run.head.n, attempt, number, event, members, enough, len(crew.log[-1].members))
                attempt += 1
                for checker in self._all:
                    checker.decided(record)

    def _is_in(self, life: Life) -> bool:
        """Still: neither left nor superseded by a letter in the same entry."""
        crew = self.crew()
        rank = None if crew is None else crew.ranks.get(life[0])
        return rank is not None and rank.incarnation == life[1] and rank.state.value == "Member"

    def finish(self, alive: list[Any], attempts_then: int) -> None:
        crew = self.crew()
        members = set() if crew is None else {rank.id for rank in crew.members()}
        for checker in self._all:
            checker.finish(alive, attempts_then, members, 0 if crew is None else crew.attempt)


__all__ = ["Checker", "Checkers", "Record"]
