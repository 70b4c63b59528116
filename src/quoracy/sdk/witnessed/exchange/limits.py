"""How long one waits for another member, and how much of everything there may be.

Memory: a connection that takes a blob needs less than 2 MB, and there are at most ``THREADS`` of them; one that gives
less than 0.5 MB, and ``giving_at_once`` do at a time. By that count all of them together stay below ``MEMORY_BYTES``,
however large the blobs are; measured is that with three that give and one that takes.
"""

from __future__ import annotations

from typing import Final

import msgspec

THREADS: Final = 12
"""That fetch, of one member."""
MEMORY_BYTES: Final = 64 * 1024 * 1024
MAX_BLOB_BYTES: Final = 2**40
STRETCH_BYTES: Final = 4 * 1024 * 1024
"""A blob is asked for in such stretches; of an interrupted one at most so much from each holder comes twice."""


class Limits(msgspec.Struct, frozen=True):
    dial_s: float = 5.0
    """To connect; the handshake and the introduction each take no longer."""
    reach_s: float = 10.0
    """To try all others, before anything is wanted of them."""
    answer_s: float = 15.0
    """For an answer to begin, and for each piece of it to come."""
    take_s: float = 20.0
    """For a piece to be taken by whoever asked for it."""
    idle_s: float = 120.0
    """A connection on which nothing is asked for so long is closed."""
    slow_s: float = 2.0
    """What a holder does not give in so long goes to another one, if there is one that is faster or new."""
    holders_at_once: int = 3
    """One blob is taken from so many at the same time."""
    again: int = 2
    """So often a holder is asked again after its connection broke."""
    connections: int = 512
    """Of others to this member."""
    strangers: int = 64
    """Of these, such that have not shown who they are."""
    connections_each: int = 8
    """Of one member."""
    giving_at_once: int = 32
    """So many that a few who take slowly do not keep the others from it."""
    unasked_s: float = 2.0
    """What nobody has asked for in so long, though nobody else has it, goes to the coordinator: perhaps others cannot
    reach this member, whatever address it names."""
    kept: int = 2
    """Connections to one member, for the next time."""
