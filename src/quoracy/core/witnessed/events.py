"""What can happen in witnessed rounds: durable events, and the volatile signals beside them.

The calls of a member are these: *join* is ``MemberJoined``, *leave* ``MemberLeft``, *commit* ``ResultCommitted``,
*checkpoint done* ``CheckpointStored``. Those are commands: journaled, answered once. *Loaded*, *attest*, *holds*,
*model hash* and *health check* are signals: a collector gathers them, and what follows from them is journaled together
with the evidence, so that everybody who folds the journal can check that a quorum was there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from quoracy.core.codec import encode, ready
from quoracy.core.machine import By, Claim, Event, Join, MemberEvent, Signal
from quoracy.core.members import Counter, MemberId

MAX_MEMBERS = 1024
MAX_RESULTS = 4096

Reason = Annotated[str, Meta(max_length=256)]
Name = Annotated[str, Meta(max_length=64)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
"""BLAKE3: of a blob, or of a model's manifest."""
MaybeHash = Annotated[bytes, Meta(max_length=32)]
Signature = Annotated[bytes, Meta(max_length=64)]
Address = Annotated[str, Meta(max_length=128)]
"""``host:port`` where others can fetch from this member."""
Bits = Annotated[bytes, Meta(max_length=MAX_RESULTS)]
"""A bitmap, bit i of byte i // 8 (least significant first) for result i; or a Bloom filter."""
Index = Annotated[int, Meta(ge=0, le=MAX_RESULTS)]


def signed_by_trainer(
    run: str, epoch: int, round_: int, assignment: int, attempt: int, member: str, digest: bytes, base: bytes
) -> bytes:
    """The bytes a member signs when it commits: two signatures for one assignment and attempt, over different digests,
    prove that it told different things to different members."""
    return encode(("quoracy result", run, epoch, round_, assignment, attempt, member, digest, base))


# -- what members do -------------------------------------------------------------------------------------------------


class MemberJoined(Join, frozen=True, array_like=True, tag="member-joined"):
    addresses: Annotated[tuple[Address, ...], Meta(max_length=8)] = ()
    """Empty: nobody can reach it, so what it makes goes through the coordinator."""
    labels: Annotated[dict[Name, Annotated[str, Meta(max_length=256)]], Meta(max_length=32)] = {}


class MemberLeft(MemberEvent, frozen=True, array_like=True, tag="member-left"):
    reason: Reason = ""


class ResultCommitted(MemberEvent, frozen=True, array_like=True, tag="result-committed"):
    """The result of one assignment is this blob and no other. Said before anybody is sent the blob."""

    epoch: Counter
    round: Counter
    assignment: Index
    attempt: Counter
    digest: Hash
    """Of the blob, whose header holds run, epoch, round, assignment, attempt, batches and base."""
    size_bytes: Counter
    base: Hash
    """Hash of the model it was trained on."""
    samples: Counter
    loss: Real = 0.0
    signature: Signature = b""
    """Of ``signed_by_trainer``, with the key the member joined with."""

    def claim(self, run: str, key_of: Callable[[str], bytes]) -> Claim | None:
        said = signed_by_trainer(
            run, self.epoch, self.round, self.assignment, self.attempt, self.member, self.digest, self.base
        )
        return Claim(key_of(self.member), said, self.signature)


class CheckpointStored(MemberEvent, frozen=True, array_like=True, tag="checkpoint-stored"):
    epoch: Counter
    step: Counter
    model: Hash
    digest: Hash
    """Of the file in the object store."""
    size_bytes: Counter = 0
    seen: Literal["", "there", "missing"] = ""
    """What the coordinator saw when it looked for the file; empty: it cannot look there."""


class TwoFacedShown(MemberEvent, frozen=True, array_like=True, tag="two-faced-shown"):
    """``member`` shows that ``accused`` signed another result for an assignment than the one it committed to."""

    accused: MemberId
    epoch: Counter
    round: Counter
    assignment: Index
    attempt: Counter
    digest: Hash
    base: Hash
    signature: Signature

    def claim(self, run: str, key_of: Callable[[str], bytes]) -> Claim | None:
        """That of the accused."""
        said = signed_by_trainer(
            run, self.epoch, self.round, self.assignment, self.attempt, self.accused, self.digest, self.base
        )
        return Claim(key_of(self.accused), said, self.signature)


