"""The meeting port: what some stores can do beside, for members that meet again and again and wait for what is written.

Most entries of such a run are what everybody expects: *the usual*. Who waits has to be told that it was written, and
not what is in it, and reads it on the next occasion. That matters where a wait ends with a bare yes, as on a TCPStore:
reading at once would be a second trip for everybody, while everybody waits.

- Whoever wrote entry n says so, with ``tell``: that it is the usual one after n-1, or that it is another one.
- Whoever has read everything up to n-1 waits for either, with ``wait``.

Telling is a hint in the sense that it may be forgotten or lost: then those who wait see the entry when their time is
over. It is no hint in what it says: an entry is never another one afterwards, so *entry n is the usual one* is true for
ever once it was true. Only who has created the entry, and has seen afterwards that it counts, may say it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class Met(msgspec.Struct, frozen=True):
    """What there was in the moment in which somebody came."""

    count: int
    """How many had come in this turn, about: a hint."""
    notes: list[bytes]
    """What they left, if they were as many as was wanted."""
    letters: bool
    """Whether there might be any to collect."""
    entry: bytes | None
    """The entry that was asked for."""


class Meeting(Protocol):
    def arrive(self, run: str, place: str, turn: int, note: bytes, wanted: int, known: int, read: bool) -> Met:
        """Leave a note, as ``Gathering.arrive``, and see who else has: all in one trip. The notes are read if there are
        at least ``wanted``. ``known``: the newest entry that is known to be there; ``read``: whether it is wanted as
        well. Raises EntriesGone if that can be read no more; the note was left nevertheless."""

    def wait(self, run: str, after: int, since: int, timeout_s: float) -> bool | None:
        """Block until entry ``after`` + 1 is said to be the usual one: True. Or until another one is said to follow
        ``since``, the last that was not: False. None if the time is over, which says nothing about entries."""

    def tell(self, run: str, n: int, usual: bool, since: int | None) -> None:
        """Entry ``n`` is there, and is the usual one or not. ``since``: the last before it that was not, if that is
        known. It may be lost, and nobody is told."""
