"""The rules of a fleet: what each event needs, and what it changes. ``table`` says when they apply.

A ``check_`` changes nothing and may refuse; a ``do_`` changes and may not refuse; ``pick_`` chooses between declared
states. Rules that hold for every kind (who may speak, repeats, incarnations) are in ``core.run`` and not here.
"""

from __future__ import annotations

from collections.abc import Iterator

from quoracy.core.cluster.events import (
    BarrierAborted,
    BarrierDropped,
    BarrierReleased,
    RunRolledBack,
    RunStopped,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerLost,
    WorkerOrdered,
    WorkerRegistered,
)
from quoracy.core.cluster.state import (
    GONE,
    Barrier,
    BarrierState,
    Fleet,
    Order,
    Settled,
    Worker,
    WorkerState,
)
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import DONE, Applied, Event, View

# -- workers -------------------------------------------------------------------------------------------------------


def check_room(fleet: Fleet, worker: Worker, _event: WorkerRegistered, _at_us: int) -> Refusal | None:
    """A worker that is present already, and only begins a new life, needs no more room than it has."""
    if worker.state in GONE and len(fleet.by_seat) >= fleet.config.max_workers:
        why = f"{len(fleet.by_seat)} workers are here and max_workers = {fleet.config.max_workers}"
        return Refusal("fleet_full", why, "wait until one leaves, or raise max_workers")
    return None


def do_register(fleet: Fleet, worker: Worker, event: WorkerRegistered, at_us: int, _cup: Cup) -> Applied:
    present = worker.state not in GONE
    if present:
        fleet.place(worker, WorkerState.LEFT)
    fleet.seats += 1
    worker.ended_badly = present or worker.state is WorkerState.FAILED
    worker.incarnation = event.supersedes + 1
    worker.rank = worker.rank if present else fleet.take_rank()
    worker.seat = fleet.seats
    worker.since_us = worker.registered_us = at_us
    worker.address = event.address
    worker.gpus = event.gpus
    worker.labels = event.labels
    worker.fell_back = False
    worker.reason = ""
    worker.order = None
    fleet.workers[event.member] = worker
    fleet.place(worker, WorkerState.INITIALIZING)
    result = {
        "rank": worker.rank,
        "seat": worker.seat,
        "fence": fleet.generation,
        "heartbeat_interval_s": fleet.config.heartbeat_interval_s,
        "heartbeat_timeout_s": fleet.config.heartbeat_timeout_s,
    }
    return Applied(result, (View("standing", (worker.id,)),))


def pick_ready(_fleet: Fleet, worker: Worker, _event: Event, _at_us: int) -> WorkerState:
    return WorkerState.RECOVERING if worker.ended_badly else WorkerState.IDLE


def do_ready(fleet: Fleet, worker: Worker, event: Event, at_us: int, _cup: Cup) -> Applied:
    worker.since_us = at_us
    fleet.place(worker, pick_ready(fleet, worker, event, at_us))
    return Applied(None, (View("standing", (worker.id,)),))


def check_recovered(fleet: Fleet, worker: Worker, event: WorkerIdle | WorkerLoading, _at_us: int) -> Refusal | None:
    if event.fence == fleet.generation:
        return None
    why = f"worker {worker.id} recovered for generation {event.fence} of the run, which is at {fleet.generation}"
    return Refusal("stale_token", why, "recover to where the run was rolled back to, then report again")


def do_enter_part(fleet: Fleet, worker: Worker, _event: Event, at_us: int, _cup: Cup) -> Applied:
    """Into any of the states in which a worker may arrive; which one makes no difference to the indexes."""
    worker.since_us = at_us
    worker.fell_back = False
    worker.reason = ""
    fleet.place(worker, WorkerState.IDLE)
    return Applied(None, (View("standing", (worker.id,)),))


def do_move(_fleet: Fleet, worker: Worker, _event: Event, at_us: int, _cup: Cup) -> Applied:
    """Between two states that barriers wait for."""
    worker.since_us = at_us
    return DONE


