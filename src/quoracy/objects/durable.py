"""Files that are there whole or not at all, and what the system's errors mean here.

A file is written under a name of its own and synced before it gets the name that others know, and then the directory is
synced: after a crash at any point the name leads to all of it or to nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from quoracy.core.errors import ObjectsBroken, ObjectsDenied, ObjectsFull
from quoracy.folders import sync_directory
from quoracy.ports.objects import Chunk

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def told(where: Path) -> Iterator[None]:
    """What the disk says, as one of our errors, with the place and what to do."""
    try:
        yield
    except OSError as error:
        why = f"{where}: {error.strerror or error}"
        if error.errno in NO_ROOM:
            raise ObjectsFull(f"no room at {why}; make room, and try it again") from error
        if error.errno in DENIED:
            raise ObjectsDenied(f"not allowed at {why}; let this user write there, or name another place") from error
        raise ObjectsBroken(f"the disk failed at {why}") from error


def write_new(path: Path, chunks: Iterable[Chunk]) -> int:
    """Write a file that nobody else knows of, and sync it; returns its size. It is gone if anything goes wrong. Only
    the disk's own trouble becomes one of our errors: what ``chunks`` raises is its own."""
    size_bytes = 0
    with told(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            for chunk in chunks:
                with told(path):
                    write_all(descriptor, chunk, size_bytes)
                size_bytes += len(chunk)
            with told(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    return size_bytes


def write_all(descriptor: int, content: Chunk, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def protect(path: Path) -> None:
    """Nobody is meant to write to an object any more, under none of its names. A guard against slips: an owner can take
    it off."""
    path.chmod(path.stat().st_mode & 0o444)


def place_file(path: Path, chunks: Iterable[Chunk]) -> int:
    """Write the file, replacing what is there; returns its size. No half file is ever to be seen under its name."""
    temporary = path.with_name(f".{path.name[:100]}.{token_hex(8)}.new")
    size_bytes = write_new(temporary, chunks)
    with told(path):
        try:
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)
    return size_bytes
