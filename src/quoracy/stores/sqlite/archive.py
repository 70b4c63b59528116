"""Archived segments as files: ``segments/<run>/<first>-<last>.qseg`` under the data directory.

A run may be called anything, so its directory is named after it only where that is harmless on every file system;
otherwise a readable rest is followed by a digest. No name can lead out of ``segments``.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import Segment
from quoracy.stores import segment
from quoracy.stores.durable import TEMPORARY, write_durably

INDEXES_KEPT = 16
_HARMLESS = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def directory_name(run: str) -> str:
    """Lower case only, because some file systems take ``Run`` and ``run`` for the same."""
    if _HARMLESS.fullmatch(run):
        return run
    readable = re.sub(r"[^a-z0-9]+", "-", run.lower())[:32].strip("-")
    return f"{readable}~{blake2b(run.encode(), digest_size=10).hexdigest()}"


class _Index(NamedTuple):
    """Where each entry of a segment begins, and at the end where the last one ends."""

    offsets: array[int]
    damage: segment.Damage | None


class Archive:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._indexes: OrderedDict[str, _Index] = OrderedDict()
        self._guard = Lock()

    def write(self, run: str, first: int, last: int, payloads: Iterable[bytes]) -> Segment:
        """Durable when this returns, and read back: the entries are about to be deleted elsewhere. Whatever stood
        under the name before is replaced."""
        name = f"segments/{directory_name(run)}/{first:012}-{last:012}.qseg"
        size_bytes = write_durably(self.directory / name, _chunks(run, first, last, payloads))
        sealed = Segment(first, last, name, size_bytes, present=True)
        self.check(run, sealed)
        return sealed

    def read(self, run: str, archived: Segment, first: int, last: int) -> list[bytes]:
        """Entries ``first``..``last``, all of which belong to this segment. Raises FileNotFoundError or
        JournalCorrupt."""
        index = self._index(run, archived)
        begin, end = first - archived.first, min(last - archived.first + 1, len(index.offsets) - 1)
        payloads: list[bytes] = []
        if begin < end:
            with (self.directory / archived.name).open("rb") as file:
                file.seek(index.offsets[begin])
                content = file.read(index.offsets[end] - index.offsets[begin])
            for n in range(first, archived.first + end):
                offset = index.offsets[n - archived.first]
                record = segment.decode_record(content, offset - index.offsets[begin], n)
                if isinstance(record, segment.Damage):
                    raise JournalCorrupt(run, n, offset, record.what, archived.name)
                payloads.append(record.payload)
        if len(payloads) <= last - first and index.damage is not None:
            damage = index.damage
            raise JournalCorrupt(run, damage.entry or archived.first, damage.offset, damage.what, archived.name)
        return payloads

    def check(self, run: str, archived: Segment) -> None:
        """The whole file, also what no entry depends on. Raises JournalCorrupt."""
        with self._guard:
            self._indexes.pop(archived.name, None)
        try:
            damage = self._index(run, archived).damage
        except FileNotFoundError:
            what = "the file of the segment is missing"
            raise JournalCorrupt(run, archived.first, 0, what, archived.name) from None
        if damage is not None:
            raise JournalCorrupt(run, damage.entry or archived.first, damage.offset, damage.what, archived.name)

    def remove(self, archived: Segment) -> None:
        with self._guard:
            self._indexes.pop(archived.name, None)
        (self.directory / archived.name).unlink(missing_ok=True)

    def sweep(self, run: str, rows: list[Segment]) -> None:
        """Remove files that no row names: a crash came between the file and its row, or between the row and the
        deletion of the file. Only with the maintenance lock held, or another process's new file might be swept."""
        place = self.directory / "segments" / directory_name(run)
        wanted = {row.name.rpartition("/")[2] for row in rows if row.present}
        for pattern in ("*.qseg", f"*.qseg{TEMPORARY}"):
            for file in place.glob(pattern):
                if file.name not in wanted:
                    file.unlink(missing_ok=True)

    def _index(self, run: str, archived: Segment) -> _Index:
        with self._guard:
            index = self._indexes.get(archived.name)
            if index is not None:
                self._indexes.move_to_end(archived.name)
                return index
        scan = segment.scan((self.directory / archived.name).read_bytes())
        if _belongs(scan, run, archived):
            damage = scan.damage or _cut_short(scan, archived)
            offsets = array("Q", [record.offset for record in scan.records])
            offsets.append(scan.records[-1].offset + segment.RECORD_BYTES + len(scan.records[-1].payload))
        else:
            what = f"the file begins with entry {scan.records[0].n} of run {scan.run!r}" if scan.records else "is empty"
            damage = scan.damage or segment.Damage(archived.first, 0, what, torn=False)
            offsets = array("Q", [0])
        index = _Index(offsets, damage)
        if damage is None:
            with self._guard:
                self._indexes[archived.name] = index
                while len(self._indexes) > INDEXES_KEPT:
                    self._indexes.popitem(last=False)
        return index


def _chunks(run: str, first: int, last: int, payloads: Iterable[bytes]) -> Iterator[bytes]:
    yield segment.encode_header(run)
    for n, payload in enumerate(payloads, first):
        yield segment.encode_record(n, payload)
    yield segment.encode_end(last)


def _belongs(scan: segment.Scan, run: str, archived: Segment) -> bool:
    """Whether the file, whole in itself or not, is the one that was archived under this name."""
    return bool(scan.records) and (scan.run, scan.records[0].n) == (run, archived.first)


def _cut_short(scan: segment.Scan, archived: Segment) -> segment.Damage | None:
    last = scan.records[-1].n
    if last == archived.last and scan.sealed:
        return None
    return segment.Damage(last + 1, archived.size_bytes, f"the file ends after entry {last}", torn=True)
