"""Folders that survive a crash: a name is there for good once its folder has been synced, and not before. And files
that are hardly read again."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_directory(path: Path) -> None:
    """Create the directory durably, and the ones above it that are missing."""
    if path.is_dir():
        return
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        sync_directory(place.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unneeded(path: Path) -> None:
    """Nobody is going to read this file soon: the system may use the memory that it keeps of it for the next one. What
    is not on disk yet, or mapped, stays."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
