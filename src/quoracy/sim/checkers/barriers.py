"""A barrier generation is released once and never early.

From the journal alone, walked with the simple model: every generation is settled once, in order; a release names
exactly those who took part at that point. From outside: each one named really stood there, at that step, before; and
whoever was let through was named in the journal, at the same step, and is let through a generation once. What a process
is told of the end of a barrier is about the life and the generation of the run in which it stands there. Old news may
come to it, but not as the answer to every arrival: such a visit would not be counted.
"""

from __future__ import annotations

import msgspec

from quoracy.core.cluster.events import Arrive, BarrierAborted, BarrierReleased
from quoracy.core.cluster.views import Passage
from quoracy.core.messages import Told
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.checkers.history import Fleet, Life, read
from quoracy.sim.streams import End

OLD_NEWS = 10
"""Ends from before a roll-back that one visit may be told, beside those that its hellos bring: stragglers, doubles."""


class Barriers(Checker):
    name = "barriers"

    def __init__(self) -> None:
        self._stood: dict[tuple[Life, str, int, int], int] = {}
        """(life, barrier, step, fence) -> the lowest ``after`` it really stood there with."""
        self._through: dict[tuple[str, Life, str, int], Passage] = {}
        self._visits: dict[tuple[str, str], Arrive] = {}
        """By process and barrier: where it stands now, or stood last."""
        self._old_news: dict[tuple[str, str], int] = {}

    def arrived(self, process: str, arrive: Arrive) -> None:
        life = Life(arrive.member, arrive.incarnation)
        key = (life, arrive.barrier, arrive.step, arrive.fence)
        after = arrive.after or 0
        self._stood[key] = min(after, self._stood.get(key, after))
        self._visits[process, arrive.barrier] = arrive
        self._old_news[process, arrive.barrier] = 0

    def greeted(self, process: str) -> None:
        """It brings the newest end again, or twice if it is doubled on its way."""
        for key in self._old_news:
            if key[0] == process:
                self._old_news[key] -= 2

    def shown(self, process: str, _end: End, told: Told) -> None:
        if told.topic.startswith("barrier/"):
            self.told(process, msgspec.convert(told.value, Passage, from_attributes=True))

    def told(self, process: str, passage: Passage) -> None:
        visit = self._visits.get((process, passage.barrier))
        if visit is not None and (visit.after or 0) < passage.generation and passage.fence < visit.fence:
            self._old_news[process, passage.barrier] += 1
            if self._old_news[process, passage.barrier] > OLD_NEWS:
                self.fail(f"{process} stands there as {visit} and is told again and again {passage}")

    def aborted(self, process: str, member: str, incarnation: int, passage: Passage) -> None:
        self._check_visit(process, Life(member, incarnation), passage)

    def _check_visit(self, process: str, life: Life, passage: Passage) -> None:
        visit = self._visits.get((process, passage.barrier))
        if visit is None:
            self.fail(f"{process} was told how {passage.barrier} ended, where it never stood")
        elif (visit.member, visit.incarnation, visit.fence) != (*life, passage.fence):
            self.fail(f"{process} stands there as {visit} and was told {passage}, which is another visit's end")

    def passed(self, process: str, member: str, incarnation: int, passage: Passage) -> None:
        self._check_visit(process, Life(member, incarnation), passage)
        key = (process, Life(member, incarnation), passage.barrier, passage.generation)
        if key in self._through:
            self.fail(f"{process} was let through generation {passage.generation} twice")
        self._through[key] = passage
        if not any(
            life == key[1] and barrier == passage.barrier and step == passage.step and after < passage.generation
            for (life, barrier, step, _), after in self._stood.items()
        ):
            self.fail(f"{process} was let through step {passage.step}, where it never stood")

    def finish(self, ending: Ending) -> None:
        fleet = Fleet()
        settled: dict[str, int] = {}
        released: dict[tuple[str, int], tuple[int, set[Life]]] = {}
        for n, _, event in read(ending.journal, ending.run):
            if isinstance(event, BarrierReleased | BarrierAborted):
                if event.generation != settled.get(event.name, 0) + 1:
                    self.fail(f"entry {n} settles generation {event.generation} after {settled.get(event.name, 0)}")
                settled[event.name] = event.generation
            if isinstance(event, BarrierReleased):
                named = {fleet.seat[seat] for seat in event.seats}
                self._check_release(n, event, named, fleet)
                released[event.name, event.generation] = (event.step, named)
            fleet.walk(event)
        for (process, life, barrier, generation), passage in self._through.items():
            step, named = released.get((barrier, generation), (-1, set()))
            if life not in named or step != passage.step:
                self.fail(f"{process} passed generation {generation} at step {passage.step}; the journal has none such")

    def _check_release(self, n: int, event: BarrierReleased, named: set[Life], fleet: Fleet) -> None:
        here = fleet.taking_part()
        if named != here:
            self.fail(
                f"entry {n} releases {event.name} {event.generation} for {sorted(named)}; {sorted(here)} took part"
            )
        for life in named:
            after = self._stood.get((life, event.name, event.step, fleet.fence))
            if after is None or after >= event.generation:
                self.fail(
                    f"entry {n} releases {event.name} {event.generation}, but {life} never stood at step {event.step}"
                )
