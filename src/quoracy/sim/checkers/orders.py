"""An order reaches the life it was given to, and no other: what was ordered of a life that is over binds nobody.

Numbers are worked out from the journal alone: they count the workers ordered, and an order to all goes to those who
are there in the order of their seats.
"""

from __future__ import annotations

from quoracy.core.cluster.events import HeartbeatSeen, WorkerOrdered
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.checkers.history import Fleet, Life, read


class Orders(Checker):
    name = "orders"

    def __init__(self) -> None:
        self._told: dict[tuple[Life, int], str] = {}

    def ordered(self, _process: str, member: str, incarnation: int, seen: HeartbeatSeen) -> None:
        self._told[Life(member, incarnation), seen.order] = seen.command

    def finish(self, ending: Ending) -> None:
        fleet = Fleet()
        given: list[tuple[Life, str]] = []
        for _, _, event in read(ending.journal, ending.run):
            if isinstance(event, WorkerOrdered):
                one = Life(event.member, fleet.newest.get(event.member, 0))
                given += [(life, event.command) for life in ([one] if event.member else fleet.present())]
            fleet.walk(event)
        for (life, number), command in self._told.items():
            if not 0 < number <= len(given) or given[number - 1] != (life, command):
                was = given[number - 1] if 0 < number <= len(given) else "none such"
                self.fail(f"{life} was given order {number}, {command}; the journal has {was}")
