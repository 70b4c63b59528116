"""The state of a federated run: the task, its participants, the round that is open, and those that are over."""

from __future__ import annotations

from enum import Enum

import msgspec

from quoracy.core.codec import ready
from quoracy.core.federated.config import Config
from quoracy.core.federated.events import History, Metrics, UpdateOffered


class Phase(Enum):
    STANDBY = "Standby"
    ROUND = "Round"
    CLOSING = "Closing"
    EVALUATING = "Evaluating"
    PAUSED = "Paused"
    FINISHED = "Finished"
    STOPPED = "Stopped"


OVER = frozenset({Phase.FINISHED, Phase.STOPPED})
OPEN_TO_UPDATES = frozenset({Phase.ROUND, Phase.STANDBY, Phase.PAUSED})
"""Updates of a suspended round are taken in too."""


class ParticipantState(Enum):
    ABSENT = "Absent"
    WAITING = "Waiting"
    TRAINING = "Training"
    QUARANTINED = "Quarantined"
    LOST = "Lost"
    LEFT = "Left"
    DONE = "Done"


HERE = frozenset({ParticipantState.WAITING, ParticipantState.TRAINING})
"""Registered, in the sense of ``clients``."""


class Fate(Enum):
    """What became of an assignment."""

    TRAINING = "Training"
    OFFERED = "Offered"
    ADMITTED = "Admitted"
    REFUSED = "Refused"
    DROPPED = "Dropped"


class Assignment(msgspec.Struct, array_like=True):
    """One participant's place in one round. The ticket is the token of its update: no other assignment ever has it."""

    member: str
    ticket: int
    fate: Fate = Fate.TRAINING
    offer: UpdateOffered | None = None
    why: str = ""
    norm: float = 0.0


class Round(msgspec.Struct, array_like=True):
    number: int
    target: int
    """How many updates it is meant to have."""
    began_us: int
    attempt: int = 0
    """Counts how often it was taken up."""
    since_us: int = 0
    """When it was taken up last."""
    spent_us: int = 0
    """How long it was open before that. The windows count both, or one who comes and goes would hold it open."""
    let_go: list[tuple[str, str]] = []
    """Places that were lost and filled again by the same participant: who, and why."""
    assignments: dict[str, Assignment] = {}

    def open_us(self, at_us: int) -> int:
        return self.spent_us + at_us - self.since_us

    def having(self, *fates: Fate) -> list[Assignment]:
        return [assignment for assignment in self.assignments.values() if assignment.fate in fates]

    def called(self) -> str:
        return "the round for the initial weights" if self.number < 0 else f"round {self.number}"


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """What a participant learns of its last update."""

    round: int
    ticket: int
    digest: str
    admitted: bool
    why: str = ""


class Participant(msgspec.Struct, array_like=True):
    id: str
    incarnation: int
    state: ParticipantState
    seat: int
    """In order of first registration."""
    since_us: int
    labels: dict[str, str]
    initial: bool
    reason: str = ""
    trained: int = -1
    """The newest round it has an admitted update in."""
    updates: int = 0
    refused: int = 0
    losses: int = 0
    verdict: Verdict | None = None

    def called(self) -> str:
        return f"participant {self.id}"


class Over(msgspec.Struct, array_like=True):
    """A round that is over, for people and scripts."""

    number: int
    attempts: int
    began_us: int
    closed_us: int
    because: str
    admitted: list[tuple[str, str, int]]
    """Participant, digest, samples that it counts for."""
    dropped: list[tuple[str, str]]
    """Participant, why: late, refused, lost."""
    metrics: Metrics
    """The participants', weighted by samples."""
    weights: str = ""
    """Digest of what came out."""
    size_bytes: int = 0
    done_us: int = 0
    evaluation: dict[str, float] = {}
    clipped: list[tuple[str, int]] = []
    """Participant, and how many samples it claimed, where it counts for fewer."""


class TrainingReport(msgspec.Struct, array_like=True):
    """What a participant reported of one training, and what became of it: for people."""

    member: str
    round: int
    ticket: int
    fate: Fate
    why: str
    at_us: int
    """When that was known."""
    samples: int
    """That it claims."""
    metrics: Metrics
    history: History
    warnings: list[str]
    """Metrics that were left out, and why."""
    digest: str = ""
    """Of the object with metrics that are large."""
    size_bytes: int = 0
    arrays: dict[str, list[int]] = {}
    """The shapes of what is in it."""
    kept_bytes: int = 0
    """The size of this report, by which all of them are bounded."""


