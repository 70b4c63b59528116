"""The series port: how numbers went, for people. Curves of the past hours in full, of the past weeks in outline.

Nothing is ever decided by a series, so it may be lost: it lies beside the journal and never in it. A number goes into
one bucket of every tier at once; a tier has buckets of one width and keeps them for so long. So a coarse bucket always
is the sum of the finer ones it covers, also after a restart, and also if the clock jumps: a point belongs into the
bucket of its own time, whenever it comes.

A store has no clock here. ``tidy`` is told the time by whoever calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

MAX_VALUE: Final = 1e300
"""Larger numbers are refused: sums of them would not be finite."""
MAX_AT_S: Final = 2.0**40
"""Times are seconds since 1970, up to here."""
MAX_SERIES_NAME_BYTES: Final = 512
"""Of a name, and of a subject."""


class Tier(NamedTuple):
    """Buckets of ``width_s`` seconds, kept for ``keep_s`` seconds."""

    width_s: int
    keep_s: int


TIERS: Final = (Tier(1, 3600), Tier(10, 6 * 3600), Tier(60, 24 * 3600), Tier(600, 30 * 24 * 3600))
"""3,600 + 2,160 + 1,440 + 4,320 = 11,520 buckets for a series that is written every second for a month."""
MAX_SERIES_PER_RUN: Final = 500
MAX_SERIES: Final = 2000


class Key(NamedTuple):
    """Which series. ``subject`` is whom or what the number is of: a member, a barrier, "" for the whole run."""

    run: str
    name: str
    subject: str


class Point(msgspec.Struct, frozen=True):
    """One number; or, with ``count``, the mean of so many, between ``low`` and ``high``: a fleet at one moment."""

    run: str
    name: str
    subject: str
    at_s: float
    """Wall time: only a label for people."""
    value: float
    count: int = 1
    low: float | None = None
    """None: as ``value``."""
    high: float | None = None


class Bucket(msgspec.Struct, frozen=True):
    """All numbers of one stretch of time. Their mean is ``total / count``."""

    start_s: int
    width_s: int
    count: int
    low: float
    high: float
    total: float
    last: float
    """The one with the latest time; of two with the same time, the one that was written later."""


class Series(Protocol):
    def write(self, points: Sequence[Point]) -> list[Key]:
        """Keep these points, all together. Returns the series that found no room, of which nothing was kept.

        Room is bounded, for a run and in all. When it is full, a series that nobody has written for as long as the
        finest tier keeps gives way, the one that rests longest first: workers come and go. If there is none, the new
        one is not begun.

        A value that is not a finite number, or that is larger than ``MAX_VALUE``, a time outside 0 to ``MAX_AT_S``, a
        count below 1, or a name without or with too many bytes raises ``ValueError`` naming it, and then nothing was
        written."""

    def read(
        self, run: str, name: str, subject: str, since_s: float, until_s: float, max_points: int = 500
    ) -> list[Bucket]:
        """The buckets from the one that holds ``since_s`` to the one that holds ``until_s``, oldest first, without the
        empty ones: of the finest tier that reaches back that far and has at most ``max_points`` of them. If even the
        coarsest has more, several of its buckets are made into one. Empty for a series that is not there."""

    def names(self, run: str) -> list[tuple[str, str]]:
        """(name, subject) of every series of the run, sorted."""

    def drop(self, run: str) -> None:
        """Forget the run. An unknown one is fine."""

    def tidy(self, now_s: float) -> None:
        """Forget the buckets that are older than their tier keeps, and series without any."""

    def close(self) -> None:
        """Let go of everything. A second close is fine; any other call after it raises ``ValueError``."""
