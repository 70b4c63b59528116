"""What a host bounds, and how patient it is. Every queue, retry and wait of ``core.host`` has its number here."""

from __future__ import annotations

from typing import Final

import msgspec

STAGGER_PLACES: Final = 8
"""A follower that takes over draws one of so many places: of two, every eighth time both draw the same."""


class Limits(msgspec.Struct, frozen=True):
    max_waiting: int = 100_000
    """Messages in the queue; the next is refused."""
    snapshot_every: int = 1000
    """Entries between two snapshots: what a restart folds at most."""
    beat_us: int = 500_000
    """How often a serving host shows that it is alive."""
    takeover_us: int = 3_000_000
    """A serving host silent for longer is replaced. Six beats."""
    stagger_us: int = 200_000
    """Between two places in which followers may take over, so that one sees what the one before it did. At most seven
    of these are waited on top of ``takeover_us``. 0: all at once."""
    retry_us: int = 200_000
    """Before an append that found no room is tried again."""
    max_tries: int = 50
    """Of one append, before the host stops and says so."""
    slow_write_us: int = 1_000_000
    """An append that takes longer is what the run is waiting for."""
