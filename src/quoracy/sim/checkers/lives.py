"""A superseded incarnation changes nothing: once a newer life of an id is in the journal, no command of an older one
is, and no release names it."""

from __future__ import annotations

from quoracy.core.cluster.events import BarrierReleased, WorkerRegistered
from quoracy.core.journal import CommandRefused
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.checkers.history import Fleet, read


class Lives(Checker):
    name = "lives"

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
