"""Folders that survive a crash: a name is there for good once its folder has been synced, and not before."""

from __future__ import annotations

import os
from pathlib import Path


def make_directory(path: Path) -> None:
    """Create the directory durably, and the ones above it that are missing."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in reversed(missing):
        sync_directory(place.parent)


def sync_directory(path: Path) -> None:
    _sync(path, os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    _sync(path, 0)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