def do_lose(fleet: Fleet, worker: Worker, event: WorkerLost, at_us: int, _cup: Cup) -> Applied:
    worker.losses += 1
    return _end(fleet, worker, WorkerState.FAILED, event.reason, at_us)


def do_leave(fleet: Fleet, worker: Worker, event: WorkerLeft, at_us: int, _cup: Cup) -> Applied:
    return _end(fleet, worker, WorkerState.LEFT, event.reason, at_us)


def _end(fleet: Fleet, worker: Worker, state: WorkerState, reason: str, at_us: int) -> Applied:
    """One entry makes the worker gone, frees its rank, and ends every barrier's waiting for it."""
    worker.since_us = at_us
    worker.reason = reason
    worker.order = None
    fleet.give_rank(worker.rank)
    fleet.place(worker, state)
    return Applied(None, (View("standing", (worker.id,)),))


def do_fall_back(fleet: Fleet, worker: Worker, event: RunRolledBack, at_us: int, _cup: Cup) -> Applied:
    worker.since_us = at_us
    worker.fell_back = True
    worker.reason = event.reason
    fleet.place(worker, WorkerState.RECOVERING)
    return DONE


def do_order_one(fleet: Fleet, worker: Worker, event: WorkerOrdered, _at_us: int, _cup: Cup) -> Applied:
    fleet.orders += 1
    worker.order = Order(fleet.orders, event.command, event.arguments, fleet.generation)
    return Applied({"order": fleet.orders}, (View("order", (worker.id,)),))


# -- barriers ------------------------------------------------------------------------------------------------------


class Generation:
    """One generation of a barrier as the subject of its table; made for the moment, kept by ``Settled``."""

    __slots__ = ("barrier", "number", "state")

    def __init__(self, barrier: Barrier, number: int, state: BarrierState) -> None:
        self.barrier = barrier
        self.number = number
        self.state = state

    def called(self) -> str:
        return f"generation {self.number} of barrier {self.barrier.name}"


def find_generation(fleet: Fleet, event: BarrierReleased | BarrierAborted | BarrierDropped) -> Generation | Refusal:
    barrier = fleet.barriers.get(event.name) or Barrier(event.name, fleet.forgotten)
    if isinstance(event, BarrierDropped):
        return Generation(barrier, barrier.generation + 1, BarrierState.OPEN)
    if event.generation == barrier.generation + 1:
        return Generation(barrier, event.generation, BarrierState.OPEN)
    if event.generation > barrier.generation:
        why = f"barrier {event.name} is at generation {barrier.generation}; {event.generation} is not open yet"
        return Refusal("barrier_unknown", why, f"settle generation {barrier.generation + 1} first")
    known = next((s for s in barrier.settled if s.generation == event.generation), None)
    return Generation(barrier, event.generation, known.state if known else BarrierState.RELEASED)


def check_release(fleet: Fleet, generation: Generation, event: BarrierReleased, _at_us: int) -> Refusal | None:
    """Never early: whoever takes part must have arrived, and nobody else may be named."""
    arrived = set(event.seats)
    if len(arrived) != len(event.seats) or len(event.waits_us) != len(event.seats):
        why = f"{len(event.seats)} seats, {len(arrived)} different ones, {len(event.waits_us)} waits"
        return Refusal("contradiction", why, "name each seat once, with its wait")
    if arrived != fleet.taking_part.keys():
        missing = fleet.taking_part.keys() - arrived
        if missing:
            names = ", ".join(fleet.taking_part[seat].id for seat in sorted(missing)[:5])
            why = f"{generation.called()}: {len(missing)} have not arrived ({names})"
            return Refusal("barrier_early", why, "wait for them, or abort")
        return _strangers(generation, sorted(arrived - fleet.taking_part.keys()))
    if len(arrived) < fleet.config.barrier_min:
        why = f"{generation.called()}: {len(arrived)} take part and barrier_min = {fleet.config.barrier_min}"
        return Refusal("barrier_early", why, "wait for more, or abort")
    return None


