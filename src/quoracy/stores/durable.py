"""Files that are there whole or not at all, and locks that die with their process.

A file is written under a temporary name, fsynced, renamed, and then its directory is fsynced: after a crash at any
point the old file or the new one is there, never half of one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic, sleep

from quoracy.core.errors import JournalBroken, JournalBusy, JournalFull
from quoracy.folders import make_directory, sync_directory

TEMPORARY = ".new"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_durably(path: Path, chunks: Iterable[bytes]) -> int:
    """Write the file and return its size. Raises JournalFull or JournalBroken; then ``path`` is as it was before."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        make_directory(path.parent)
        try:
            size_bytes = _write(temporary, chunks)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise JournalFull(f"no room for {path}: {error.strerror}") from error
        raise JournalBroken(f"{path} cannot be written: {error}") from error
    return size_bytes


def _write(path: Path, chunks: Iterable[bytes]) -> int:
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


class Lock:
    """An exclusive lock on a file of its own. The system frees it when the process dies, however it dies.

    ``flock`` belongs to the open file, which a forked child inherits: without ``_let_go`` a child would keep the lock
    of a parent that is long dead. (Programs started with exec do not inherit it.)
    """

    _held: weakref.WeakSet[Lock] = weakref.WeakSet()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """True if this object holds the lock now. Asking again while it does is fine."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        self._held.add(self)
        return True

    def holder(self) -> str:
        """The process id that the holder left, for people: it may have died since."""
        try:
            return self.path.read_text().strip()
        except OSError:
            return ""

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._held.discard(self)

    @contextlib.contextmanager
    def hold(self, timeout_s: float) -> Iterator[None]:
        """Wait for the lock, at most this long."""
        deadline = monotonic() + timeout_s
        while not self.try_acquire():
            if monotonic() >= deadline:
                raise JournalBusy(f"process {self.holder()} holds {self.path} for more than {timeout_s:g} s")
            sleep(0.002)
        try:
            yield
        finally:
            self.release()

    @classmethod
    def _let_go(cls) -> None:
        for lock in list(cls._held):
            lock.release()


os.register_at_fork(after_in_child=Lock._let_go)
