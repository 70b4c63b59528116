"""Segments over a bare store: lines drawn through the entries.

There is no second, slower tier to move entries to, so sealing a segment only writes down where it ends. Deleting is
``Entries.clean``: a segment is present as long as it is above the floor.
"""

from __future__ import annotations

import msgspec

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import Segment
from quoracy.stores.keyvalue.entries import Entries
from quoracy.stores.keyvalue.keys import Sealed
from quoracy.stores.keyvalue.snapshots import Snapshots
from quoracy.stores.keyvalue.steps import Create, Get, Step, Steps, Swap

ENTRIES_AT_ONCE = 64


class Line(msgspec.Struct, frozen=True, array_like=True):
    """The last entry of a segment, and how large its entries are together."""

    last: int
    size_bytes: int


_lines = msgspec.msgpack.Decoder(list[Line])


class Segments:
    def __init__(self, entries: Entries, snapshots: Snapshots) -> None:
        self._entries = entries
        self._snapshots = snapshots
        self._keys = entries.keys
        self._sealed = Sealed("segments", entries.keys.run)

    def all(self) -> Steps[list[Segment]]:
        lines, _ = yield from self._read()
        floor = yield from self._entries.floor()
        firsts = [1, *(line.last + 1 for line in lines)]
        return [_segment(first, line, first > floor) for first, line in zip(firsts, lines, strict=False)]

    def compact(self, upto: int, keep: int | None) -> Steps[Segment | None]:
        newest = yield from self._snapshots.newest()
        sealed = yield from self._seal(min(upto, newest))
        if keep is not None:
            lines, _ = yield from self._read()
            if len(lines) > keep:
                yield from self._entries.clean(lines[len(lines) - keep - 1].last)
            else:
                yield from self._entries.sweep()
        if sealed is None:
            return None
        floor = yield from self._entries.floor()
        return _segment(sealed[0], sealed[1], sealed[0] > floor)

    def _seal(self, upto: int) -> Steps[tuple[int, Line] | None]:
        while True:
            lines, found = yield from self._read()
            first = lines[-1].last + 1 if lines else 1
            if upto < first:
                return None
            line = Line(upto, (yield from self._measure(first, upto)))
            wanted = self._sealed.seal(msgspec.msgpack.encode([*lines, line]))
            key = self._keys.segments
            step: Step = Create(key, wanted) if found is None else Swap(key, found, wanted)
            stored = yield step
            if stored == wanted:
                return first, line

    def _measure(self, first: int, last: int) -> Steps[int]:
        """Reads all that is about to be sealed, so that damage is found while there may be a copy somewhere."""
        size_bytes = 0
        while first <= last:
            payloads = yield from self._entries.read(first, min(ENTRIES_AT_ONCE, last - first + 1))
            if not payloads:
                raise JournalCorrupt(self._keys.run, first, 0, "the entry is missing", self._keys.entry(first))
            size_bytes += sum(map(len, payloads))
            first += len(payloads)
        return size_bytes

    def _read(self) -> Steps[tuple[list[Line], bytes | None]]:
        found: bytes | None = yield Get(self._keys.segments)
        return [] if found is None else _lines.decode(self._sealed.open(found, self._keys.segments)), found


def _segment(first: int, line: Line, present: bool) -> Segment:
    return Segment(first, line.last, f"entries/{first}-{line.last}", line.size_bytes, present)