# -- what the host finds ---------------------------------------------------------------------------------------------


class MemberLost(Event, frozen=True, array_like=True, tag="member-lost"):
    member: MemberId
    incarnation: Counter
    silent_us: Counter
    reason: Reason


class Report(msgspec.Struct, frozen=True, array_like=True):
    """The model one life of a member has at a step."""

    member: MemberId
    incarnation: Counter
    step: Counter
    model: Hash


class Attested(msgspec.Struct, frozen=True, array_like=True):
    """What one life of a member said it holds, of the first ``known`` results of the round."""

    member: MemberId
    incarnation: Counter
    known: Index
    held: Bits


Reports = Annotated[tuple[Report, ...], Meta(max_length=MAX_MEMBERS)]
Attestations = Annotated[tuple[Attested, ...], Meta(max_length=MAX_MEMBERS)]


class WarmupBegan(Event, frozen=True, array_like=True, tag="warmup-began"):
    epoch: Counter


class WarmupEnded(Event, frozen=True, array_like=True, tag="warmup-ended"):
    """All have the model, or time is over. The first round begins, with those who have the same."""

    epoch: Counter
    loaded: Reports
    late: bool = False
    """Time is over: some have not reported."""


class TrainEnded(Event, frozen=True, array_like=True, tag="train-ended"):
    """A quorum of the elected witnesses holds every result of the round; or ``late``: time is over."""

    epoch: Counter
    round: Counter
    attested: Attestations
    late: bool = False


class WorkReopened(Event, frozen=True, array_like=True, tag="work-reopened"):
    """Whose work it was is gone, and nobody in step has its result: it is as if nothing had been committed. Everybody
    in step has said so, since it was committed."""

    epoch: Counter
    round: Counter
    assignment: Index
    attempt: Counter
    attested: Attestations
    holding: Attestations
    """Those who are no witnesses, and what they hold."""


