"""What this member gives: blobs in memory or in files, by their digests."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quoracy.sdk.witnessed.exchange.port import Source


class Opened:
    """One blob, to be read from. A file stays the same, whatever its name leads to meanwhile."""

    def __init__(self, source: Source) -> None:
        """Raises OSError."""
        self._file = -1
        if isinstance(source, Path):
            self._file = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
            self._view = memoryview(b"")
            self.size_bytes = os.fstat(self._file).st_size
        else:
            self._view = memoryview(source).cast("B")
            self.size_bytes = len(self._view)

    def piece(self, offset: int, room: memoryview) -> memoryview:
        """The next bytes, as many as there is room for: from memory they need none. Empty at the end."""
        if self._file < 0:
            return self._view[offset : offset + len(room)]
        return room[: os.preadv(self._file, [room], offset)]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Offers:
    def __init__(self) -> None:
        self._sources: dict[bytes, Source] = {}
        self._asked: dict[bytes, None] = {}
        """Somebody has come for these."""
        self._lock = threading.Lock()

    def add(self, digest: bytes, source: Source) -> None:
        with self._lock:
            self._sources[digest] = source

    def remove(self, digest: bytes) -> None:
        with self._lock:
            self._sources.pop(digest, None)
            self._asked.pop(digest, None)

    def source(self, digest: bytes) -> Source | None:
        with self._lock:
            return self._sources.get(digest)

    def was_asked(self, digest: bytes) -> bool:
        with self._lock:
            return digest in self._asked

    @contextmanager
    def opened(self, digest: bytes) -> Iterator[Opened | None]:
        """None: it is not here, or not any more."""
        with self._lock:
            source = self._sources.get(digest)
            if source is not None:
                self._asked[digest] = None
        found = None
        if source is not None:
            try:
                found = Opened(source)
            except OSError:
                self.remove(digest)
        try:
            yield found
        finally:
            if found is not None:
                found.close()
