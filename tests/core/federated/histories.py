"""Random but valid histories of a federated run: what is refused is simply not written."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.core.scribe import HOST, Pair, Scribe, created

from quoracy.core.errors import Refusal
from quoracy.core.federated.events import (
    ParticipantJoined,
    ParticipantLeft,
    ParticipantLost,
    ParticipantReadmitted,
    RoundBegan,
    RoundClosed,
    RoundSuspended,
    RunPaused,
    RunResumed,
    RunStopped,
    StandbyExpired,
    UpdateOffered,
)
from quoracy.core.federated.state import Task
from quoracy.core.journal import CommandRefused, DutyDone, HostTook
from quoracy.core.kinds import KINDS
from quoracy.core.members import Cause

CONFIG: dict[str, Any] = {
    "clients": 2, "per_round": 3, "over_select": 0.5, "count_min": 2, "rounds": 3, "refused_max": 2,
    "time_max_s": 5.0, "standby_max_s": 3.0, "evaluation": "mine:score", "max_participants": 6,
}  # fmt: skip
NO = Refusal("wrong_state", "no", "wait")
OPERATOR = (RunPaused("lunch"), RunResumed(), RunResumed(), RunResumed())

step = st.tuples(
    st.sampled_from(
        ["join"] * 6 + ["offer"] * 12 + ["done"] * 14 + ["begin"] * 8 + ["close"] * 6 + ["suspend"] * 3 + ["expire"] * 2
        + ["lost"] * 2 + ["leave", "operator", "readmit", "refused", "repeat"]
    ),
    st.integers(0, 6),
    st.integers(0, 7),
)  # fmt: skip
steps = st.lists(st.lists(step, min_size=1, max_size=4), min_size=1, max_size=30)


def task_of(scribe: Scribe) -> Task:
    task = scribe.run.machine.task  # type: ignore[attr-defined]
    assert isinstance(task, Task)
    return task


def pair(scribe: Scribe, what: str, who: int, which: int) -> Pair | None:
    """The event this step stands for, as things are now."""
    task = task_of(scribe)
    name = f"p{who}"
    life = scribe.run.machine.incarnation_of(name)
    known = scribe.run.roster.members.get(name)
    cause = Cause(name, life, known.seq + 1) if known else None
    assignment = None if task.round is None else task.round.assignments.get(name)
    match what:
        case "join":
            nonce = bytes([who, which, life % 256]) + bytes(13)
            return Cause(name, life, 0), ParticipantJoined(name, life, nonce, labels={"a": "b"}, initial=who < 3)
        case "offer" | "repeat":
            ticket = 1 if assignment is None else assignment.ticket
            metrics: dict[str, Any] = {"loss": which / 3, "per_class": [0.1, float(which)]}
            number = task.number if what == "offer" else 0
            event = UpdateOffered(name, life, number, ticket, 1 + which, f"{which}" * 64, 10, metrics)
            return (cause, event) if cause else None
        case "leave":
            return (cause, ParticipantLeft(name, life, "bye")) if cause else None
        case "refused":
            return (cause, CommandRefused(NO)) if cause else None
        case "operator" | "readmit" | "stop":
            return _order(scribe, what, who, which)
    return _by_host(scribe, what, who, which)


def _order(scribe: Scribe, what: str, who: int, which: int) -> Pair:
    operator = Cause("@op", 0, scribe.run.head.n * 100 + len(scribe.payloads) + which + 10 * who)
    if what == "operator":
        return operator, OPERATOR[which % len(OPERATOR)]
    return operator, RunStopped("enough") if what == "stop" else ParticipantReadmitted(f"p{who}")


def _by_host(scribe: Scribe, what: str, who: int, which: int) -> Pair | None:
    number = task_of(scribe).number
    match what:
        case "done":
            duties = list(scribe.run.duties.values())
            return (None, _done(duties[which % len(duties)], which)) if duties else None
        case "begin":
            return None, RoundBegan(number)
        case "close":
            return None, RoundClosed(number, "enough")
        case "suspend":
            return None, RoundSuspended(number, "too few", which > 3)
        case "expire":
            return None, StandbyExpired("nobody came")
        case "lost":
            return None, ParticipantLost(f"p{who}", scribe.run.machine.incarnation_of(f"p{who}"), 30_000_000, "silent")
        case "take":
            return None, HostTook(scribe.run.head.term + 1, HOST)
    raise AssertionError(what)


def _done(duty: Any, which: int) -> DutyDone:
    """Mostly well."""
    good = which != 7
    match duty.what:
        case "admit":
            result: dict[str, Any] = {"ok": True, "norm": 1.5} if good else {"ok": False, "why": "nan"}
        case "aggregate":
            result = {"weights": f"{which}" * 64, "size_bytes": 9, "state": ""} if good else {"failed": "no room"}
        case _:
            result = {"metrics": {"score": which / 7}} if good else {"failed": "no such module"}
    return DutyDone(duty.entry, duty.index, result)


def write_history(entries: list[list[tuple[str, int, int]]], **config: Any) -> Scribe:
    scribe = Scribe(KINDS, created("federated", CONFIG | config))
    for entry in entries:

        def pairs(entry: list[tuple[str, int, int]] = entry) -> Any:
            for one in entry:
                if (made := pair(scribe, *one)) is not None:
                    yield made

        scribe.try_each(pairs())
    return scribe


def busy_history() -> Scribe:
    """One fixed history with something of everything in it."""
    joins = [("join", who, 0) for who in range(5)]
    offers = [("offer", who, who) for who in range(5)]
    round_ = [offers, *([[("done", 0, 0)]] * 5), [("close", 0, 0)], [("done", 0, 1)], [("done", 0, 2)]]
    return write_history(
        [
            joins, [("begin", 0, 0)], [("offer", 0, 3)], [("done", 0, 1)], [("close", 0, 0)], [("begin", 0, 0)],
            *round_, [("begin", 0, 0)], [("offer", 1, 1), ("offer", 0, 2)], [("done", 0, 7)], [("lost", 2, 0)],
            [("lost", 3, 0), ("lost", 4, 0)], [("suspend", 0, 0)], [("take", 0, 0)], *([[("refused", 1, 0)]] * 4),
            [("suspend", 0, 5)], [("expire", 0, 0)], [("operator", 0, 1)], [("join", 2, 4), ("join", 3, 4)],
            [("begin", 0, 0)], [("readmit", 1, 0)], [("operator", 0, 0), ("stop", 3, 3)],
        ]
    )  # fmt: skip