class Inactive(msgspec.Struct, frozen=True, array_like=True):
    """Others in the round report that this member is inactive."""

    member: MemberId
    by: Annotated[bytes, Meta(max_length=MAX_MEMBERS // 8)]
    """Who: a bitmap over the round's roster."""


class RoundSealed(Event, frozen=True, array_like=True, tag="round-sealed"):
    """What counts is decided: results that a quorum of the elected witnesses holds, trained on the model that most
    have. The fold works out the set from the evidence, and draws the next round."""

    epoch: Counter
    round: Counter
    attested: Attestations
    holding: Attestations
    """Those who are no witnesses, and what they hold."""
    models: Reports
    """At the step at which the round began; of those who catch up, at some step not long before."""
    late: bool = False
    inactive: Annotated[tuple[Inactive, ...], Meta(max_length=MAX_MEMBERS)] = ()
    """Whom most of the others report as inactive. Each is removed if its own score in this round agrees."""


class ResultVoided(Event, frozen=True, array_like=True, tag="result-voided"):
    """Nobody has it any more: every member in step reports it missing. It is applied by nobody."""

    step: Counter
    """Of the sealed round."""
    result: Index
    missing_for: Annotated[tuple[MemberId, ...], Meta(max_length=MAX_MEMBERS)]


class ModelAgreed(Event, frozen=True, array_like=True, tag="model-agreed"):
    """In Cooldown: which model the epoch ended with."""

    step: Counter
    models: Reports
    late: bool = False


class Accusation(msgspec.Struct, frozen=True, array_like=True):
    """``member`` does not get from the accused what that one attested."""

    member: MemberId
    step: Counter
    """Of the sealed round."""
    result: Index
    """Its place in what was sealed."""


class MemberRemoved(Event, frozen=True, array_like=True, tag="member-removed"):
    """Most of the others find that it does not deliver what it attested, each of them a result that it did attest."""

    member: MemberId
    incarnation: Counter
    accusations: Annotated[tuple[Accusation, ...], Meta(max_length=MAX_MEMBERS)]
    reason: Reason


class CooldownEnded(Event, frozen=True, array_like=True, tag="cooldown-ended"):
    epoch: Counter
    late: bool = False


class RunPaused(Event, frozen=True, array_like=True, tag="run-paused"):
    by: ClassVar[By] = By.OPERATOR
    reason: Reason = ""


class RunResumed(Event, frozen=True, array_like=True, tag="run-resumed"):
    by: ClassVar[By] = By.OPERATOR


class RunStopped(Event, frozen=True, array_like=True, tag="run-stopped"):
    """Finishes the round, keeps a checkpoint, and is over."""

    by: ClassVar[By] = By.OPERATOR
    reason: Reason = ""


class MemberReadmitted(Event, frozen=True, array_like=True, tag="member-readmitted"):
    """An operator lets one back in that was removed for good."""

    by: ClassVar[By] = By.OPERATOR
    member: MemberId


# -- signals ---------------------------------------------------------------------------------------------------------


class Beat(Signal, frozen=True, array_like=True, tag="heartbeat"):
    """I am alive. ``progress`` counts what the training did, so that alive but stuck is told apart from dead."""

    heartbeat: ClassVar[bool] = True
    seq: Counter
    progress: Counter = 0
    metrics: Annotated[dict[Name, Real], Meta(max_length=16)] = {}


class Loaded(Signal, frozen=True, array_like=True, tag="loaded"):
    """I have the model of this step, and have tried to reach the others."""

    epoch: Counter
    step: Counter
    model: Hash


class Attest(Signal, frozen=True, array_like=True, tag="attest"):
    """A witness: of the first ``known`` results in the journaled list of this round, I hold these."""

    epoch: Counter
    round: Counter
    known: Index
    held: Bits


class Holds(Signal, frozen=True, array_like=True, tag="holds"):
    """The same from any member. ``missing``: sealed results of step ``step`` that nobody gave me."""

    epoch: Counter
    round: Counter
    known: Index
    held: Bits
    step: Counter = 0
    missing: Bits = b""


class ModelHash(Signal, frozen=True, array_like=True, tag="model-hash"):
    """The model I have at the beginning of the round of this step, optimizer state and all."""

    step: Counter
    model: Hash
    epoch: Counter = 0
    """After a roll-back steps are counted again, in a later epoch: what was said of them before is of the past."""
    voided: Counter = 0
    """How many results of the step before were void when it was made: what was made before one was void has it in."""


class HealthCheck(Signal, frozen=True, array_like=True, tag="health-check"):
    """These are unhealthy. With ``results``: they attested a sealed result of this step and do not deliver it. Without:
    they are inactive in the round of this step, which is the one that runs."""

    step: Counter
    accused: Annotated[tuple[MemberId, ...], Meta(max_length=64)]
    results: Annotated[tuple[Index, ...], Meta(max_length=64)] = ()
    """For each of the accused, one of those results, by its place in what was sealed; or none at all."""
    epoch: Counter = 0
    """In which that step was sealed, or runs."""


class BeatSeen(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    phase: str
    epoch: int
    round: int


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """The answer to every signal but a heartbeat that was taken in: where the run stood then. Nothing is left without
    an answer."""

    phase: str
    epoch: int
    round: int


WitnessedEvent = (
    MemberJoined
    | MemberLeft
    | ResultCommitted
    | CheckpointStored
    | TwoFacedShown
    | MemberLost
    | WarmupBegan
    | WarmupEnded
    | TrainEnded
    | WorkReopened
    | RoundSealed
    | ResultVoided
    | ModelAgreed
    | MemberRemoved
    | CooldownEnded
    | RunPaused
    | RunResumed
    | RunStopped
    | MemberReadmitted
)
WitnessedSignal = Beat | Loaded | Attest | Holds | ModelHash | HealthCheck
__all__ = ["WitnessedEvent", "WitnessedSignal", "signed_by_trainer"]


ready(WitnessedEvent, WitnessedSignal, BeatSeen, Taken)
