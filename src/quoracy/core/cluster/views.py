"""What a worker is shown. A view holds no memory of its own: it is computed from the fleet whenever it is sent."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import msgspec

from quoracy.core.cluster.state import Barrier, BarrierState, Fleet, Settled, Worker
from quoracy.core.codec import ready


class Standing(msgspec.Struct, frozen=True):
    """What the run thinks of a worker. One that reads a newer incarnation than its own is superseded."""

    incarnation: int
    state: str
    rank: int
    reason: str
    fence: int
    run: str
    barriers: dict[str, tuple[int, int]]
    """Each barrier's newest settled generation and the step of its newest release: where a newcomer has to begin. Sent
    when a worker begins to take part, since from then on no barrier goes on without it."""


class Passage(msgspec.Struct, frozen=True):
    """How a generation of a barrier ended for one worker. ``order`` is its place among ``of`` arrivals, from 0; -1 if
    it was missing."""

    barrier: str
    generation: int
    step: int
    released: bool
    order: int
    of: int
    reason: str
    fence: int


class Shown(msgspec.Struct):
    """What the newest settled generation of a barrier looks like to each seat that it concerns: everybody asks at
    once, so it is made once."""

    barrier: Barrier
    over: Settled
    passages: dict[int, Passage]


def look(fleet: Fleet, topic: str, worker: Worker, shown: dict[str, Shown]) -> Any:
    """What is made for everybody is left in ``shown``, by topic."""
    if topic == "standing":
        barriers = {name: (b.generation, b.step) for name, b in fleet.barriers.items()}
        return Standing(
            worker.incarnation, worker.state.value, worker.rank, worker.reason or fleet.reason, fleet.generation,
            fleet.state.value, barriers,
        )  # fmt: skip
    if topic == "order":
        return worker.order
    barrier = fleet.barriers.get(topic.removeprefix("barrier/"))
    if barrier is None or not barrier.settled:
        return None
    if len(shown) > fleet.config.max_barriers:
        for other in [other for other, known in shown.items() if not remembered(fleet, known)]:
            del shown[other]
    shown[topic] = known = _show(barrier)
    return known.passages.get(worker.seat)


def remembered(fleet: Fleet, shown: Shown) -> bool:
    """Whether it is of a barrier that is still there: a name may have been forgotten, and used again."""
    return fleet.barriers.get(shown.barrier.name) is shown.barrier


def _show(barrier: Barrier) -> Shown:
    over = barrier.settled[-1]
    released, of = over.state is BarrierState.RELEASED, len(over.seats)
    name, generation, step, reason, fence = barrier.name, over.generation, over.step, over.reason, over.fence
    places = (*enumerate(over.seats), *zip(repeat(-1), over.missing))
    passages = {
        seat: Passage(name, generation, step, released, place, of, reason, fence) for place, seat in places
    }  # fmt: skip
    return Shown(barrier, over, passages)


def passage(name: str, over: Settled, place: int) -> Passage:
    released = over.state is BarrierState.RELEASED
    return Passage(name, over.generation, over.step, released, place, len(over.seats), over.reason, over.fence)


def topics(fleet: Fleet, member: str) -> list[str]:
    worker = fleet.workers.get(member)
    if worker is None:
        return []
    concerned = [
        f"barrier/{b.name}" for b in fleet.barriers.values() if b.settled and b.settled[-1].place(worker.seat) > -2
    ]
    return ["standing", *(["order"] if worker.order else []), *concerned]


ready(Standing, Passage)
