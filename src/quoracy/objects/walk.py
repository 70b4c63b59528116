"""Reading a directory of objects: all keys in order, and one file in chunks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from quoracy.objects.durable import told
from quoracy.ports.objects import CHUNK_BYTES, Listed, is_part


def walk(folder: Path, prefix: str, after: str) -> Iterator[Listed]:
    """Objects below the folder, whose keys begin with ``prefix``, beyond ``after``, in the order of their keys. What is
    not named like a part of a key is none of ours."""
    found: list[tuple[str, os.DirEntry[str]]] = []
    try:
        with os.scandir(folder) as entries:
            own = (entry for entry in entries if is_part(entry.name))
            found.extend((entry.name + "/" if entry.is_dir() else entry.name, entry) for entry in own)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in sorted(found, key=lambda pair: pair[0]):
        key = prefix + name
        if name.endswith("/"):
            if key > after or after.startswith(key):
                yield from walk(folder / entry.name, key, after)
        elif key > after:
            try:
                yield Listed(key, entry.stat().st_size)
            except FileNotFoundError:
                continue


class Reading:
    """A file from an offset to its end. It stays the same file, whatever its name leads to meanwhile."""

    def __init__(self, path: Path, start: int) -> None:
        """Raises FileNotFoundError, also for a directory."""
        self._path = path
        self._at = start
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except NotADirectoryError:
            raise FileNotFoundError(str(path)) from None
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise FileNotFoundError(str(path))
        self.size_bytes = status.st_size

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = self.read(CHUNK_BYTES) if self._descriptor >= 0 else b""
        if not chunk:
            self.close()
            raise StopIteration
        return chunk

    def read(self, size_bytes: int) -> bytes:
        with told(self._path):
            chunk = os.pread(self._descriptor, size_bytes, self._at)
        self._at += len(chunk)
        return chunk

    def fileno(self) -> int:
        """The open file, for who lets the kernel read it; it is closed with this. -1: it is."""
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close
