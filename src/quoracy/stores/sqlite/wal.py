"""Commits that SQLite would drop without a word.

After a crash SQLite reads its write-ahead log up to the first frame whose checksum is wrong and forgets the rest.
That is right for a torn last commit, which nobody was told about. It is wrong for a flipped bit in the middle: every
commit after it was fsynced and acknowledged, and would be gone silently. So the log is looked at *before* SQLite sees
it.

How the two are told apart. A frame's checksum continues the one of the frame before, which is stored in that frame's
head; so a frame can be checked against its stored predecessor even if the chain is broken further up. A commit is
fsynced before the next one begins. Therefore, behind a broken frame,

- the rest of its own commit may follow after a crash: the frames reached the disk in another order;
- a later commit cannot: when it began, the broken frame had been fsynced. That is damage.

The log's header is fsynced before its first frame, and fits into one sector: if it is wrong, that is damage.

Confession: damage inside the last commit of the log cannot be told from a torn one, and is taken as such. So is damage
that wipes out the whole head of the frame just before it.

The layout is documented at https://sqlite.org/walformat.html. SQLite does not lock the log itself, so opening it here
is harmless (closing ``journal.db`` would drop this process's locks on it; see ``locate``). A live writer may start
the log anew while it is read; so whoever finds damage reads again, and believes it only if it is still there.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from quoracy.stores.sqlite.schema import PAGE_BYTES

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_MASK = 0xFFFFFFFF


class LostCommits(NamedTuple):
    """Commits that are in the log but that SQLite cannot reach any more."""

    offset: int
    """Where the damaged frame begins; 0 for the header of the log."""
    what: str


class Frame(NamedTuple):
    offset: int
    page: int
    commits: bool
    salt: tuple[int, int]
    checksum: tuple[int, int]


class Log:
    """A log as it stands in its file. ``content`` has at least a header."""

    HEADER_BYTES = _HEADER.size

    def __init__(self, content: bytes) -> None:
        magic, _, page_bytes, _, *rest = _HEADER.unpack_from(content)
        self.content = content
        self._swapped = (sys.byteorder == "big") != bool(magic & 1)
        self.checksum = (rest[2], rest[3])
        self.header_is_good = magic & ~1 == _MAGIC and self._sum((0, 0), content[:24]) == self.checksum
        self.page_bytes = page_bytes if self.header_is_good else PAGE_BYTES
        self.salt = (rest[0], rest[1])
        self._stride = _FRAME.size + self.page_bytes
        self.count = (len(content) - _HEADER.size) // self._stride

    def frame(self, index: int) -> Frame:
        offset = _HEADER.size + index * self._stride
        page, size_after, *rest = _FRAME.unpack_from(self.content, offset)
        return Frame(offset, page, size_after != 0, (rest[0], rest[1]), (rest[2], rest[3]))

    def lost(self) -> LostCommits | None:
        if not self.header_is_good:
            what = f"the header of the log is damaged: {self.count} frames cannot be reached"
            return LostCommits(0, what) if self.count else None
        good = self._readable()
        if good == self.count or not self._later_commit_behind(good):
            return None
        what = f"frame {good + 1} of the log is damaged: the commits after it cannot be reached"
        return LostCommits(self.frame(good).offset, what)

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """(offset in the file, page) of each frame that belongs to this log, oldest first."""
        for index in range(self.count):
            frame = self.frame(index)
            if frame.salt == self.salt:
                yield frame.offset + _FRAME.size, self._page(frame)

    def salvaged(self) -> dict[int, bytes]:
        """The newest version of each page, by page number, as it would be if SQLite went on behind the damage. Pages
        may be damaged or too old: whoever uses them must check every row."""
        count = self.count if self.lost() else self._readable()
        frames = [self.frame(index) for index in range(count)]
        salts = Counter(frame.salt for frame in frames).most_common(1)
        salt = self.salt if self.header_is_good else salts[0][0] if salts else self.salt
        newest: dict[int, bytes] = {}
        pending: dict[int, bytes] = {}
        for frame in frames:
            if frame.salt == salt and frame.page:
                pending[frame.page] = self._page(frame)
                if frame.commits:
                    newest |= pending
                    pending = {}
        return newest

    def _page(self, frame: Frame) -> bytes:
        start = frame.offset + _FRAME.size
        return self.content[start : start + self.page_bytes]

    def _readable(self) -> int:
        """How many frames SQLite will accept."""
        for index in range(self.count):
            frame = self.frame(index)
            if frame.salt != self.salt or self._checksum(index, frame) != frame.checksum:
                return index
        return self.count

    def _later_commit_behind(self, broken: int) -> bool:
        """Whether a commit follows that began after the broken frame's own commit was fsynced.

        The first commit mark behind a broken frame may be the end of its own commit, so it takes a second one. All must
        be linked to each other: leftovers of commits that failed may lie behind the end of the log, but no two of them
        are linked. Being linked to is also what shows that a mark on a broken frame is of this log.
        """
        frame = self.frame(broken)
        repaired = self._checksum(broken, frame)
        marks = int(frame.commits)
        for index in range(broken + 1, self.count):
            frame = self.frame(index)
            if frame.salt != self.salt or not self._is_linked(index, frame, repaired if index == broken + 1 else None):
                marks = int(frame.commits)
            elif frame.commits:
                marks += 1
                if marks == 2:
                    return True
        return False

    def _is_linked(self, index: int, frame: Frame, repaired: tuple[int, int] | None) -> bool:
        """``repaired`` is what the frame before should have stored, in case just that was damaged."""
        return frame.checksum in (self._checksum(index, frame), repaired and self._checksum(index, frame, repaired))

    def _checksum(self, index: int, frame: Frame, before: tuple[int, int] | None = None) -> tuple[int, int]:
        """What this frame should store, given what the one before stores."""
        if before is None:
            before = self.frame(index - 1).checksum if index else self.checksum
        after_head = self._sum(before, self.content[frame.offset : frame.offset + 8])
        return self._sum(after_head, self._page(frame))

    def _sum(self, start: tuple[int, int], part: bytes) -> tuple[int, int]:
        words = array("I", part)
        if self._swapped:
            words.byteswap()
        first, second = start
        pairs = iter(words)
        for even, odd in zip(pairs, pairs, strict=True):
            first = (first + even + second) & _MASK
            second = (second + odd + first) & _MASK
        return first, second


def log_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def lost_commits(database: Path) -> LostCommits | None:
    """What SQLite would silently forget on opening this file, or None."""
    seen: LostCommits | None = None
    for _ in range(3):
        log = read_log(database)
        found = log.lost() if log else None
        if found is None or found == seen:
            return found
        seen = found
    return seen


def read_log(database: Path) -> Log | None:
    try:
        content = log_of(database).read_bytes()
    except FileNotFoundError:
        return None
    return Log(content) if len(content) >= Log.HEADER_BYTES else None