class Task(msgspec.Struct):
    """The whole state, and a few indexes over it that are rebuilt when it is restored."""

    config: Config
    state: Phase = Phase.STANDBY
    number: int = -1
    """Of the round that is open or comes next."""
    weights: str = ""
    """Digest of the global model; empty before there is one."""
    size_bytes: int = 0
    optimizer: str = ""
    """Digest of the server optimizer's state."""
    seats: int = 0
    tickets: int = 0
    reason: str = ""
    since_us: int = 0
    """When the phase began."""
    pausing: str | None = None
    """An operator wants a pause as soon as what is under way is done."""
    best: float | None = None
    stale: int = 0
    """Rounds since the best."""
    participants: dict[str, Participant] = {}
    round: Round | None = None
    history: list[Over] = []
    reports: list[TrainingReport] = []
    """Oldest first, as many as there is room for."""
    reports_gone: int = 0
    """So many were there before."""
    report_bytes: int = 0
    """Index: of all reports."""
    newest: dict[str, TrainingReport] = {}
    """Index: by participant."""
    changes: int = 0
    """Index: counts what was applied, so that others know when to look again."""
    here: dict[str, Participant] = {}
    """Index: those who are registered."""

    def called(self) -> str:
        return "the run"

    tally: Tally = msgspec.field(default_factory=lambda: Tally())
    """Index: how the open round stands."""

    def place(self, participant: Participant, state: ParticipantState) -> None:
        """Keep the indexes true to the state the participant is about to be in."""
        if state in HERE:
            self.here[participant.id] = participant
        else:
            self.here.pop(participant.id, None)
        mine = None if self.round is None else self.round.assignments.get(participant.id)
        if mine is not None:
            self.tally.note(mine, mine.fate, participant.id in self.here)

    def assign(self, round_: Round, assignment: Assignment) -> None:
        round_.assignments[assignment.member] = assignment
        self.tally.note(assignment, assignment.fate, assignment.member in self.here)

    def mark(self, assignment: Assignment, fate: Fate) -> None:
        self.tally.note(assignment, fate, assignment.member in self.here)
        assignment.fate = fate

    def forget_round(self) -> None:
        self.round = None
        self.tally = Tally()

    def rebuild(self) -> None:
        """Nothing may depend on the order: whoever walks it sorts."""
        self.here = {p.id: p for p in self.participants.values() if p.state in HERE}
        self.report_bytes = sum(report.kept_bytes for report in self.reports)
        self.newest = {report.member: report for report in self.reports}
        self.tally = Tally()
        for assignment in [] if self.round is None else self.round.assignments.values():
            self.tally.note(assignment, assignment.fate, assignment.member in self.here)


class Tally(msgspec.Struct):
    """Who of the open round is where: kept up to date, since counting ten thousand after each update is slow."""

    admitted: set[str] = set()
    offered: set[str] = set()
    training: set[str] = set()
    """And here."""
    away: set[str] = set()
    """Assigned, not done, and gone."""

    def note(self, assignment: Assignment, fate: Fate, here: bool) -> None:
        member = assignment.member
        for some in (self.admitted, self.offered, self.training, self.away):
            some.discard(member)
        if fate is Fate.ADMITTED:
            self.admitted.add(member)
        elif fate is Fate.OFFERED:
            self.offered.add(member)
        elif fate is Fate.TRAINING:
            (self.training if here else self.away).add(member)


class Count(msgspec.Struct, frozen=True):
    """How a round stands."""

    admitted: int
    offered: int
    training: int
    """Of those who are here."""

    @property
    def reachable(self) -> int:
        return self.admitted + self.offered + self.training


def count(task: Task, round_: Round) -> Count:
    """Of the open round; of any other, which nobody has a place in, nothing."""
    tally = task.tally
    if round_ is not task.round:
        return Count(0, 0, 0)
    return Count(len(tally.admitted), len(tally.offered), len(tally.training))


def least(task: Task, round_: Round) -> int:
    """Updates without which it does not close."""
    return 1 if round_.number < 0 else min(task.config.count_min or round_.target, most(task, round_))


def most(task: Task, round_: Round) -> int:
    """Updates with which it closes at once."""
    return 1 if round_.number < 0 else (task.config.count_max or round_.target)


ready(Verdict)
