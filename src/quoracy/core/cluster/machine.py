"""The cluster machine: finds whom an event is about, and lets the tables decide."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from quoracy.core.cluster import rules, views
from quoracy.core.cluster.events import (
    BarrierAborted,
    BarrierDropped,
    BarrierReleased,
    RunRolledBack,
    RunStopped,
    WorkerEvent,
    WorkerOrdered,
    WorkerRegistered,
)
from quoracy.core.cluster.state import Barrier, Config, Fleet, Phase, Worker, WorkerState
from quoracy.core.cluster.table import BARRIER, RUN, WORKER
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import Applied, Event, Ignore, View
from quoracy.core.members import superseded

_OF_A_WORKER = frozenset(
    event for event in get_args(WorkerEvent) if isinstance(RUN.rows[Phase.OPEN, event], Ignore)
)  # fmt: skip
"""What an open run's table only passes on to the worker's: most events, so they take the short way."""

_MOVED_BY_A_RELEASE = frozenset(
    state.value for state in WorkerState if not isinstance(WORKER.rows[state, BarrierReleased], Ignore)
)
"""Of the others of a large fleet the worker's table need not be asked."""


class Summary(msgspec.Struct, array_like=True):
    """The part of the fleet that is neither workers nor barriers."""

    config: Config
    state: Phase
    generation: int
    seats: int
    orders: int
    reason: str
    forgotten: int


class Cluster:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._shown: dict[str, views.Shown] = {}

    @classmethod
    def create(cls, config: Config) -> Cluster:
        return cls(Fleet(config))

    def apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        fleet = self.fleet
        if fleet.state is Phase.OPEN and type(event) in _OF_A_WORKER:
            worker = self._find(event)
            return worker if isinstance(worker, Refusal) else WORKER.step(fleet, worker, event, at_us, cup)
        passed = RUN.step(fleet, fleet, event, at_us, cup)
        if isinstance(passed, Refusal):
            return passed
        match event:
            case BarrierReleased() | BarrierAborted() | BarrierDropped():
                generation = rules.find_generation(fleet, event)
                if isinstance(generation, Refusal):
                    return generation
                settled = BARRIER.step(fleet, generation, event, at_us, cup)
                if isinstance(event, BarrierReleased) and isinstance(settled, Applied):
                    self._go_on(event, at_us, cup)
                return settled
            case WorkerRegistered():
                return WORKER.step(fleet, self._registering(event), event, at_us, cup)
            case RunStopped():
                return passed
            case RunRolledBack():
                return self._roll_back(event, passed, at_us, cup)
            case WorkerOrdered(member=""):
                return self._order_all(event, at_us, cup)
            case _:
                worker = self._find(event)
                return worker if isinstance(worker, Refusal) else WORKER.step(fleet, worker, event, at_us, cup)

    def _registering(self, event: WorkerRegistered) -> Worker:
        """The one known by that id, or a blank that enters the table only if registering succeeds."""
        known = self.fleet.workers.get(event.member)
        return known or Worker(event.member, 0, WorkerState.ABSENT, 0, 0, 0, 0, "", 0, {}, False)

    def _find(self, event: Any) -> Worker | Refusal:
        worker = self.fleet.workers.get(event.member)
        if worker is None:
            fix = "order one that is here" if isinstance(event, WorkerOrdered) else "register first"
            return Refusal("unknown_worker", f"worker {event.member} has not registered", fix)
        if not isinstance(event, WorkerOrdered) and event.incarnation != worker.incarnation:
            return superseded(event.member, event.incarnation, worker.incarnation)
        return worker

    def _roll_back(self, event: RunRolledBack, rolled: Applied, at_us: int, cup: Cup) -> Applied:
        for worker in self.fleet.workers.values():
            WORKER.step(self.fleet, worker, event, at_us, cup)
        return rolled

    def _go_on(self, event: BarrierReleased, at_us: int, cup: Cup) -> None:
        """Those whom a release lets go on. Most train already, and the table would not move them."""
        by_seat = self.fleet.by_seat
        for worker in [w for seat in event.seats if (w := by_seat[seat]).state._value_ in _MOVED_BY_A_RELEASE]:
            WORKER.step(self.fleet, worker, event, at_us, cup)

    def _order_all(self, event: WorkerOrdered, at_us: int, cup: Cup) -> Applied:
        present = sorted(self.fleet.by_seat)
        for seat in present:
            WORKER.step(self.fleet, self.fleet.by_seat[seat], event, at_us, cup)
        ids = tuple(self.fleet.by_seat[seat].id for seat in present)
        return Applied({"order": self.fleet.orders, "workers": len(ids)}, (View("order", ids),))

    # -- what members are shown -------------------------------------------------------------------------------------

    def incarnation_of(self, member: str) -> int:
        worker = self.fleet.workers.get(member)
        return 0 if worker is None else worker.incarnation

    def look(self, topic: str, member: str) -> Any:
        worker = self.fleet.workers.get(member)
        if worker is None:
            return None
        shown = self._shown.get(topic)
        if shown is not None and shown.over is shown.barrier.settled[-1] and views.remembered(self.fleet, shown):
            return shown.passages.get(worker.seat)
        return views.look(self.fleet, topic, worker, self._shown)

    def topics(self, member: str) -> list[str]:
        return views.topics(self.fleet, member)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def sections(self) -> dict[str, Any]:
        fleet = self.fleet
        summary = Summary(
            fleet.config, fleet.state, fleet.generation, fleet.seats, fleet.orders, fleet.reason, fleet.forgotten
        )
        return {
            "summary": summary,
            "workers": list(fleet.workers.values()),
            "barriers": list(fleet.barriers.values()),
        }

    @classmethod
    def restore(cls, sections: dict[str, Any]) -> Cluster:
        summary = msgspec.convert(sections["summary"], Summary)
        workers = msgspec.convert(sections["workers"], list[Worker])
        barriers = msgspec.convert(sections["barriers"], list[Barrier])
        fleet = Fleet(
            summary.config, summary.state, summary.generation, summary.seats, summary.orders, summary.reason,
            {worker.id: worker for worker in workers}, {barrier.name: barrier for barrier in barriers},
            summary.forgotten,
        )  # fmt: skip
        fleet.rebuild()
        return cls(fleet)
