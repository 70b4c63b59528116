"""What can happen in federated rounds: durable events, and the volatile signal beside them.

The calls of a participant are these: *rendezvous* is ``ParticipantJoined``, *end training round* is ``UpdateOffered``.
Starting a round needs no event: who is assigned is in the state, and everybody may ask for its own assignment.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from quoracy.core.codec import ready
from quoracy.core.machine import By, DutyEnded, Event, Join, MemberEvent, Signal
from quoracy.core.members import Counter, MemberId

MAX_REASON: Final = 256
MAX_NAME: Final = 64
MAX_NUMBERS: Final = 256
"""Of one metric in an offer, and of one list in a history."""
MAX_METRICS: Final = 32
MAX_AXES: Final = 8
MAX_WARNINGS: Final = 8
Reason = Annotated[str, Meta(max_length=MAX_REASON)]
Name = Annotated[str, Meta(max_length=MAX_NAME)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
Reals = Annotated[list[Real], Meta(max_length=MAX_NUMBERS)]


class Array(msgspec.Struct, frozen=True):
    """Numbers in more than one direction, such as a confusion matrix; row by row."""

    shape: Annotated[tuple[Annotated[int, Meta(ge=1, le=MAX_NUMBERS)], ...], Meta(max_length=MAX_AXES)]
    values: Reals


Metric = Real | Reals | Array
Metrics = Annotated[dict[Name, Metric], Meta(max_length=MAX_METRICS)]
"""Scalars or arrays, so few that an offer fits into one entry several times. Larger ones are an object."""
History = Annotated[dict[Name, Reals], Meta(max_length=MAX_METRICS)]
Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
"""A digest of weights, as people and object stores write it."""
RoundNumber = Annotated[int, Meta(ge=-1, le=2**31)]
"""-1 is the round in which one participant gives the initial weights."""


class ParticipantJoined(Join, frozen=True, array_like=True, tag="participant-joined"):
    """Rendezvous. A participant that was given up, or was started again, takes its old place: also in a round."""

    labels: Annotated[dict[Name, Annotated[str, Meta(max_length=256)]], Meta(max_length=32)] = {}
    initial: bool = False
    """It can give the weights that the first round begins with."""


class ParticipantLeft(MemberEvent, frozen=True, array_like=True, tag="participant-left"):
    reason: Reason = ""


class UpdateOffered(MemberEvent, frozen=True, array_like=True, tag="update-offered"):
    """The training is done and the weights are in the object store. Whether they count is said when they were fetched
    and looked at."""

    round: RoundNumber
    ticket: Counter
    samples: Counter
    digest: Hex
    size_bytes: Counter = 0
    metrics: Metrics = {}
    history: History = {}
    """Of each epoch, for people."""
    metrics_digest: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Of the object with metrics that are large, as the participant has brought it; empty if there are none."""
    warnings: Annotated[list[Reason], Meta(max_length=MAX_WARNINGS)] = []
    """Metrics that were left out, and why: by the participant itself, or by the door that this came through."""


class ParticipantLost(Event, frozen=True, array_like=True, tag="participant-lost"):
    """The host gives up on a participant: its heartbeats stayed away."""

    member: MemberId
    incarnation: Counter
    silent_us: Counter
    reason: Reason


class RoundBegan(Event, frozen=True, array_like=True, tag="round-began"):
    """Begins a round, or takes up one that was suspended; the fold draws who takes part, or who steps in."""

    round: RoundNumber


class RoundSuspended(Event, frozen=True, array_like=True, tag="round-suspended"):
    """Too few are left. What was admitted stays."""

    round: RoundNumber
    reason: Reason
    overdue: bool = False
    """Those who still train have taken too long, and are out of this round. The fold knows who they are: ten thousand
    names would not fit into an entry."""
    unseen: bool = False
    """Those whose updates could not be looked at for so long are out as well."""


class RoundClosed(Event, frozen=True, array_like=True, tag="round-closed"):
    """Nothing more is counted; what was admitted is aggregated."""

    round: RoundNumber
    reason: Reason
    samples_bound: Counter = 0
    """Updates that claim more samples than this count for so many; 0: none does. The fold knows which they are."""


class StandbyExpired(Event, frozen=True, array_like=True, tag="standby-expired"):
    """Nobody came for too long: the run pauses and says who is missing."""

    reason: Reason


class RunPaused(Event, frozen=True, array_like=True, tag="run-paused"):
    by: ClassVar[By] = By.OPERATOR
    reason: Reason = ""


class RunResumed(Event, frozen=True, array_like=True, tag="run-resumed"):
    by: ClassVar[By] = By.OPERATOR


class RunStopped(Event, frozen=True, array_like=True, tag="run-stopped"):
    by: ClassVar[By] = By.OPERATOR
    reason: Reason = ""


class ParticipantReadmitted(Event, frozen=True, array_like=True, tag="participant-readmitted"):
    """An operator lets a quarantined participant back in."""

    by: ClassVar[By] = By.OPERATOR
    member: MemberId


class Beat(Signal, frozen=True, array_like=True, tag="heartbeat"):
    """I am alive. ``progress`` counts what the training did, so that alive but stuck is told apart from dead."""

    heartbeat: ClassVar[bool] = True
    seq: Counter
    progress: Counter = 0
    epoch: Counter = 0
    metrics: Annotated[dict[Name, float], Meta(max_length=16)] = {}
    """Such as the loss so far: for people, nothing is decided by it. One that is not finite is not shown; a participant
    is not given up over it."""


class BeatSeen(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a heartbeat, with where the run stands for its sender."""

    seq: int
    phase: str
    round: int
    run_phase: str = ""
    """Of the run, whoever takes part in it: what those are told who wait."""
    reason: str = ""
    """Why it does not go on, if it does not."""


FederatedEvent = (
    ParticipantJoined
    | ParticipantLeft
    | UpdateOffered
    | ParticipantLost
    | RoundBegan
    | RoundSuspended
    | RoundClosed
    | StandbyExpired
    | RunPaused
    | RunResumed
    | RunStopped
    | ParticipantReadmitted
)
FederatedSignal = Beat
__all__ = ["DutyEnded", "FederatedEvent", "FederatedSignal"]


ready(FederatedEvent, FederatedSignal, BeatSeen)
