"""What can happen among equal ranks: they come, they go, and together they decide attempt after attempt."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from quoracy.core.codec import ready
from quoracy.core.machine import By, Event, Join, MemberEvent, Signal
from quoracy.core.members import Counter, MemberId

Reason = Annotated[str, Meta(max_length=256)]
Seats = Annotated[list[Counter], Meta(max_length=4096)]
Outcome = Literal["formed", "committed", "repeated"]
"""formed: nothing was tried yet by those who go on. committed: all who were in said yes. repeated: somebody did not."""


class RankJoined(Join, frozen=True, array_like=True, tag="rank-joined"):
    """A process takes a rank. A learner has to fetch the model before it is counted in."""

    learner: bool = False
    address: Annotated[str, Meta(max_length=255)] = ""


class RankReady(MemberEvent, frozen=True, array_like=True, tag="rank-ready"):
    """A learner holds the model now: the next record counts it in."""


class RankLeft(MemberEvent, frozen=True, array_like=True, tag="rank-left"):
    """Says goodbye. Nobody waits for it any more."""

    reason: Reason = ""


class AttemptDecided(Event, frozen=True, array_like=True, tag="attempt-decided"):
    """The record of one attempt: who was in, who said no, who is gone and why, and what came of it. There is one for
    each attempt, because there is one entry of each number; whoever wrote it, everybody adopts it."""

    number: Counter
    """Of the iteration that was tried."""
    outcome: Outcome
    arrived: Seats
    """Who is still in, by seat, in order of arrival."""
    against: Seats
    """Those of them who said no."""
    gone: Annotated[list[tuple[Counter, Reason]], Meta(max_length=4096)]
    """Whom the decider has given up, and why; also of those who waited to be counted in."""
    decider: MemberId
    waits_us: Annotated[list[Counter], Meta(max_length=4096)] = []
    """How long each of ``arrived`` had stood there when the decider proposed this, by its clock. When somebody came it
    knows from how long that one was at the attempt, which began for all when the record before was there."""


class RunStopped(Event, frozen=True, array_like=True, tag="run-stopped"):
    by: ClassVar[By] = By.OPERATOR
    reason: Reason = ""


class RankBeat(Signal, frozen=True, array_like=True, tag="rank-beat"):
    """I am alive."""

    seq: Counter


class RankArrived(Signal, frozen=True, array_like=True, tag="rank-arrived"):
    """I am done with this attempt, and for or against it."""

    attempt: Counter
    ok: bool
    tried_us: Counter = 0
    """How long it was at it, by its own clock; 0 if it does not say. A duration: no two clocks are compared."""

    def topic(self) -> str:
        return "attempt"


RanksEvent = RankJoined | RankReady | RankLeft | AttemptDecided | RunStopped
RanksSignal = RankBeat | RankArrived


class Iteration(msgspec.Struct, frozen=True):
    """What a rank is shown: where everybody stands."""

    attempt: int
    number: int
    members: list[str]
    learners: list[str]
    state: str
    incarnation: int
    index: int
    """Its own place among ``members``; -1 if it is not one of them."""
    reason: str
    closed: bool
    before: Any = None
    """How the last attempt ended, as the decision log has it."""


ready(RanksEvent, RanksSignal)
