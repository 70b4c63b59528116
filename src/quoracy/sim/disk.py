"""A disk that forgets what was not synced, and tears what it was writing.

The file has the format of real segments, and after a crash it is read with the code that reads real segments: a torn
tail must be recognised as such and cut off, never taken for an entry.
"""

from __future__ import annotations

from random import Random

from quoracy.core.errors import JournalCorrupt
from quoracy.stores import segment


class Disk:
    def __init__(self, run: str) -> None:
        self._run = run
        self._synced = bytearray(segment.encode_header(run))
        self._cache = bytearray()

    def write(self, n: int, payload: bytes) -> None:
        """Into the cache: visible to this machine, gone with its power."""
        self._cache += segment.encode_record(n, payload)

    def sync(self) -> None:
        self._synced += self._cache
        self._cache.clear()

    def lose_power(self, rng: Random) -> None:
        """Of what was not synced, any number of bytes from the front may have reached the plate."""
        kept = rng.choice((0, len(self._cache), rng.randint(0, len(self._cache))))
        self._synced += self._cache[:kept]
        self._cache.clear()

    def recover(self) -> list[bytes]:
        """The entries that are there, a torn tail cut off. Raises JournalCorrupt for any other damage."""
        scan = segment.scan(bytes(self._synced))
        if scan.damage is not None:
            if not scan.damage.torn:
                raise JournalCorrupt(self._run, scan.damage.entry, scan.damage.offset, scan.damage.what, "the disk")
            del self._synced[scan.damage.offset :]
        return [record.payload for record in scan.records]
