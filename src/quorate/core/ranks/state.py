"""The state of a run of ranks, and its settings."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from quorate.core.errors import ConfigError

REMEMBERED: Final = 64
"""Decisions kept for people. The journal has all of them."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a run."""

    min_members: Annotated[int, Meta(ge=1, le=4096)] = 1
    """Fewer do not go on: they wait for others to come back. 1 lets the last one finish alone."""
    form_members: Annotated[int, Meta(ge=0, le=4096)] = 0
    """So many must have come before the first attempt begins; 0 for ``min_members``. Later ones join on the way."""
    max_ranks: Annotated[int, Meta(ge=1, le=4096)] = 1024
    """Ranks are numbered from 0 to one below this."""
    t_dead_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 30.0
    """Silent for so long, a rank is given up. The one knob: every other time follows from it."""
    generation: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    """How often the run began anew in another store, because one had lost its memory. Set by the ranks themselves."""
    began_attempt: Annotated[int, Meta(ge=0, le=2**40 - 1)] = 0
    """Where it stood then."""
    began_number: Annotated[int, Meta(ge=0, le=2**40 - 1)] = 0
    """Where it stood then."""


def check_config(config: Config) -> None:
    """Raises ConfigError for what types cannot say."""
    for field in ("min_members", "form_members"):
        value = getattr(config, field)
        if value > config.max_ranks:
            raise ConfigError(field, value, f"at most max_ranks ({config.max_ranks}), or it could never begin")
    if not config.generation and (config.began_attempt or config.began_number):
        raise ConfigError("generation", 0, "a run of the first generation begins with attempt 0 and number 0")
    if 0 < config.form_members < config.min_members:
        fix = f"at least min_members ({config.min_members}), or 0 for the same"
        raise ConfigError("form_members", config.form_members, fix)


class Phase(Enum):
    FORMING = "Forming"
    RUNNING = "Running"
    CLOSED = "Closed"


class RankState(Enum):
    ABSENT = "Absent"
    WAITING = "Waiting"
    LEARNING = "Learning"
    MEMBER = "Member"
    LOST = "Lost"
    LEFT = "Left"


OUT: Final = frozenset({RankState.ABSENT, RankState.LOST, RankState.LEFT})


class Rank(msgspec.Struct, array_like=True):
    """The newest life of one rank. ``seat`` is a number that no other life ever has."""

    id: str
    incarnation: int
    state: RankState
    seat: int
    since: int
    """The attempt with which it came to be what it is."""
    address: str
    reason: str = ""

    def called(self) -> str:
        return f"rank {self.id}"

    def number(self) -> int:
        return int(self.id)


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """A line of the decision log."""

    attempt: int
    number: int
    outcome: str
    decider: str
    members: list[str]
    """Who goes on, in order of rank."""
    against: list[str]
    gone: list[tuple[str, str]]
    came: list[str]
    at_us: int
    longest_wait_us: int
    last_to_come: str


class Crew(msgspec.Struct):
    """All ranks, and where they stand."""

    config: Config
    state: Phase = Phase.FORMING
    attempt: int = 0
    """Records so far; the attempt that is being tried is the next."""
    number: int = 0
    """The iteration that is being tried."""
    seats: int = 0
    reason: str = ""
    ranks: dict[str, Rank] = {}
    log: list[Decision] = []

    def called(self) -> str:
        return "the run"

    def of(self, state: RankState) -> list[Rank]:
        """In order of rank, which is the order everybody numbers members in."""
        return sorted((rank for rank in self.ranks.values() if rank.state is state), key=Rank.number)

    def members(self) -> list[Rank]:
        return self.of(RankState.MEMBER)

    def here(self) -> list[Rank]:
        return [rank for rank in self.ranks.values() if rank.state not in OUT]

    def coming(self, alone: bool, without: Collection[int] = ()) -> list[Rank]:
        """Who is counted in by the next record beside those who arrived, but for these seats. ``alone``: nobody
        arrived, so there is nobody to learn from, and learners begin with the rest."""
        learners = self.of(RankState.LEARNING) if alone else []
        coming = [rank for rank in [*self.of(RankState.WAITING), *learners] if rank.seat not in without]
        return sorted(coming, key=Rank.number)

    def needed(self) -> int:
        """How many have to be there to begin."""
        config = self.config
        return max(config.min_members, config.form_members if self.attempt == 0 else 0)
