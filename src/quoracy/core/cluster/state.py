"""What a fleet is: workers, barriers, and the settings they live under. Plain structs, written to snapshots as is."""

from __future__ import annotations

from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from quoracy.core.codec import ready
from quoracy.core.errors import ConfigError

Seconds = Annotated[float, Meta(ge=0.001, le=31_536_000)]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting with its default and why it is that."""

    max_workers: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """The next one is refused. The bound is what one barrier's release can name in one journal entry."""
    heartbeat_interval_s: Seconds = 5.0
    """How often a worker says that it is alive."""
    heartbeat_timeout_s: Seconds = 30.0
    """Silent for longer than this, a worker is given up. Six intervals, so that five lost heartbeats are forgiven."""
    stuck_after_s: Seconds = 120.0
    """A worker whose heartbeats go on while its training has not moved for so long is shown as stuck, not given up."""
    barrier_min: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """A barrier waits until so many take part, and is aborted when losses bring it below."""
    barrier_deadline_s: Seconds = 600.0
    """From the first arrival. Nobody waits for ever: past it the barrier is aborted for all, naming who was missing."""
    barrier_memory: Annotated[int, Meta(ge=1, le=1024)] = 16
    """How many settled generations of a barrier are remembered, for those who ask again."""
    max_barriers: Annotated[int, Meta(ge=1, le=10_000)] = 256
    """How many names of barriers are remembered. Beyond, the one that was settled longest ago is forgotten: a name per
    step works, since nobody passes so many barriers while somebody else still asks about the first."""
    open_barriers_max: Annotated[int, Meta(ge=1, le=1024)] = 8
    """At so many barriers may one worker stand at the same time: so nobody can take the room of others."""


def check_config(config: Config) -> None:
    if config.heartbeat_timeout_s < 2 * config.heartbeat_interval_s:
        interval = config.heartbeat_interval_s
        fix = f"at least twice heartbeat_interval_s ({interval}), or one lost heartbeat is a lost worker"
        raise ConfigError("heartbeat_timeout_s", config.heartbeat_timeout_s, fix)
    if config.barrier_min > config.max_workers:
        fix = f"at most max_workers ({config.max_workers}), or no barrier can ever be released"
        raise ConfigError("barrier_min", config.barrier_min, fix)


class Phase(Enum):
    OPEN = "Open"
    CLOSED = "Closed"


class WorkerState(Enum):
    ABSENT = "Absent"
    INITIALIZING = "Initializing"
    IDLE = "Idle"
    LOADING_DATA = "LoadingData"
    TRAINING = "Training"
    CHECKPOINTING = "Checkpointing"
    RECOVERING = "Recovering"
    FAILED = "Failed"
    LEFT = "Left"


class BarrierState(Enum):
    OPEN = "Open"
    RELEASED = "Released"
    ABORTED = "Aborted"


GONE = frozenset({WorkerState.ABSENT, WorkerState.FAILED, WorkerState.LEFT})
MAY_ARRIVE = frozenset({WorkerState.IDLE, WorkerState.LOADING_DATA, WorkerState.TRAINING, WorkerState.CHECKPOINTING})
"""The states in which a worker may stand at a barrier, and in which barriers wait for it."""


class Order(msgspec.Struct, frozen=True, array_like=True):
    number: int
    command: str
    arguments: dict[str, Any]
    fence: int


class Worker(msgspec.Struct, array_like=True):
    """The newest life of one id. ``seat`` is a number no other life ever has; ``rank`` is the lowest free one and is
    used again after a loss."""

    id: str
    incarnation: int
    state: WorkerState
    rank: int
    seat: int
    since_us: int
    registered_us: int
    address: str
    gpus: int
    labels: dict[str, str]
    ended_badly: bool
    """The life before this one was lost or superseded, not left: there is something to recover."""
    fell_back: bool = False
    """It recovers because the run was rolled back, as all others do: barriers wait for it."""
    reason: str = ""
    losses: int = 0
    order: Order | None = None

    def called(self) -> str:
        return f"worker {self.id}"

    def takes_part(self, state: WorkerState) -> bool:
        """Whether barriers wait for it in that state. One that sets itself up, or recovers from the end of its last
        life, holds nobody up."""
        return state in MAY_ARRIVE or (state is WorkerState.RECOVERING and self.fell_back)


