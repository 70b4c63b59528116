"""What witnessed runs look like as JSON: members, the round that is open, rounds that were sealed, epochs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from quoracy.core.members import Counter, MemberId


class Member(msgspec.Struct, frozen=True):
    """Of a witnessed run."""

    id: str
    state: str
    incarnation: int
    strikes: int = 0
    """Bad rounds in a row."""
    score: int | None = None
    """So many witnesses held its last work, of ``of``; null if it has done none."""
    of: int | None = None
    speed: int | None = None
    """Relative to the fastest, which has 1000."""
    reason: str = ""
    silent_s: float | None = None
    stuck_s: float = 0.0
    progress: int | None = None
    metrics: dict[str, float] = {}
    witness: bool = False
    """In the round that is open."""
    keyed: bool = False
    """It joined with a key, and signs what it commits to."""
    addresses: list[str] = []
    labels: dict[str, str] = {}
    model: str = ""
    """The hash it reported last."""


class Assignment(msgspec.Struct, frozen=True):
    assignment: int
    attempt: int
    member: str
    batches: list[Annotated[list[int], Meta(min_length=2, max_length=2)]]
    """First, and one past the last, of each stretch."""
    committed: bool = False


class OpenWitnessedRound(msgspec.Struct, frozen=True):
    round: int
    step: int
    roster: list[str]
    witnesses: list[str]
    """Elected; a quorum is counted over all of them."""
    attested: list[str]
    """Who of them has attested so far."""
    results: int
    """Committed so far."""
    assignments: list[Assignment] = []
    missing: list[str] = []
    """Whose word is awaited."""


class SealedRound(msgspec.Struct, frozen=True):
    """A round that is over."""

    step: int
    epoch: int
    round: int
    loss: float | None = None
    """Mean over its samples, as the trainers said."""
    samples: int = 0
    results: int = 0
    """Applied."""
    late: bool = False
    """Time was over before a quorum had everything."""
    train_s: float = 0.0
    witness_s: float = 0.0
    done_s: float = 0.0
    """In run time."""
    model: str = ""
    """The hash that most had when it began."""


class Account(msgspec.Struct, frozen=True):
    """Of batches: each that was ever given out is one of these."""

    applied: int = 0
    open: int = 0
    """In the round that is open."""
    waiting: int = 0
    """For the next round."""
    skipped: int = 0
    reasons: dict[str, int] = {}
    """Why so many were skipped."""


class Checkpoint(msgspec.Struct, frozen=True):
    """Where the model is."""

    source: str
    """initial: made from the settings; stored: in the object store; p2p: with the members."""
    step: int
    model: str = ""
    digest: str = ""
    size_bytes: int = 0
    holders: list[str] = []


class Epoch(msgspec.Struct, frozen=True):
    """An epoch that is over."""

    epoch: int
    began_s: float
    """In run time."""
    ended_s: float
    first_step: int
    step: int
    """After it."""
    rounds: int
    roster: list[str]
    """Who took part."""
    checkpoint: Checkpoint
    account: Account
    """When it ended."""
    because: str
    """Why it ended."""


class Epochs(msgspec.Struct, frozen=True):
    epochs: list[Epoch]
    """Oldest first; of a long run the last few."""
    next: str | None
    of: int
    """How many there were in all."""


class Asking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member that asks for samples."""

    member: MemberId
    incarnation: Counter = 1


BatchesAsked = Annotated[str, Meta(pattern=r"^[0-9]{1,15}-[0-9]{1,15}$")]
