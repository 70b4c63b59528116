"""Uploads on a local disk: one growing file each, under a name that is no key.

Whoever adds to one holds a lock on the file, not on its name: so before it writes it looks whether the name still leads
to this file. Otherwise it could write to an object that was an upload a moment ago.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time

from quoracy.core.errors import DigestMismatch, ObjectMissing, UploadOffset
from quoracy.objects.checking import digest_of
from quoracy.objects.durable import told, write_all
from quoracy.ports.objects import Chunk


class Uploads:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, upload: str) -> int:
        with told(self._folder):
            descriptor = os.open(self._folder / upload, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                return os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)

    def offset(self, upload: str) -> int | None:
        with told(self._folder):
            try:
                return (self._folder / upload).stat().st_size
            except FileNotFoundError:
                return None

    def append(self, upload: str, offset: int, content: Chunk) -> int:
        with self._locked(upload) as descriptor, told(self._folder / upload):
            at = os.fstat(descriptor).st_size
            if at != offset:
                raise UploadOffset(upload, offset, at)
            try:
                write_all(descriptor, content, offset)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, offset)
                raise
            return offset + len(content)

    def take(self, upload: str, key: str, digest: str, to: Path) -> None:
        """Check the upload, sync it, and move it away from where it can grow."""
        with self._locked(upload) as descriptor, told(self._folder / upload):
            found = digest_of(descriptor)
            if found != digest:
                (self._folder / upload).unlink()
                raise DigestMismatch(key, digest, found)
            os.fsync(descriptor)
            (self._folder / upload).rename(to)

    def abandon(self, upload: str) -> None:
        with told(self._folder):
            (self._folder / upload).unlink(missing_ok=True)

    @contextmanager
    def _locked(self, upload: str) -> Iterator[int]:
        path = self._folder / upload
        with told(path):
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                raise ObjectMissing(upload, "upload") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                same = os.path.samestat(path.stat(), os.fstat(descriptor))
            except FileNotFoundError:
                same = False
            if not same:
                raise ObjectMissing(upload, "upload")
            yield descriptor
        finally:
            os.close(descriptor)


def sweep(folder: Path, older_than_s: float) -> int:
    """Remove the files in it that nobody has written to for so long."""
    before, removed = time() - older_than_s, 0
    with told(folder):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime <= before:
                    path.unlink()
                    removed += 1
    return removed