class Settled(msgspec.Struct, frozen=True, array_like=True):
    """A generation that is over."""

    generation: int
    state: BarrierState
    step: int
    at_us: int
    seats: list[int]
    waits_us: list[int]
    missing: list[int]
    reason: str
    fence: int
    """The run's generation at the time: what was settled before a roll-back answers nobody after it."""

    def place(self, seat: int) -> int:
        """The seat's place in the order of arrival, from 0; -1 for one that was missing; -2 for one not concerned."""
        if seat in self.seats:
            return self.seats.index(seat)
        return -1 if seat in self.missing else -2


class Barrier(msgspec.Struct, array_like=True):
    name: str
    generation: int = 0
    """The newest settled one."""
    step: int = -1
    """Of the newest release; -1 before the first, and after a roll-back."""
    released: int = 0
    aborted: int = 0
    settled: list[Settled] = []

    def answer_for(self, seat: int, after: int, fence: int) -> Settled | None:
        """The oldest remembered generation past ``after`` that concerns the seat. After a roll-back ``after`` may be
        from before it: a session that goes on in another process knows only what its script was told."""
        past = (s for s in self.settled if s.generation > after and s.fence == fence)
        return next((s for s in past if s.place(seat) > -2), None)

    def newest_release(self, fence: int) -> Settled | None:
        """If it is remembered, and not from before a roll-back."""
        releases = (s for s in reversed(self.settled) if s.state is BarrierState.RELEASED)
        newest = next(releases, None)
        return newest if newest is not None and newest.fence == fence else None

    def forgot(self, after: int) -> bool:
        """Whether a generation past ``after`` is no longer remembered."""
        return bool(self.settled) and self.settled[0].generation > after + 1


class Fleet(msgspec.Struct):
    """The whole state, and a few indexes over it that are rebuilt when it is restored."""

    config: Config
    state: Phase = Phase.OPEN
    generation: int = 0
    """Of the run: raised by a roll-back, names the tokens that are still valid."""
    seats: int = 0
    orders: int = 0
    reason: str = ""
    workers: dict[str, Worker] = {}
    barriers: dict[str, Barrier] = {}
    """By name, in the order in which they were last settled."""
    forgotten: int = 0
    """The highest generation of a barrier that is no longer remembered. A name that is new, or new again, goes on from
    there, so that no generation of a name is ever settled twice."""
    by_seat: dict[int, Worker] = {}
    """Index: those that are not gone."""
    taking_part: dict[int, Worker] = {}
    """Index: those that barriers wait for."""
    free_ranks: list[int] = []
    """Index: a heap of ranks below ``next_rank`` that nobody has."""
    next_rank: int = 0

    def called(self) -> str:
        return "the run"

    def settled_of(self, name: str) -> int:
        """The newest generation of this barrier that may be settled."""
        barrier = self.barriers.get(name)
        return self.forgotten if barrier is None else barrier.generation

    def take_rank(self) -> int:
        if self.free_ranks:
            return heappop(self.free_ranks)
        self.next_rank += 1
        return self.next_rank - 1

    def give_rank(self, rank: int) -> None:
        heappush(self.free_ranks, rank)

    def place(self, worker: Worker, state: WorkerState) -> None:
        """Keep the indexes true to the state the worker is about to be in."""
        if state in GONE:
            self.by_seat.pop(worker.seat, None)
        else:
            self.by_seat[worker.seat] = worker
        if worker.takes_part(state):
            self.taking_part[worker.seat] = worker
        else:
            self.taking_part.pop(worker.seat, None)

    def rebuild(self) -> None:
        """The indexes, from nothing but the state. Nothing may depend on their order: whoever walks them sorts."""
        present = sorted((w for w in self.workers.values() if w.state not in GONE), key=lambda w: w.seat)
        self.by_seat = {w.seat: w for w in present}
        self.taking_part = {w.seat: w for w in present if w.takes_part(w.state)}
        used = {w.rank for w in present}
        self.next_rank = max(used, default=-1) + 1
        self.free_ranks = [rank for rank in range(self.next_rank) if rank not in used]
        heapify(self.free_ranks)


ready(Order)
