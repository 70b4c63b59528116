"""The seam between a host's logic and its shell: what a shell reports, and what a host asks of it.

``core.host`` decides, a shell carries out. asyncio is one shell, the simulator another, a plain loop a third; none of
them decides anything. A peer is whatever a shell uses to tell connections apart; the host only compares it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from quoracy.core.journal import RunCreated
from quoracy.core.machine import Duty, Explanation
from quoracy.core.messages import ToHost, ToMember
from quoracy.core.snapshot import Snapshot

Peer = Hashable

# -- what a shell reports ------------------------------------------------------------------------------------------


class Loaded(msgspec.Struct, frozen=True):
    """The answer to ``Load``: the newest snapshot and all entries after it."""

    snapshot: Snapshot | None
    entries: list[bytes]


class Create(msgspec.Struct, frozen=True):
    """Make the run, which must not exist yet, and serve it."""

    created: RunCreated


class Take(msgspec.Struct, frozen=True):
    """Serve the run now. A shell says so when it knows that nobody else does, such as by holding a lock."""


class Received(msgspec.Struct, frozen=True):
    peer: Peer
    message: ToHost


class Disconnected(msgspec.Struct, frozen=True):
    peer: Peer


class Written(msgspec.Struct, frozen=True):
    """The append with this nonce is durable."""

    nonce: bytes


class Taken(msgspec.Struct, frozen=True):
    """The append found another entry in its place."""

    nonce: bytes
    payload: bytes


class Unknown(msgspec.Struct, frozen=True):
    """The append may or may not be there."""

    nonce: bytes


class Delayed(msgspec.Struct, frozen=True):
    """The append certainly is not there, for want of room or because another writer holds the store."""

    nonce: bytes
    why: str
    code: str = "journal_full"


class Broken(msgspec.Struct, frozen=True):
    """The store failed in a way after which this process must not write."""

    code: str
    why: str


class EntryRead(msgspec.Struct, frozen=True):
    """The answer to ``ReadEntry``; None if there is no such entry."""

    n: int
    payload: bytes | None


class Followed(msgspec.Struct, frozen=True):
    """Entries seen in the journal, from number ``first`` on."""

    first: int
    entries: list[bytes]


class PulseSeen(msgspec.Struct, frozen=True):
    """The sequence numbers under which hosts of this run beat."""

    beats: dict[str, int]


class DutyFinished(msgspec.Struct, frozen=True):
    entry: int
    index: int
    result: dict[str, Any] | None = None


class Asked(msgspec.Struct, frozen=True):
    """Somebody wants to know what the run is waiting for."""

    peer: Peer


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. Due at ``Host.wake_us``; earlier or later does no harm."""


Report = (
    Loaded | Create | Take | Received | Disconnected | Written | Taken | Unknown | Delayed | Broken | EntryRead
    | Followed | PulseSeen | DutyFinished | Asked | Tick
)  # fmt: skip

# -- what a host asks ----------------------------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True):
    """Read the newest snapshot and what follows it."""


class Append(msgspec.Struct, frozen=True):
    n: int
    payload: bytes
    nonce: bytes


class ReadEntry(msgspec.Struct, frozen=True):
    n: int


class Send(msgspec.Struct, frozen=True):
    peer: Peer
    message: ToMember


class Beat(msgspec.Struct, frozen=True):
    """Write this under the host's own key of the pulse."""

    key: str
    seq: int


class Perform(msgspec.Struct, frozen=True):
    """Do this, at least once, and report ``DutyFinished``."""

    duty: Duty


class Save(msgspec.Struct, frozen=True):
    """Keep this snapshot, off the commit path; the journal may be compacted up to it afterwards."""

    snapshot: Snapshot


class Explained(msgspec.Struct, frozen=True):
    peer: Peer
    explanation: Explanation
    overview: dict[str, Any] | None = None
    """The run as people want to see it; None while this host cannot say."""


class Stop(msgspec.Struct, frozen=True):
    """This host will do nothing more for the run."""

    code: str
    why: str


Action = Load | Append | ReadEntry | Send | Beat | Perform | Save | Explained | Stop
