"""The promises among ranks, one file each.

records   one record per attempt, the same for all
early     nobody is counted in who has not arrived, nobody is forgotten, enough go on
votes     a vote counts as it was given; a single no repeats the iteration
growth    attempts always grow, the number exactly with each commit; a rank's last iteration is the newest of its own
duties    what is made once is the same for everybody
progress  when the faults stop, all who are alive are in and go on
past      a life that is over changes nothing; one that is cut off stops itself before it is given up
generations  after a store was lost a majority goes on, once, where it stood
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quoracy.core.ranks.events import AttemptDecided
from quoracy.core.ranks.part import Turn
from quoracy.core.ranks.state import Crew
from quoracy.core.run import Kinds, Run, fold
from quoracy.sim.ranks.checkers.base import Checker, Life, Record
from quoracy.sim.ranks.checkers.duties import Duties
from quoracy.sim.ranks.checkers.early import Early
from quoracy.sim.ranks.checkers.generations import Generations
from quoracy.sim.ranks.checkers.growth import Growth
from quoracy.sim.ranks.checkers.past import Past
from quoracy.sim.ranks.checkers.progress import Progress
from quoracy.sim.ranks.checkers.records import Records
from quoracy.sim.ranks.checkers.votes import Votes


class Checkers:
    """All of them, told everything. Most promises are made within a generation of the run, and there is a checker of
    each for every one."""

    def __init__(self, run: str, kinds: Kinds, acts: Callable[[Life], bool], rests: Callable[[Life], bool]) -> None:
        """``acts`` and ``rests``: see ``past``."""
        self._run = run
        self._acts = acts
        self._rests = rests
        self._kinds = kinds
        self.attempts = 0
        """That were decided, whatever was lost or begun afresh since."""
        self._begin()

    def _begin(self) -> None:
        self._fold: Run | None = None
        self._store = 0
        self._overall = Generations()
        self._within: dict[tuple[int, int], list[Checker]] = {}

    def lost(self) -> None:
        """The store has lost its memory."""
        self._fold = None
        self._store += 1

    def afresh(self) -> None:
        """Nobody is left who remembers anything: what begins now is another run."""
        self._begin()

    def _of(self, turn: Turn) -> list[Checker]:
        """Those of the newest store in which this generation has begun. A generation may begin in two of them, but has
        records in one only, and who has a turn has seen one."""
        store = max(store for generation, store in self._within if generation == turn.generation)
        return self._within[turn.generation, store]

    def began(self, process: str, life: Life, turn: Turn) -> None:
        for checker in (*self._of(turn), self._overall):
            checker.began(process, life, turn)

    def voted(self, process: str, life: Life, turn: Turn, ok: bool) -> None:
        for checker in self._of(turn):
            checker.voted(process, life, turn.attempt, ok)

    def delivered(self, process: str, turn: Turn, value: bytes) -> None:
        for checker in self._of(turn):
            checker.delivered(process, turn.attempt, value)

    def asked(self, process: str, life: Life) -> None:
        for checkers in self._within.values():
            for checker in checkers:
                checker.asked(process, life)

    def crew(self) -> Crew | None:
        machine: Any = None if self._fold is None else self._fold.machine
        return None if machine is None else machine.crew

    def durable(self, _n: int, payload: bytes) -> None:
        run, crew = self._fold, self.crew()
        if run is None or crew is None:
            self._fold = fold(self._kinds, self._run, [payload])
            crew = self.crew()
            if crew is not None:
                within: list[Checker] = [Records(crew.attempt), Early(), Votes()]
                within += [Growth(crew.attempt, crew.number, crew.config.began_members)]
                within += [Duties(), Past(crew.attempt, self._acts, self._rests)]
                self._within[crew.config.generation, self._store] = within
            return
        attempt, number, enough = crew.attempt + 1, crew.number, crew.needed()
        before = {rank.seat: (rank.id, rank.incarnation) for rank in crew.members()}
        _, recorded = run.extend(payload)
        for _, event in recorded:
            for checker in self._within[crew.config.generation, self._store]:
                checker.happened(run.head.n, event)
            if isinstance(event, AttemptDecided):
                self.attempts += 1
                named = {*event.arrived, *(seat for seat, _ in event.gone)}
                members = {seat: life for seat, life in before.items() if seat in named or self._is_in(life)}
                goes_on = crew.log[-1].members
                last = {rank.id: crew.last_iteration(rank) for rank in crew.ranks.values()}
                record = Record(run.head.n, attempt, number, event, members, enough, len(goes_on), goes_on, last)
                self._overall.recorded(self._store, crew.config, attempt, crew.number, goes_on)
                attempt += 1
                for checker in self._within[crew.config.generation, self._store]:
                    checker.decided(record)

    def _is_in(self, life: Life) -> bool:
        """Still: neither left nor superseded by a letter in the same entry."""
        crew = self.crew()
        rank = None if crew is None else crew.ranks.get(life[0])
        return rank is not None and rank.incarnation == life[1] and rank.state.value == "Member"

    def finish(self, alive: list[Any], attempts_then: int) -> None:
        crew = self.crew()
        members = set() if crew is None else {rank.id for rank in crew.members()}
        Progress().finish(alive, attempts_then, members, self.attempts)


__all__ = ["Checker", "Checkers", "Record"]
