"""What federated runs look like as JSON: participants, the round that is open, rounds that are over."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from quoracy.core.members import Counter


class Uploader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A participant that asks: with its session token, where tokens are asked for."""

    member: Annotated[str, Meta(max_length=64)] = ""
    """Its id. Empty: somebody with a role asks, for models of the run."""
    incarnation: Counter = 1


class Participant(msgspec.Struct, frozen=True):
    """Of a federated run."""

    id: str
    state: str
    incarnation: int
    seat: int
    trained: int
    """The newest round it has an admitted update in; -1 for none."""
    updates: int = 0
    refused: int = 0
    losses: int = 0
    reason: str = ""
    labels: dict[str, str] = {}
    silent_s: float | None = None
    stuck_s: float = 0.0
    progress: int | None = None
    epoch: int | None = None
    metrics: dict[str, float] = {}
    """Of its last heartbeat."""
    last: LastTraining | None = None


class LastTraining(msgspec.Struct, frozen=True):
    """What a participant reported last, in a line."""

    round: int
    fate: str
    metrics: dict[str, float]
    """A few of its numbers."""
    curve: str
    """Of which metric ``epochs`` are; empty for none."""
    epochs: list[float]
    warnings: int
    """How many metrics were left out."""


class OpenRound(msgspec.Struct, frozen=True):
    number: int
    """-1: the initial weights are wanted."""
    attempt: int
    """How often it was taken up."""
    target: int
    """How many updates it is meant to have."""
    admitted: int
    offered: int
    training: int
    away: list[str]
    """Who has a place in it and is gone."""
    assignments: dict[str, str]
    """What became of each so far."""


class Dropped(msgspec.Struct, frozen=True):
    participant: str
    why: str


class Clipped(msgspec.Struct, frozen=True):
    """An update that claimed more samples than it counts for."""

    participant: str
    claimed: int
    counted: int


class Round(msgspec.Struct, frozen=True):
    """A round that is over."""

    round: int
    attempts: int
    because: str
    """Why it closed."""
    began_s: float
    """In run time, as the others."""
    closed_s: float
    done_s: float
    updates: int
    samples: int
    """That the updates count for."""
    admitted: list[str]
    """Who counts. With ``dropped`` these are all who were drawn."""
    dropped: list[Dropped]
    clipped: list[Clipped]
    """Who claimed more samples than it counts for."""
    metrics: dict[str, Any]
    """The participants', weighted by samples."""
    evaluation: dict[str, float]
    weights: str
    """Digest of the model that came out."""
    size_bytes: int


class Arrays(msgspec.Struct, frozen=True):
    """Metrics that are an object."""

    digest: str
    """Empty if there are none."""
    size_bytes: int
    shapes: dict[str, list[int]]


class TrainingReport(msgspec.Struct, frozen=True):
    """What a participant reported of one training."""

    round: int
    ticket: int
    fate: str
    """Admitted, Refused or Dropped."""
    why: str
    """Why it does not count; empty if it does."""
    at_s: float
    """When that was known, in run time."""
    samples: int
    """That it claims."""
    metrics: dict[str, Any]
    """Numbers, and arrays as lists in lists."""
    history: dict[str, list[float]]
    """Of each epoch."""
    warnings: list[str]
    """Metrics that were left out, and why."""
    arrays: Arrays


class TrainingReports(msgspec.Struct, frozen=True):
    participant: str
    rounds: list[TrainingReport]
    """Oldest first."""
    next: str | None
    of: int
    """How many of this participant there are."""
    given_up: int
    """How many of the run, of whomever, were given up because there was no more room."""


class History(msgspec.Struct, frozen=True):
    rounds: list[Round]
    """Oldest first."""
    next: str | None
    of: int
    """How many there are in all."""