def check_abort(fleet: Fleet, generation: Generation, event: BarrierAborted, _at_us: int) -> Refusal | None:
    named = event.seats + event.missing
    if len(set(named)) != len(named):
        return Refusal("contradiction", f"{generation.called()}: a seat is named twice", "name each seat once")
    return _strangers(generation, [seat for seat in named if seat not in fleet.by_seat])


def _strangers(generation: Generation, seats: list[int]) -> Refusal | None:
    if not seats:
        return None
    why = f"{generation.called()}: seats {seats[:5]} belong to nobody who takes part"
    return Refusal("contradiction", why, "name only those who are here")


def do_release(fleet: Fleet, generation: Generation, event: BarrierReleased, at_us: int, _cup: Cup) -> Applied:
    over = Settled(
        event.generation, BarrierState.RELEASED, event.step, at_us, event.seats, event.waits_us, [], "",
        fleet.generation,
    )  # fmt: skip
    generation.barrier.released += 1
    generation.barrier.step = event.step
    return _settle(fleet, generation.barrier, over)


def do_abort(fleet: Fleet, generation: Generation, event: BarrierAborted, at_us: int, _cup: Cup) -> Applied:
    over = Settled(
        event.generation, BarrierState.ABORTED, event.step, at_us, event.seats, [], event.missing, event.reason,
        fleet.generation,
    )  # fmt: skip
    generation.barrier.aborted += 1
    return _settle(fleet, generation.barrier, over)


def do_drop(fleet: Fleet, generation: Generation, event: BarrierDropped, at_us: int, _cup: Cup) -> Applied:
    """Who stands there is not in the journal: everybody who is here is told."""
    over = Settled(
        generation.number, BarrierState.ABORTED, 0, at_us, [], [], sorted(fleet.by_seat), event.reason,
        fleet.generation,
    )  # fmt: skip
    generation.barrier.aborted += 1
    return _settle(fleet, generation.barrier, over)


def _settle(fleet: Fleet, barrier: Barrier, over: Settled) -> Applied:
    barrier.generation = over.generation
    barrier.settled.append(over)
    if len(barrier.settled) > fleet.config.barrier_memory:
        del barrier.settled[0]
    fleet.barriers.pop(barrier.name, None)
    fleet.barriers[barrier.name] = barrier
    if len(fleet.barriers) > fleet.config.max_barriers:
        oldest = fleet.barriers.pop(next(iter(fleet.barriers)))
        fleet.forgotten = max(fleet.forgotten, oldest.generation)
    return Applied(None, (View(f"barrier/{barrier.name}", _Concerned(fleet, over)),))


class _Concerned:
    """The ids that a settled generation concerns, looked up only if somebody wants to tell them: a fold does not."""

    __slots__ = ("_fleet", "_over")

    def __init__(self, fleet: Fleet, over: Settled) -> None:
        self._fleet = fleet
        self._over = over

    def __iter__(self) -> Iterator[str]:
        by_seat = self._fleet.by_seat
        return iter([by_seat[s].id for s in (*self._over.seats, *self._over.missing) if s in by_seat])


# -- the run -------------------------------------------------------------------------------------------------------


def do_roll_back(fleet: Fleet, _run: Fleet, _event: RunRolledBack, _at_us: int, _cup: Cup) -> Applied:
    """The generation rises before anything else: nothing that happens from here on carries an older token."""
    fleet.generation += 1
    for barrier in fleet.barriers.values():
        barrier.step = -1
    everyone = tuple(fleet.by_seat[seat].id for seat in sorted(fleet.by_seat))
    return Applied({"fence": fleet.generation}, (View("standing", everyone),))


def do_stop(fleet: Fleet, _run: Fleet, event: RunStopped, _at_us: int, _cup: Cup) -> Applied:
    fleet.reason = event.reason
    return Applied(None, (View("standing", tuple(w.id for w in fleet.by_seat.values())),))
