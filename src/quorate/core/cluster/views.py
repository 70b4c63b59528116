"""What a worker is shown. A view holds no memory of its own: it is computed from the fleet whenever it is sent."""

from __future__ import annotations

from typing import Any

import msgspec

from quorate.core.cluster.state import BarrierState, Fleet, Settled


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


Places = dict[str, tuple[int, dict[int, int]]]
"""Per barrier the newest generation asked about, and each seat's place in it: asked for by everyone at once."""


def look(fleet: Fleet, topic: str, member: str, places: Places) -> Any:
    worker = fleet.workers.get(member)
    if worker is None:
        return None
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
    return _newest(barrier.name, barrier.settled[-1], worker.seat, places)


def _newest(name: str, over: Settled, seat: int, places: Places) -> Passage | None:
    known = places.get(name)
    if known is None or known[0] != over.generation:
        order = {arrived: place for place, arrived in enumerate(over.seats)}
        order.update(dict.fromkeys(over.missing, -1))
        places[name] = known = (over.generation, order)
    place = known[1].get(seat)
    return None if place is None else passage(name, over, place)


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
