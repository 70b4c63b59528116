"""The state of a witnessed run: its course, its members, the round that is open, and what came before."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from quoracy.core.witnessed.account import Account, Span
from quoracy.core.witnessed.attestation import Scheme
from quoracy.core.witnessed.committee import Ranges
from quoracy.core.witnessed.config import Config

KEPT: Final = 8
"""Applied rounds that members keep the results of, so that who lost the thread can catch up."""
EPOCHS_KEPT: Final = 16
ROUNDS_KEPT: Final = 200
"""Rounds whose figures are in the state, for people."""
TIMED: Final = 8
"""Rounds from which is judged how long rounds take."""


class Phase(Enum):
    WAITING = "WaitingForMembers"
    WARMUP = "Warmup"
    TRAIN = "RoundTrain"
    WITNESS = "RoundWitness"
    COOLDOWN = "Cooldown"
    PAUSED = "Paused"
    FINISHED = "Finished"


ROUNDS: Final = frozenset({Phase.TRAIN, Phase.WITNESS})
EPOCH: Final = frozenset({Phase.WARMUP, Phase.TRAIN, Phase.WITNESS, Phase.COOLDOWN})
"""While an epoch runs: who comes now waits for the next one."""


class MemberState(Enum):
    ABSENT = "Absent"
    PENDING = "Pending"
    WARMING = "Warming"
    IN_STEP = "InStep"
    RESYNCING = "Resyncing"
    LEFT = "Left"
    LOST = "Lost"
    REMOVED = "Removed"
    DONE = "Done"


TAKING_PART: Final = frozenset({MemberState.WARMING, MemberState.IN_STEP, MemberState.RESYNCING})
HERE: Final = TAKING_PART | {MemberState.PENDING}


class Member(msgspec.Struct, array_like=True):
    id: str
    incarnation: int
    state: MemberState
    seat: int
    """In order of first joining."""
    since_us: int
    """In this state."""
    key: bytes = b""
    addresses: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    epoch: int = -1
    """The newest epoch that it took part in: who comes back in it may catch up."""
    stepped: int = -1
    """The newest epoch in which this life was in step: it may have the model."""
    reason: str = ""
    strikes: int = 0
    """Bad rounds in a row."""
    ejected: bool = False
    """Proven to lie: an operator has to let it back in."""
    pace: int = 0
    """Batches in 1,000 seconds, a moving average; 0 if it was never timed."""
    held: int = 0
    """Witnesses that held its last work..."""
    elected: int = 0
    """...of so many; 0 if it has done none yet."""
    losses: int = 0

    def called(self) -> str:
        return f"member {self.id}"


class Work(msgspec.Struct, array_like=True):
    """One assignment of the open round, and whose it is now."""

    index: int
    attempt: int
    member: str
    incarnation: int
    batches: Ranges
    began_us: int
    result: int = -1
    """Its place in the round's list, once it is committed."""


class Given(msgspec.Struct, frozen=True, array_like=True):
    """A result as it was committed."""

    assignment: int
    attempt: int
    member: str
    digest: bytes
    size_bytes: int
    base: bytes
    samples: int
    loss: float
    batches: Ranges
    salt: bytes = b""
    """Drawn when it was taken in, so that nobody could know it who made a result of the list that ends with this one.
    Only filters need it."""


class Round(msgspec.Struct, array_like=True):
    """Its roster never changes: who is lost stays in it, and nobody's place shifts."""

    epoch: int
    number: int
    step: int
    seed: bytes
    roster: tuple[str, ...]
    lives: tuple[int, ...]
    """The incarnation of each of the roster when the round began."""
    speeds: tuple[int, ...]
    spans: list[Span]
    witness_nodes: int
    witnesses: tuple[str, ...]
    began_us: int
    allowed_us: int
    """How long its training may take."""
    works: list[Work]
    results: list[Given] = []
    moved: list[tuple[int, int, str]] = []
    ended_us: int = -1
    """When its training ended."""
    late: bool = False
    """Its training ended because time was over."""
    forsaken: list[int] = []
    """Places in the list of results that nobody has, and that count no more: their work is done again."""

    def called(self) -> str:
        return f"round {self.number} of epoch {self.epoch}"


class Claimed(msgspec.Struct, frozen=True, array_like=True):
    """What one life attested: bit i of ``mask`` for result i of the list."""

    member: str
    incarnation: int
    mask: bytes


class Past(msgspec.Struct, array_like=True):
    """A round that is over: what its results were, who attested them, and which of them count."""

    epoch: int
    number: int
    step: int
    seed: bytes
    model: bytes
    """The hash most had when it began; empty if most had none."""
    results: list[Given]
    positions: list[int]
    """Of those that count in ``results``, in the order in which they are applied. None: the round was not applied."""
    claims: list[Claimed]
    all_hold: bool
    """Everybody in step said that it has all of them."""
    voided: list[int] = []


