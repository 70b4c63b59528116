"""A blob that is not whole yet: the file it grows in, which stretches of it are there, and its digest as far as it is
known.

Beside the file lies a small one, with the digest and size of the blob and a byte for each stretch that has come; so a
later try asks only for the rest. Bytes that come in order are hashed as they come, while they are at hand; others are
read again when it is their turn.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from quoracy.sdk.witnessed.exchange.channel import PIECE_BYTES
from quoracy.sdk.witnessed.exchange.limits import STRETCH_BYTES


class Part:
    def __init__(self, into: Path, digest: bytes, again: bool = False) -> None:
        """``again``: from scratch, beside one that is in doubt. Raises OSError."""
        self._into = into
        self._digest = digest
        self.path = into.with_name(f".{into.name}.{'again' if again else 'part'}")
        self._noted_path = into.with_name(f".{into.name}.stretches")
        self._notes = -1
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC * again), 0o600)
        self._hasher = blake3()
        self._hashed = 0
        self._hashing = threading.Lock()

    # -- what is there ----------------------------------------------------------------------------------------------

    def take_up(self, size_bytes: int) -> set[int]:
        """The stretches that an earlier try has left. From here on, those that come are noted."""
        count = -(-size_bytes // STRETCH_BYTES)
        if count < 2:
            return set()
        self._notes = os.open(self._noted_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        head = self._digest + size_bytes.to_bytes(8, "big")
        found = os.pread(self._notes, len(head) + count, 0)
        if found[: len(head)] == head:
            marks = found[len(head) :]
            reach = os.fstat(self._file).st_size
            return {
                at for at, mark in enumerate(marks) if mark == 1 and min(size_bytes, (at + 1) * STRETCH_BYTES) <= reach
            }
        os.ftruncate(self._notes, 0)
        os.pwrite(self._notes, head, 0)
        return set()

    def note(self, stretch: int) -> None:
        if self._notes >= 0:
            os.pwrite(self._notes, b"\1", len(self._digest) + 8 + stretch)

    def write(self, offset: int, piece: memoryview) -> None:
        at = 0
        while at < len(piece):
            at += os.pwrite(self._file, piece[at:], offset + at)

    # -- the digest -------------------------------------------------------------------------------------------------

    def hash_along(self, offset: int, piece: memoryview, there: Callable[[int], int]) -> None:
        """A piece has been written. ``there``: up to where everything has come, from an offset on. Whoever finds
        another at it leaves the rest to that one, or to the end."""
        if not self._hashing.acquire(blocking=False):
            return
        try:
            if self._file < 0:
                return
            if offset == self._hashed:
                self._hasher.update(piece)
                self._hashed += len(piece)
            elif (end := there(self._hashed)) > self._hashed:
                self._read_on(min(end, self._hashed + STRETCH_BYTES))
        finally:
            self._hashing.release()

    def _read_on(self, end: int) -> None:
        room = memoryview(bytearray(PIECE_BYTES))
        while self._hashed < end:
            count = os.preadv(self._file, [room[: min(PIECE_BYTES, end - self._hashed)]], self._hashed)
            if not count:
                return
            self._hasher.update(room[:count])
            self._hashed += count

    def right(self, size_bytes: int) -> bool:
        """Whether the whole is what it should be. Nobody writes any more."""
        os.ftruncate(self._file, size_bytes)
        with self._hashing:
            self._read_on(size_bytes)
            found: bytes = self._hasher.digest()
        return self._hashed == size_bytes and found == self._digest

    # -- the end ----------------------------------------------------------------------------------------------------

    def differs(self, other: Part, start: int, end: int) -> bool:
        for at in range(start, end, PIECE_BYTES):
            count = min(PIECE_BYTES, end - at)
            if os.pread(self._file, count, at) != os.pread(other._file, count, at):
                return True
        return False

    def size_bytes(self) -> int:
        return os.fstat(self._file).st_size

    def publish(self) -> None:
        """It is whole and right."""
        self.path.replace(self._into)
        self.forget()
        self._into.with_name(f".{self._into.name}.part").unlink(missing_ok=True)

    def forget(self) -> None:
        """What has come so far counts no more."""
        with suppress(FileNotFoundError):
            self._noted_path.unlink()

    def close(self) -> None:
        with self._hashing:
            for descriptor in (self._file, self._notes):
                if descriptor >= 0:
                    os.close(descriptor)
            self._file = self._notes = -1
