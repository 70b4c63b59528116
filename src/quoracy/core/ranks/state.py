"""The state of a run of ranks, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from quoracy.core.errors import ConfigError
from quoracy.core.members import MemberId

T = TypeVar("T")

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
    began_members: Annotated[list[MemberId], Meta(max_length=4096)] = []
    """Who was in then. The first record after a loss needs a majority of them: see ``salvage``."""


def check_config(config: Config) -> None:
    """Raises ConfigError for what types cannot say."""
    for field in ("min_members", "form_members"):
        value = getattr(config, field)
        if value > config.max_ranks:
            raise ConfigError(field, value, f"at most max_ranks ({config.max_ranks}), or it could never begin")
    if not config.generation and (config.began_attempt or config.began_number or config.began_members):
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
    last_iteration: int | None = None
    """The iteration it was in when it ceased to be a member, in this life or an earlier one; None for one that never
    was. Of a member it is the run's: see ``Crew.last_iteration``."""

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


def majority(members: list[str]) -> int:
    return len(members) // 2 + 1


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
    kept: dict[str, Any] = {}
    """What follows from ``ranks``, until ``changed`` is called: every rank folds every record, so it is not worked out
    for each of them anew."""

    def called(self) -> str:
        return "the run"

    def changed(self) -> None:
        """A rank came, went, or is something else now."""
        self.kept.clear()

    def last_iteration(self, rank: Rank) -> int | None:
        """The newest iteration that a record has named this rank for, in whatever life; None if none ever has. Of those
        who are in it is the one that is being tried, so a record has to write nothing for each of them."""
        return self.number if rank.state is RankState.MEMBER else rank.last_iteration

    def of(self, state: RankState) -> list[Rank]:
        """In order of rank, which is the order everybody numbers members in."""
        found: list[Rank] | None = self.kept.get(state._value_)
        if found is None:
            found = sorted((rank for rank in self.ranks.values() if rank.state is state), key=Rank.number)
            self.kept[state._value_] = found
        return found

    def members(self) -> list[Rank]:
        return self.of(RankState.MEMBER)

    def here(self) -> list[Rank]:
        return list(self.seated().values())

    def seated(self) -> dict[int, Rank]:
        """Those who are here, by seat."""
        found: dict[int, Rank] | None = self.kept.get("seated")
        if found is None:
            found = {rank.seat: rank for rank in self.ranks.values() if rank.state not in OUT}
            self.kept["seated"] = found
        return found

    def seats_of_members(self) -> frozenset[int]:
        return self._keep("seats of members", lambda: frozenset(rank.seat for rank in self.members()))

    def names_of_members(self) -> list[str]:
        return self._keep("names of members", lambda: [rank.id for rank in self.members()])

    def names_here(self) -> tuple[str, ...]:
        return self._keep("names here", lambda: tuple(rank.id for rank in self.seated().values()))

    def _keep(self, name: str, make: Callable[[], T]) -> T:
        found: T | None = self.kept.get(name)
        if found is None:
            found = self.kept[name] = make()
        return found

    def coming(self, alone: bool, without: Collection[int] = ()) -> list[Rank]:
        """Who is counted in by the next record beside those who arrived, but for these seats. ``alone``: nobody
        arrived, so there is nobody to learn from, and learners begin with the rest."""
        learners = self.of(RankState.LEARNING) if alone else []
        if not learners and not self.of(RankState.WAITING):
            return []
        coming = [rank for rank in [*self.of(RankState.WAITING), *learners] if rank.seat not in without]
        return sorted(coming, key=Rank.number)

    def enough(self, arrived: Collection[int], coming: list[Rank]) -> bool:
        """Whether these may go on together."""
        return len(arrived) + len(coming) >= self.needed() and not self.short(coming)

    def short(self, coming: list[Rank]) -> int:
        """How many are missing of those who were in before the store was lost, as long as there is no record since.
        Without a majority of them another one might begin in yet another store, and not know of this one."""
        before = self.config.began_members
        if not before or self.attempt > self.config.began_attempt:
            return 0
        return max(0, majority(before) - len({rank.id for rank in coming}.intersection(before)))

    def needed(self) -> int:
        """How many have to be there to begin."""
        config = self.config
        return max(config.min_members, config.form_members if self.attempt == 0 else 0)
