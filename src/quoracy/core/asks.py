"""What a peer asks of its store, and what it is answered: one operation at a time.

``core.peer`` yields these, and is sent the results. ``hosts.peerless`` carries them out on a real store, ``sim.ranks``
on a simulated one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec
from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.machine import Event
from quoracy.core.members import Cause
from quoracy.core.snapshot import Snapshot

PAGE: Final = 1000
"""Entries read at once, at most."""
DUTY: Final = "duty/"
"""How the senders of letters begin that are no commands."""


class Load(msgspec.Struct, frozen=True):
    """-> the newest snapshot or None, and every entry after it."""


class Read(msgspec.Struct, frozen=True):
    """-> entries from ``first`` on, at most ``limit``: asking for more than there are costs some stores a question for
    each. Raises EntriesGone, and so does Append."""

    first: int
    limit: int = PAGE


class Append(msgspec.Struct, frozen=True):
    """-> Written, Taken or Unclear."""

    n: int
    payload: bytes


class Watch(msgspec.Struct, frozen=True):
    """-> the number of the newest entry, as soon as it is beyond ``after``, or when the time is over."""

    after: int
    timeout_us: int


class Beat(msgspec.Struct, frozen=True):
    """Replace the note under the key. -> None"""

    key: str
    seq: int
    note: bytes


class Beats(msgspec.Struct, frozen=True):
    """-> all notes, as a list."""


class Await(msgspec.Struct, frozen=True):
    """-> Usual, as soon as the next entry after ``after`` is said to be the usual one. Otherwise the number of the
    newest entry, as Watch. ``since``: the last entry that was not the usual one."""

    after: int
    since: int
    timeout_us: int


class Tell(msgspec.Struct, frozen=True):
    """Say to those who wait that entry ``n`` is there, and whether it is the usual one. -> None; it may be lost.
    ``since``: the last entry before it that was not, None if this peer does not know."""

    n: int
    usual: bool
    since: int | None


class Arrive(msgspec.Struct, frozen=True):
    """Leave a note in this turn. -> Arrived. ``wanted``: how many make it worth reading their notes. ``known``: the
    newest entry that is known to be there; ``read``: whether it is wanted as well. Raises EntriesGone."""

    turn: int
    who: str
    note: bytes
    wanted: int
    known: int
    read: bool = False


class Arrivals(msgspec.Struct, frozen=True):
    """-> the notes that were left in this turn, as a list; one may be there twice."""

    turn: int


class Post(msgspec.Struct, frozen=True):
    """-> whether the slot was free."""

    letter: Letter


class Collect(msgspec.Struct, frozen=True):
    """-> letters that nobody has discarded."""


class Discard(msgspec.Struct, frozen=True):
    sender: str
    upto: int


class Save(msgspec.Struct, frozen=True):
    """Keep the snapshot; what it covers may be archived."""

    snapshot: Snapshot


class Usual(msgspec.Struct, frozen=True):
    pass


class Arrived(msgspec.Struct, frozen=True):
    """What the store could tell in the same trip; some can tell no more than the count."""

    count: int
    """How many have come so far: a hint, which nothing depends on."""
    notes: list[bytes] | None = None
    """Of all who have come, if they are as many as were wanted; None if they have to be asked for."""
    letters: bool = True
    """Whether there may be letters."""
    entry: bytes | None = None


class Unread(msgspec.Struct, frozen=True):
    """The entry after the last that was folded is there, and is the usual one. ``payload``: if it is known."""

    known_us: int
    payload: bytes | None = None


class Letter(msgspec.Struct, frozen=True):
    sender: str
    seq: int
    payload: bytes


class Command(msgspec.Struct, frozen=True, array_like=True):
    """What a letter holds."""

    cause: Cause
    event: Raw


class Written(msgspec.Struct, frozen=True):
    pass


class Taken(msgspec.Struct, frozen=True):
    """Another entry is there."""

    payload: bytes


class Unclear(msgspec.Struct, frozen=True):
    """The entry may be there or not."""


Op = Load | Read | Append | Watch | Await | Tell | Beat | Beats | Arrive | Arrivals | Post | Collect | Discard | Save
Steps = Generator[Op, Any, Any]


def letter(sender: str, seq: int, cause: Cause, event: Event) -> Letter:
    return Letter(sender, seq, encode(Command(cause, Raw(encode(event)))))
