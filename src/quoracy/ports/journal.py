"""The journal port: an ordered list of entries per run, with one conditional write.

*Append entry n if n-1 is there and n is free.* That is all the agreement Quoracy asks of a store. The loser of a race
is handed the entry that is there, so it never has to guess. To a store an entry is bytes; what they mean is decided in
``core.journal``. A store guards them with a checksum and must never return bytes other than those appended.

Every store has the same limits, so that a run can move from one to another: a run's name is 1 to 512 bytes of UTF-8 and
any character in it is allowed, an entry is 1 byte to 512 KiB. (An empty entry would look like a missing one on
stores that cannot tell the two apart.) A call outside these limits raises ``ValueError`` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from quoracy.core.journal import MAX_ENTRY_BYTES as MAX_ENTRY_BYTES

MAX_RUN_NAME_BYTES = 512


class Append(msgspec.Struct, frozen=True):
    """One wish: make ``payload`` entry ``n`` of ``run``."""

    run: str
    n: int
    payload: bytes


class Appended(msgspec.Struct, frozen=True):
    """The entry is durable: it survives the death of this process and of the machine."""

    n: int


class Conflict(msgspec.Struct, frozen=True):
    """Entry ``n`` was there already; ``payload`` is what is there. Equal bytes count as a conflict too: whoever needs
    to know whether the entry is its own compares the nonce inside.

    ``n`` is the number that was wished for, unless the wish followed a lost one of its run and nothing is there under
    its own number: then it is the entry that won over the predecessor."""

    n: int
    payload: bytes


Outcome = Appended | Conflict


class Saved(msgspec.Struct, frozen=True):
    """A snapshot: the fold of entries 1..``n``. ``root`` names the pages by digest (see ``core.snapshot``); a store
    keeps the bytes and writes only the pages it does not have yet."""

    n: int
    root: bytes
    pages: dict[bytes, bytes]


class Segment(msgspec.Struct, frozen=True):
    """A sealed, archived stretch of the journal: entries ``first``..``last`` in one file or object."""

    first: int
    last: int
    name: str
    size_bytes: int
    present: bool
    """False once retention has deleted it. The row stays, so the API can say what is gone."""


class Journal(Protocol):
    def runs(self) -> list[str]:
        """The names of all runs that have an entry, sorted."""

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        """Write every wish that can be written, in order, durably, in one commit; answer each.

        Several wishes for one run may follow each other (n, n+1, ...). Once one of them is lost, the later ones of that
        run are not written either: they were decided on top of an entry that does not exist. Wishes for other runs
        are not touched by that. A wish whose predecessor is neither there nor wished for raises ``JournalGap``, one
        for an entry that retention has deleted raises ``EntriesGone``, and then nothing at all is written. Raises
        ``OutcomeUnknown`` if the wishes may or may not be there, ``JournalFull`` or ``JournalBusy`` if certainly none
        is, ``JournalBroken`` if this process must stop writing.
        """

    def last(self, run: str) -> int:
        """The number of the newest entry, 0 if there is none."""

    def read(self, run: str, first: int, limit: int = 1000) -> list[bytes]:
        """Entries ``first``, ``first+1``, ... at most ``limit``, also from archived segments. Empty past the end.
        Raises ``JournalCorrupt`` naming entry and offset, or ``EntriesGone``."""

    def watch(self, run: str, after: int, timeout_s: float) -> int:
        """Block until there is an entry beyond ``after``, whoever wrote it and in whatever process, or the time is
        over. Returns ``last(run)``."""

    def save_snapshot(self, run: str, snapshot: Saved) -> None:
        """Keep this snapshot durably; older ones and pages nobody names any more go. One that is not newer than the
        one kept is ignored. One of entries that are not there (``n`` beyond ``last``) raises ``ValueError``."""

    def load_snapshot(self, run: str) -> Saved | None:
        """The newest snapshot, or None. A damaged one raises ``JournalCorrupt``."""

    def compact(self, run: str, upto: int, keep_segments: int | None = None) -> Segment | None:
        """Move entries up to ``upto`` (at most the snapshot's ``n``) into an archived segment and out of the hot
        store. ``keep_segments`` deletes all but that many of the newest segments, also if nothing was moved. None if
        there was nothing to move. Readers see the same entries before, during and after."""

    def segments(self, run: str) -> list[Segment]:
        """All segments ever sealed, oldest first, also the deleted ones."""

    def close(self) -> None:
        """Let go of everything. A second close is fine; any other call after it raises ``ValueError``, and so does a
        ``watch`` that is under way in another thread."""
