"""The tables of a fleet: run, worker, barrier. What is not listed here cannot happen.

Every event passes the run's table first, which closes the door on all of them once the run is stopped; most then move
a worker or settle a generation of a barrier. A release does both: those who arrived go on as ``Training``.
"""

from __future__ import annotations

from collections.abc import Iterable

from quoracy.core.cluster import rules
from quoracy.core.cluster.events import (
    BarrierAborted,
    BarrierDropped,
    BarrierReleased,
    RunRolledBack,
    RunStopped,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerLost,
    WorkerOrdered,
    WorkerReady,
    WorkerRegistered,
    WorkerTraining,
)
from quoracy.core.cluster.state import BarrierState, Phase, WorkerState
from quoracy.core.machine import Choose, Event, Ignore, Refuse, Row, Table, To

S = WorkerState
WORKER_EVENTS: tuple[type[Event], ...] = (
    WorkerRegistered, WorkerReady, WorkerLoading, WorkerTraining, WorkerCheckpointing, WorkerIdle, WorkerLeft,
    WorkerLost, WorkerOrdered, RunRolledBack, BarrierReleased,
)  # fmt: skip
BARRIER_EVENTS: tuple[type[Event], ...] = (BarrierReleased, BarrierAborted, BarrierDropped)
RUN_EVENTS: tuple[type[Event], ...] = (*dict.fromkeys((*WORKER_EVENTS, *BARRIER_EVENTS)), RunStopped)

PRESENT = (S.INITIALIZING, S.IDLE, S.LOADING_DATA, S.TRAINING, S.CHECKPOINTING, S.RECOVERING)
Rows = dict[tuple[WorkerState, type[Event]], Row]


def _each(states: Iterable[WorkerState], event: type[Event], row: Row) -> Rows:
    return {(state, event): row for state in states}


def _same(state: WorkerState, event: type[Event]) -> Rows:
    return {(state, event): Ignore("it is there already")}


def _cannot(states: Iterable[WorkerState], event: type[Event], why: str, fix: str) -> Rows:
    return _each(states, event, Refuse("wrong_state", why, fix))


_GONE_WHY = "this life is over"
_GONE_FIX = "register again to begin a new one"

_worker: Rows = {
    # Registering begins a life; a present worker's is cut short, which the new one has to recover from.
    **_each((S.ABSENT,), WorkerRegistered, To(S.INITIALIZING, "reports for work", rules.do_register, rules.check_room)),
    **_each((S.FAILED, S.LEFT), WorkerRegistered, To(S.INITIALIZING, "returns", rules.do_register, rules.check_room)),
    **_each(PRESENT, WorkerRegistered, To(S.INITIALIZING, "supersedes its older life", rules.do_register)),
    # Becoming ready.
    (S.INITIALIZING, WorkerReady): Choose(
        rules.pick_ready, (S.IDLE, S.RECOVERING), "set up; recovers if its last life ended badly", rules.do_ready
    ),
    **_same(S.IDLE, WorkerReady),
    **_cannot((S.LOADING_DATA, S.TRAINING, S.CHECKPOINTING), WorkerReady, "it was ready before", "nothing"),
    **_cannot((S.RECOVERING,), WorkerReady, "it has to recover first", "report idle or loading when it is whole"),
    # Loading.
    (S.IDLE, WorkerLoading): To(S.LOADING_DATA, "has work", rules.do_move),
    (S.RECOVERING, WorkerLoading): To(
        S.LOADING_DATA, "recovered, goes on with its work", rules.do_enter_part, rules.check_recovered
    ),
    **_same(S.LOADING_DATA, WorkerLoading),
    **_cannot((S.INITIALIZING,), WorkerLoading, "it is not set up", "report ready first"),
    (S.TRAINING, WorkerLoading): To(S.LOADING_DATA, "fetches more data", rules.do_move),
    **_cannot((S.CHECKPOINTING,), WorkerLoading, "it writes its part", "report training or idle first"),
    # Training: as it says itself, or because it has passed a barrier without having said what it does.
    (S.IDLE, WorkerTraining): To(S.TRAINING, "has all it needs", rules.do_move),
    (S.LOADING_DATA, WorkerTraining): To(S.TRAINING, "has its data", rules.do_move),
    (S.CHECKPOINTING, WorkerTraining): To(S.TRAINING, "its part is written, goes on", rules.do_move),
    **_same(S.TRAINING, WorkerTraining),
    **_cannot((S.INITIALIZING,), WorkerTraining, "it is not set up", "report ready first"),
    **_cannot((S.RECOVERING,), WorkerTraining, "it has to recover first", "report idle or loading when it is whole"),
    (S.IDLE, BarrierReleased): To(S.TRAINING, "has passed a barrier", rules.do_move),
    **_same(S.TRAINING, BarrierReleased),
    **_each((S.LOADING_DATA, S.CHECKPOINTING), BarrierReleased, Ignore("it has said itself what it does")),
    **_each(
        (S.ABSENT, S.INITIALIZING, S.RECOVERING, S.FAILED, S.LEFT), BarrierReleased,
        Ignore("it cannot stand at a barrier"),
    ),
    # Checkpointing.
    (S.TRAINING, WorkerCheckpointing): To(S.CHECKPOINTING, "writes its part", rules.do_move),
    **_same(S.CHECKPOINTING, WorkerCheckpointing),
    **_cannot(
        (S.INITIALIZING, S.IDLE, S.LOADING_DATA, S.RECOVERING), WorkerCheckpointing,
        "there is nothing to write", "checkpoint while training",
    ),
    # Idling.
    **_each((S.LOADING_DATA, S.TRAINING, S.CHECKPOINTING), WorkerIdle, To(S.IDLE, "is done", rules.do_move)),
    (S.RECOVERING, WorkerIdle): To(S.IDLE, "recovered", rules.do_enter_part, rules.check_recovered),
    **_same(S.IDLE, WorkerIdle),
    **_cannot((S.INITIALIZING,), WorkerIdle, "it is not set up", "report ready first"),
    # Going.
    **_each(PRESENT, WorkerLost, To(S.FAILED, "its heartbeats stayed away", rules.do_lose)),
    **_each(PRESENT, WorkerLeft, To(S.LEFT, "said goodbye", rules.do_leave)),
    **_same(S.LEFT, WorkerLeft),
    **_each((S.FAILED,), WorkerLeft, Refuse("member_gone", "it was given up before it left", "nothing: it is gone")),
    **_each((S.FAILED, S.LEFT), WorkerLost, Refuse("member_gone", _GONE_WHY, "nothing: it is gone")),
    # Rolling back.
    **_each(
        (S.IDLE, S.LOADING_DATA, S.TRAINING, S.CHECKPOINTING), RunRolledBack,
        To(S.RECOVERING, "what it did is void", rules.do_fall_back),
    ),
    **_each((S.INITIALIZING, S.RECOVERING), RunRolledBack, Ignore("it holds nothing that is void")),
    **_each((S.ABSENT, S.FAILED, S.LEFT), RunRolledBack, Ignore("it is not here")),
    # Orders.
    **{(state, WorkerOrdered): To(state, "is given an order", rules.do_order_one) for state in PRESENT},
    **_each((S.FAILED, S.LEFT), WorkerOrdered, Refuse("member_gone", _GONE_WHY, "order one that is here")),
    # Those who are gone, or never came, can do nothing but register.
    **{
        (state, event): Refuse("member_gone", _GONE_WHY, _GONE_FIX)
        for state in (S.FAILED, S.LEFT)
        for event in (WorkerReady, WorkerLoading, WorkerTraining, WorkerCheckpointing, WorkerIdle)
    },
    **{
        (S.ABSENT, event): Refuse("unknown_worker", "nobody of that id has registered", "register first")
        for event in WORKER_EVENTS
        if event not in (WorkerRegistered, RunRolledBack, BarrierReleased)
    },
}  # fmt: skip

