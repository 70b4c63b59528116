"""Chunks on their way into a store, and their digest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import local
from typing import Final

from blake3 import blake3

from quoracy.core.errors import DigestMismatch, ObjectCorrupt
from quoracy.ports.objects import CHUNK_BYTES, Chunk

ROOM_BYTES: Final = 1024 * 1024


def checked(chunks: Iterable[Chunk], key: str, digest: str) -> Iterator[Chunk]:
    """The same chunks; at their end DigestMismatch, if they are not what the digest says."""
    if not digest:
        yield from chunks
        return
    found = blake3()
    for chunk in chunks:
        found.update(chunk)
        yield chunk
    if found.hexdigest() != digest:
        raise DigestMismatch(key, digest, found.hexdigest())


def trusted(chunks: Iterable[Chunk], key: str, digest: str) -> Iterator[Chunk]:
    """As ``checked``, for what comes out of a store: then it is the store that is wrong."""
    try:
        yield from checked(chunks, key, digest)
    except DigestMismatch as wrong:
        raise ObjectCorrupt(key, f"the digest should be {wrong.wanted}, what is stored has {wrong.found}") from None


def file_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def digest_of(descriptor: int) -> str:
    """Of an open file."""
    found, at, room = blake3(), 0, _own.room()
    while count := os.preadv(descriptor, [room], at):
        found.update(room[:count])
        at += count
    return str(found.hexdigest())


class _Own(local):
    """Memory of one thread, which is used again: new memory takes longer to get than a file to read."""

    _room: memoryview | None = None

    def room(self) -> memoryview:
        if self._room is None:
            self._room = memoryview(bytearray(ROOM_BYTES))
        return self._room


_own: Final = _Own()


def pieces(content: bytes) -> Iterator[bytes]:
    view = memoryview(content)
    for start in range(0, len(content), CHUNK_BYTES):
        yield bytes(view[start : start + CHUNK_BYTES])
