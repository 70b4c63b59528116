"""Random but valid histories of a fleet: what is refused is simply not written."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.core.scribe import HOST, Pair, Scribe, created

from quoracy.core.cluster.events import (
    BarrierAborted,
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
from quoracy.core.errors import Refusal
from quoracy.core.journal import CommandRefused, HostTook
from quoracy.core.kinds import KINDS
from quoracy.core.members import Cause

CONFIG: dict[str, Any] = {"max_workers": 4, "barrier_memory": 2, "max_barriers": 2, "barrier_min": 1}
MOVES = (WorkerReady, WorkerLoading, WorkerTraining, WorkerCheckpointing, WorkerIdle, WorkerLeft)
NO = Refusal("wrong_state", "no", "wait")

step = st.tuples(
    st.sampled_from(
        ["register"] * 4 + ["move"] * 12 + ["lost", "order", "order-all", "release", "release", "abort", "refused"]
        + ["roll-back"]
    ),
    st.integers(0, 5),
    st.integers(0, 5),
)  # fmt: skip
steps = st.lists(st.lists(step, min_size=1, max_size=4), min_size=1, max_size=14)


def pair(scribe: Scribe, what: str, who: int, which: int) -> Pair | None:
    """The event this step stands for, as things are now."""
    fleet = scribe.run.machine.fleet  # type: ignore[attr-defined]
    name = f"w{who}"
    life = scribe.run.machine.incarnation_of(name)
    known = scribe.run.roster.members.get(name)
    cause = Cause(name, life, known.seq + 1) if known else None
    operator = Cause("@op", 0, scribe.run.head.n * 100 + len(scribe.payloads) + which + 10 * who)
    seats = sorted(fleet.taking_part)
    barrier = f"b{which % 3}"
    settled = fleet.barriers[barrier].generation if barrier in fleet.barriers else 0
    match what:
        case "register":
            nonce = bytes([who, which, life % 256]) + bytes(13)
            return Cause(name, life, 0), WorkerRegistered(name, life, nonce, b"k", b"p", "host:1", which, {"a": "b"})
        case "move":
            move = MOVES[which]
            fence = (fleet.generation,) if move in (WorkerIdle, WorkerLoading) else ()
            return (cause, move(name, life, *fence)) if cause else None
        case "lost":
            return None, WorkerLost(name, life, 30_000_000, "silent")
        case "order":
            return operator, WorkerOrdered(name, "pause", {"why": which, "list": [1, None]})
        case "order-all":
            return operator, WorkerOrdered("", "stop")
        case "release":
            return None, BarrierReleased(barrier, settled + 1, which, seats, [5] * len(seats))
        case "abort":
            return None, BarrierAborted(barrier, settled + 1, which, seats[:1], seats[1:], "late")
        case "refused":
            return (cause, CommandRefused(NO)) if cause else None
        case "roll-back":
            return operator, RunRolledBack("worse")
        case "stop":
            return operator, RunStopped("enough")
        case "take":
            return None, HostTook(scribe.run.head.term + 1, HOST)
    raise AssertionError(what)


def write_history(entries: list[list[tuple[str, int, int]]], seeding: Any = "host") -> Scribe:
    scribe = Scribe(KINDS, created("cluster", CONFIG, seeding))
    for entry in entries:

        def pairs(entry: list[tuple[str, int, int]] = entry) -> Any:
            for one in entry:
                if (made := pair(scribe, *one)) is not None:
                    yield made

        scribe.try_each(pairs())
    return scribe


def busy_history() -> Scribe:
    """One fixed history with something of everything in it."""
    return write_history(
        [
            [("register", 0, 1), ("register", 1, 2), ("register", 2, 0)],
            [("move", 0, 0), ("move", 1, 0), ("move", 2, 0)],
            [("move", 0, 1), ("move", 1, 1), ("release", 0, 0)],
            [("move", 0, 2), ("order", 0, 3), ("refused", 1, 0)],
            [("release", 0, 0), ("release", 0, 1), ("lost", 2, 0)],
            [("roll-back", 0, 0), ("abort", 0, 1)],
            [("register", 2, 5), ("move", 2, 0), ("take", 0, 0)],
            [("move", 0, 4), ("move", 2, 4), ("move", 1, 5)],
            [("register", 0, 4), ("order-all", 0, 0), ("stop", 0, 0)],
            [("move", 0, 5)],
        ]
    )