B = BarrierState
_settled = Refuse("barrier_settled", "a generation is settled once", "go on with the next generation")
_barrier: dict[tuple[BarrierState, type[Event]], Row] = {
    (B.OPEN, BarrierReleased): To(B.RELEASED, "all who take part have arrived", rules.do_release, rules.check_release),
    (B.OPEN, BarrierAborted): To(B.ABORTED, "too few are left, or the time is over", rules.do_abort, rules.check_abort),
    (B.OPEN, BarrierDropped): To(B.ABORTED, "an operator ended it", rules.do_drop),
    **{(state, event): _settled for state in (B.RELEASED, B.ABORTED) for event in BARRIER_EVENTS},
}

_closed = Refuse("run_closed", "nothing more can happen in it", "leave; to go on, create a new run")
_run: dict[tuple[Phase, type[Event]], Row] = {
    **{(Phase.OPEN, event): Ignore("goes on to the worker's table") for event in WORKER_EVENTS},
    **{(Phase.OPEN, event): Ignore("goes on to the barrier's table") for event in BARRIER_EVENTS},
    (Phase.OPEN, BarrierReleased): Ignore("goes on to the barrier's table, then to the table of each who arrived"),
    (Phase.OPEN, RunRolledBack): To(
        Phase.OPEN, "older tokens are void; goes on to each worker's table", rules.do_roll_back
    ),
    (Phase.OPEN, RunStopped): To(Phase.CLOSED, "an operator ended it", rules.do_stop),
    **{(Phase.CLOSED, event): _closed for event in RUN_EVENTS},
    (Phase.CLOSED, WorkerLeft): Ignore("goes on to the worker's table: those who are still here may say goodbye"),
    (Phase.CLOSED, WorkerLost): Ignore("goes on to the worker's table: those who died are not kept for ever"),
    (Phase.CLOSED, RunStopped): Ignore("it is there already"),
}

RUN = Table("run", Phase, RUN_EVENTS, Phase.OPEN, _run)
WORKER = Table("worker", WorkerState, WORKER_EVENTS, WorkerState.ABSENT, _worker)
BARRIER = Table("barrier generation", BarrierState, BARRIER_EVENTS, BarrierState.OPEN, _barrier)
TABLES = (RUN, WORKER, BARRIER)
