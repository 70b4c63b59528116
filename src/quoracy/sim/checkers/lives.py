"""A superseded incarnation changes nothing: once a newer life of an id is in the journal, no command of an older one
is, and no release names it. And no heartbeat counts for an incarnation that its sender never was."""

from __future__ import annotations

from quoracy.core.cluster.events import BarrierReleased, WorkerRegistered
from quoracy.core.errors import Refusal
from quoracy.core.journal import CommandRefused
from quoracy.core.members import Accepted, Cause, joined_as
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.checkers.history import Fleet, Life, read


class Lives(Checker):
    name = "lives"

    def __init__(self) -> None:
        self._was: dict[str, set[Life]] = {}
        """By process: the incarnations as which it has joined."""

    def answered(self, process: str, cause: Cause, answer: Accepted | Refusal) -> None:
        if cause.seq == 0 and isinstance(answer, Accepted):
            self._was.setdefault(process, set()).add(Life(cause.member, joined_as(answer)))

    def heard(self, process: str, member: str, incarnation: int) -> None:
        if (life := Life(member, incarnation)) not in self._was.get(process, ()):
            self.fail(f"a heartbeat of {process} was taken for one of {life}, which it never was")

    def finish(self, ending: Ending) -> None:
        fleet = Fleet()
        for n, cause, event in read(ending.journal, ending.run):
            newest = 0 if cause is None else fleet.newest.get(cause.member, 0)
            if isinstance(event, WorkerRegistered):
                if event.supersedes != newest:
                    self.fail(f"entry {n}: a join of {event.member} follows life {event.supersedes}, not {newest}")
            elif cause is not None and cause.seq and cause.incarnation < newest:
                self.fail(f"entry {n}: {event} of life {cause.incarnation} of {cause.member}, which is at {newest}")
            elif getattr(event, "member", "") and not isinstance(event, CommandRefused):
                current = fleet.newest.get(event.member, 0)
                if getattr(event, "incarnation", current) != current:
                    self.fail(f"entry {n}: {event} is about a life that is over; {event.member} is at {current}")
            if isinstance(event, BarrierReleased):
                for seat in event.seats:
                    life = fleet.seat[seat]
                    if life.incarnation != fleet.newest[life.member]:
                        self.fail(f"entry {n} lets {life} through, which was superseded")
            fleet.walk(event)
