"""What can happen to a fleet: durable events, and the volatile signals beside them.

A member sends exactly these types; there is no second set of request types to keep in step.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from quoracy.core.codec import ready
from quoracy.core.machine import By, Event, Join, MemberEvent, Signal
from quoracy.core.members import Counter, MemberId

BarrierName = Annotated[str, Meta(min_length=1, max_length=128)]
Reason = Annotated[str, Meta(max_length=256)]
Seats = Annotated[list[Counter], Meta(max_length=10_000)]
Waits = Annotated[list[Counter], Meta(max_length=10_000)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Name = Annotated[str, Meta(max_length=128)]
Plain = None | bool | int | float | str
Arguments = Annotated[dict[Name, Plain | list[Plain] | dict[str, Plain]], Meta(max_length=32)]
"""Two levels and no more: what a host could decode once it must be able to decode in every fold."""


MetricName = Annotated[str, Meta(max_length=64)]
Metrics = Annotated[dict[MetricName, Annotated[float, Meta(ge=-1e300, le=1e300)]], Meta(max_length=16)]
"""Finite numbers, and so few that a heartbeat stays small."""


class WorkerRegistered(Join, frozen=True, array_like=True, tag="worker-registered"):
    """A process reports for work. The fold assigns incarnation, rank and seat."""

    address: Annotated[str, Meta(max_length=255)] = ""
    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    labels: Annotated[dict[Name, Annotated[str, Meta(max_length=256)]], Meta(max_length=32)] = {}


class WorkerReady(MemberEvent, frozen=True, array_like=True, tag="worker-ready"):
    """Set up: barriers may wait for it. A worker whose last life ended badly has to recover first."""


class WorkerLoading(MemberEvent, frozen=True, array_like=True, tag="worker-loading"):
    """Fetches or splits its data."""

    fence: Counter = 0
    """The run's generation it works in; asked for when it has just recovered."""


class WorkerTraining(MemberEvent, frozen=True, array_like=True, tag="worker-training"):
    """Processes batches."""


class WorkerCheckpointing(MemberEvent, frozen=True, array_like=True, tag="worker-checkpointing"):
    """Persists its part."""


class WorkerIdle(MemberEvent, frozen=True, array_like=True, tag="worker-idle"):
    """Done with what it did; waits for work. Also how a recovering worker says that it is whole again."""

    fence: Counter = 0
    """The run's generation it recovered in: whoever recovered for an older one has to do it again."""


class WorkerLeft(MemberEvent, frozen=True, array_like=True, tag="worker-left"):
    """Says goodbye. Nobody waits for it any more."""

    reason: Reason = ""


class WorkerLost(Event, frozen=True, array_like=True, tag="worker-lost"):
    """The host gives up on a worker: its heartbeats stayed away."""

    member: MemberId
    incarnation: Counter
    silent_us: Counter
    reason: Reason


Command = Literal["stop", "pause", "resume", "reconfigure", "checkpoint"]


class WorkerOrdered(Event, frozen=True, array_like=True, tag="worker-ordered"):
    """An operator's order to one worker, or to all with an empty name. It rides on the answers to heartbeats until the
    worker says that it has it."""

    by: ClassVar[By] = By.OPERATOR
    member: Annotated[str, Meta(max_length=64)]
    command: Command
    arguments: Arguments = {}


class BarrierReleased(Event, frozen=True, array_like=True, tag="barrier-released"):
    """All who take part have arrived. ``seats`` in order of arrival, ``waits_us`` how long each stood there."""

    name: BarrierName
    generation: Counter
    step: Counter
    seats: Seats
    waits_us: Waits


class BarrierAborted(Event, frozen=True, array_like=True, tag="barrier-aborted"):
    """This generation will not be released. Those who stood there and those who were missing are told alike."""

    name: BarrierName
    generation: Counter
    step: Counter
    seats: Seats
    missing: Seats
    reason: Reason


class BarrierDropped(Event, frozen=True, array_like=True, tag="barrier-dropped"):
    """An operator ends the open generation of a barrier: whoever stands there, and whoever comes to it, is told that it
    is aborted."""

    by: ClassVar[By] = By.OPERATOR
    name: BarrierName
    reason: Reason


class RunRolledBack(Event, frozen=True, array_like=True, tag="run-rolled-back"):
    """Back to an earlier point. No counter is restored: the run's generation rises, and older tokens are void."""

    by: ClassVar[By] = By.OPERATOR
    reason: Reason


class RunStopped(Event, frozen=True, array_like=True, tag="run-stopped"):
    by: ClassVar[By] = By.OPERATOR
    reason: Reason


class Heartbeat(Signal, frozen=True, array_like=True, tag="heartbeat"):
    """I am alive. ``progress`` counts what the training itself did, so that alive but stuck is told apart from dead."""

    heartbeat: ClassVar[bool] = True
    seq: Counter
    step: Counter = 0
    epoch: Counter = 0
    progress: Counter = 0
    cpu: Share = 0.0
    gpu: Share = 0.0
    memory: Share = 0.0
    task: Annotated[str, Meta(max_length=128)] = ""
    order: Counter = 0
    """The number of the last order it has."""
    metrics: Metrics = {}
    """What the training measures, such as its loss: for people, nothing is decided by it."""


class Arrive(Signal, frozen=True, array_like=True, tag="arrive"):
    """I stand at the barrier. ``after`` is the last generation of it that the sender knows to be settled, so an arrival
    sent twice is told apart from a second visit; without it the step tells, and has to grow. ``fence`` is the run's
    generation, so an arrival from before a roll-back is told apart from one after."""

    barrier: BarrierName
    step: Counter
    after: Counter | None = None
    fence: Counter = 0

    def topic(self) -> str:
        return f"barrier/{self.barrier}"


ClusterEvent = (
    WorkerRegistered
    | WorkerReady
    | WorkerLoading
    | WorkerTraining
    | WorkerCheckpointing
    | WorkerIdle
    | WorkerLeft
    | WorkerLost
    | WorkerOrdered
    | BarrierReleased
    | BarrierAborted
    | BarrierDropped
    | RunRolledBack
    | RunStopped
)
ClusterSignal = Heartbeat | Arrive

WorkerEvent = WorkerReady | WorkerLoading | WorkerTraining | WorkerCheckpointing | WorkerIdle | WorkerLeft | WorkerLost


class HeartbeatSeen(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a heartbeat: which one, and the order that waits for the worker, if there is one."""

    seq: int
    order: int = 0
    command: str = ""
    arguments: dict[str, Any] = {}
    fence: int = 0


ready(ClusterEvent, ClusterSignal, HeartbeatSeen)
