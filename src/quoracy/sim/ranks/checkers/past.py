"""A life that is over changes nothing, and one that is cut off has stopped itself before the others give it up.

Over is a life that a record gave up, that left, or that a newer one superseded. That is worked out from the meaning of
the events alone: seats are counted here, no fold is asked.
"""

from __future__ import annotations

from collections.abc import Callable

from quoracy.core.machine import Event
from quoracy.core.ranks.events import RankJoined, RankLeft, RankReady
from quoracy.core.ranks.part import Turn
from quoracy.sim.ranks.checkers.base import Checker, Life, Record


class Past(Checker):
    """``acts``: whether a process is at work as this life, which has been cut off from the store since its last sign of
    life got through; and ``rests``: the same for one that trains, and asks nothing for now."""

    name = "past"

    def __init__(self, attempt: int, acts: Callable[[Life], bool], rests: Callable[[Life], bool]) -> None:
        self._acts = acts
        self._rests = rests
        self._attempts = attempt
        self._seats: list[Life] = []
        self._newest: dict[str, Life] = {}
        self._over: dict[Life, int] = {}
        """The last attempt that each may still be in."""
        self._to_stop: set[Life] = set()

    def happened(self, n: int, event: Event) -> None:
        match event:
            case RankJoined():
                before, life = self._newest.get(event.member), (event.member, event.supersedes + 1)
                if before is not None:
                    self._over.setdefault(before, self._attempts + 1)
                self._seats.append(life)
                self._newest[event.member] = life
            case RankReady() | RankLeft():
                life = (event.member, event.incarnation)
                if life in self._over:
                    self.fail(f"entry {n} has {type(event).__name__} of {life}, which is over")
                if isinstance(event, RankLeft):
                    self._over[life] = self._attempts + 1

    def decided(self, record: Record) -> None:
        self._attempts = record.attempt
        for seat in record.event.arrived:
            life = self._seats[seat - 1]
            if life in self._over:
                self.fail(f"entry {record.n} counts the vote of {life}, which is over")
        for seat, why in record.event.gone:
            life = self._seats[seat - 1]
            self._over.setdefault(life, record.attempt)
            if self._acts(life):
                self.fail(f"entry {record.n} gives {life} up ({why}), which is cut off and has not stopped itself")
            if self._rests(life):
                self._to_stop.add(life)

    def began(self, process: str, life: Life, turn: Turn) -> None:
        if turn.attempt > self._over.get(life, turn.attempt):
            self.fail(f"{process} begins attempt {turn.attempt} as {life}, which was over in {self._over[life]}")

    def asked(self, process: str, life: Life) -> None:
        if life in self._to_stop and self._acts(life):
            self.fail(f"{process} goes on as {life}, which was given up while it was cut off")