class Sealed(msgspec.Struct, frozen=True, array_like=True):
    """The figures of a round that is over, for people and scripts."""

    step: int
    epoch: int
    number: int
    applied: bool
    loss: float
    samples: int
    results: int
    batches: int
    """Applied."""
    back: int
    """Batches that wait again, or are skipped."""
    late: bool
    train_us: int
    witness_us: int
    sealed_us: int
    model: bytes
    rolled_back: bool = False


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where the model of a step is: initial, stored, or p2p, which is with the members."""

    source: str
    step: int
    model: bytes = b""
    digest: bytes = b""
    size_bytes: int = 0


class Storing(msgspec.Struct, frozen=True, array_like=True):
    """In Cooldown: a model was agreed on, and this member is to store it."""

    member: str
    """Empty: nobody has to."""
    incarnation: int
    drawn_us: int
    draws: int = 1


class EpochPast(msgspec.Struct, frozen=True, array_like=True):
    number: int
    began_us: int
    ended_us: int
    first_step: int
    step: int
    rounds: int
    roster: tuple[str, ...]
    """Who took part."""
    checkpoint: Place
    applied: int
    """Of the account when it ended."""
    skipped: int
    moved: int
    waiting: int
    because: str


class Course(msgspec.Struct):
    """The whole state, and a few indexes over it that are rebuilt when it is restored."""

    config: Config
    place: Place
    """The model that the next epoch begins with."""
    stored: Place
    """The last one in the object store, or the initial one."""
    older: list[Place] = []
    """Those before it, oldest first: what was said to be stored may not be there when somebody needs it."""
    state: Phase = Phase.WAITING
    epoch: int = 0
    """That is under way or comes next."""
    number: int = 0
    """Of the round that is under way or comes next, in this epoch."""
    step: int = 0
    """Rounds applied since the run began."""
    at_us: int = 0
    """The newest event's time."""
    since_us: int = 0
    """When the phase began."""
    reason: str = ""
    met_us: int = -1
    """WaitingForMembers: since when the least are there; -1 while they are not."""
    pausing: str | None = None
    stopping: str | None = None
    seats: int = 0
    roll_backs: int = 0
    barren: int = 0
    """Warm-ups in a row in which nobody at all had the model."""
    holders: list[tuple[str, int]] = []
    """Lives that have the model of ``place``, where it is p2p."""
    newest: Place | None = None
    """In an epoch: the newest model that was agreed on, for those who catch up."""
    newest_holders: list[tuple[str, int]] = []
    agreed: list[tuple[int, bytes]] = []
    """Step and hash, the last few."""
    storing: Storing | None = None
    keepers: list[tuple[str, int]] = []
    """Lives that were drawn to store the model of ``place``."""
    began_us: int = 0
    """When the epoch began."""
    first_step: int = 0
    """Of the epoch."""
    took_part: list[str] = []
    """In the epoch."""
    times_us: list[int] = []
    """How long the training of the last rounds took."""
    allowed_us: int = 0
    """How long that of the last round was allowed to take."""
    overran: bool = False
    """The training of the last round took longer."""
    account: Account = msgspec.field(default_factory=Account)
    round: Round | None = None
    members: dict[str, Member] = {}
    past: list[Past] = []
    sealed: list[Sealed] = []
    epochs: list[EpochPast] = []
    # Indexes.
    changes: int = 0
    """Counts what was applied, so that others know when to look again."""
    moves: int = 0
    """Counts changes of members."""
    here: dict[str, Member] = {}
    in_step: dict[str, Member] = {}
    missing: int = 0
    """Assignments of the open round that nobody has committed to."""
    moving: dict[str, tuple[MemberState, str]] = {}
    """While an event is applied: where it takes members, and why."""
    judged: tuple[Any, Any] | None = None
    """While an event is applied: what its evidence says, which is worked out once."""
    retold: dict[str, None] = {}
    """While an event is applied: members to whom something of their own looks different."""

    def called(self) -> str:
        return "the run"

    @property
    def scheme(self) -> Scheme:
        return Scheme(self.config.attestation, self.config.bloom_false_positives)

    def settle(self, member: Member, state: MemberState, at_us: int, reason: str | None = None) -> None:
        """Keep the indexes true to the state the member is about to be in."""
        member.since_us = at_us
        if reason is not None:
            member.reason = reason[:256]
        self.moves += 1
        if state is MemberState.IN_STEP:
            member.stepped = self.epoch
        _keep(self.here, member, state in HERE)
        _keep(self.in_step, member, state is MemberState.IN_STEP)

    def rebuild(self) -> None:
        """Nothing may depend on the order of an index: whoever walks it sorts."""
        self.here = {m.id: m for m in self.members.values() if m.state in HERE}
        self.in_step = {m.id: m for m in self.members.values() if m.state is MemberState.IN_STEP}
        self.missing = 0 if self.round is None else sum(work.result < 0 for work in self.round.works)


def _keep(index: dict[str, Member], member: Member, belongs: bool) -> None:
    if belongs:
        index[member.id] = member
    else:
        index.pop(member.id, None)


def taking_part(course: Course) -> list[str]:
    """In the epoch that is under way."""
    return sorted(m.id for m in course.here.values() if m.state in TAKING_PART)


def with_state(course: Course, *states: MemberState) -> list[Member]:
    """Of those who are here, by id."""
    return sorted((m for m in course.here.values() if m.state in states), key=_id)


def _id(member: Member) -> str:
    return member.id


def alive(course: Course, lives: list[tuple[str, int]]) -> list[str]:
    """Of these lives, those who are here still; a newer life of the same id has not what the older one had."""
    return sorted(m for m, life in lives if m in course.here and course.here[m].incarnation == life)
