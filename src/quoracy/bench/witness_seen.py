"""What a process with many witnessed members is told, and what it tells; see ``witness_crowd``."""

from __future__ import annotations

import msgspec


class Wish(msgspec.Struct, frozen=True):
    host: str
    port: int
    run: str
    members: list[str]
    batch_size: int = 1
    size_bytes: int = 1_000_000
    """What results are said to have: nobody asks for them."""
    objects: str = ""
    """The object store, for checkpoints."""


class Seen(msgspec.Struct):
    """Of one process: when it was last to say something of a round, and last to be shown the next; what went over the
    wires."""

    attested_us: dict[int, int] = {}
    """Step -> when the last of its members had said all it has to say of that round."""
    began_us: dict[int, int] = {}
    """Step -> when the last of its members was shown that round."""
    cooled_us: dict[int, int] = {}
    """Epoch -> when the first was shown its end."""
    epoch_us: dict[int, int] = {}
    """Epoch -> when the last was shown its first round."""
    in_bytes: int = 0
    out_bytes: int = 0
