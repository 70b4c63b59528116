"""Hot entries, and how they move into archived segments.

First the chunks of the segment are written, which nobody names yet; then one transaction writes its row, moves the line
between hot and archived, and deletes the hot entries. Retention marks a row as gone and deletes its chunks in one
transaction as well. A crash in between leaves chunks that nobody names; the next compaction removes them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from quoracy.core.errors import EntriesGone, JournalCorrupt
from quoracy.ports import Segment
from quoracy.stores.etcd.client import Client
from quoracy.stores.etcd.keys import Keys, digits, said
from quoracy.stores.etcd.snapshots import Snapshots
from quoracy.stores.etcd.upkeep import Hold, Upkeep
from quoracy.stores.etcd.words import KeyValue, Op, Reach, delete, put, unchanged, under

CHUNK_BYTES: Final = 640 * 1024
"""With the largest entry in it, it is still below what etcd takes at once."""
BATCH: Final = 1000


class Row(msgspec.Struct, frozen=True, array_like=True):
    first: int
    last: int
    size_bytes: int
    present: bool
    chunks: list[int]
    """The first entry of each."""

    def segment(self) -> Segment:
        return Segment(self.first, self.last, f"archive/{digits(self.first)}", self.size_bytes, self.present)


_row = msgspec.msgpack.Decoder(Row)
_chunk = msgspec.msgpack.Decoder(list[bytes])


class Segments:
    def __init__(self, client: Client, keys: Keys, upkeep: Upkeep, snapshots: Snapshots) -> None:
        self._client = client
        self._keys = keys
        self._upkeep = upkeep
        self._snapshots = snapshots

    def hot(self, run: str, kv: KeyValue | None) -> int:
        """The first entry that is in no segment."""
        return 1 if kv is None else int(self._keys.unwrap(kv.key, kv.value, run))

    def entries(self, run: str, name: bytes, first: int, last: int, revision: int) -> list[bytes]:
        """Hot ones, which must all be there: the head says so."""
        payloads: list[bytes] = []
        reach = Reach(self._keys.entry(name, first), self._keys.entry(name, last + 1))
        n = first
        for kv in self._client.scan(reach, revision):
            if kv.key != self._keys.entry(name, n):
                break
            payloads.append(self._keys.unwrap(kv.key, kv.value, run, n))
            n += 1
        if n <= last:
            key = self._keys.entry(name, n)
            raise JournalCorrupt(run, n, 0, "the entry is missing", f"the key {said(key)}")
        return payloads

    def all(self, run: str, name: bytes) -> list[Segment]:
        seen = self._client.read(Reach(self._keys.of_run(name, "hot")))
        hot = self.hot(run, seen.one(0))
        return [row.segment() for row in self._rows(run, name, hot, seen.revision)] if hot > 1 else []

    def _rows(self, run: str, name: bytes, hot: int, revision: int) -> list[Row]:
        """All of them, which must cover everything below ``hot`` without a gap."""
        rows: list[Row] = []
        expected = 1
        for kv in self._client.scan(under(self._keys.of_run(name, "segments", "")), revision):
            row = _row.decode(self._keys.unwrap(kv.key, kv.value, run, expected))
            if row.first != expected:
                break
            rows.append(row)
            expected = row.last + 1
        if expected != hot:
            key = self._keys.of_run(name, "segments", digits(expected))
            raise JournalCorrupt(run, expected, 0, "the row of a segment is missing", f"the key {said(key)}")
        return rows

    def read(self, run: str, name: bytes, first: int, last: int, hot: int, revision: int) -> list[bytes]:
        """Archived entries, which are all below ``hot``."""
        rows = self._rows(run, name, hot, revision)
        payloads: list[bytes] = []
        for row in rows:
            if row.last < first or row.first > last:
                continue
            if not row.present:
                raise EntriesGone(run, first, next((later.first for later in rows if later.present), hot))
            payloads += self._read_row(run, name, row, max(first, row.first), min(last, row.last), revision)
        return payloads

    def _read_row(self, run: str, name: bytes, row: Row, first: int, last: int, revision: int) -> list[bytes]:
        payloads: list[bytes] = []
        begin = bisect_right(row.chunks, first) - 1
        ends = [*row.chunks[1:], row.last + 1]
        for which in range(begin, bisect_right(row.chunks, last)):
            n, end = row.chunks[which], ends[which]
            key = self._chunk_key(name, row.first, n)
            kv = self._client.read(Reach(key), revision=revision).one(0)
            if kv is None:
                raise JournalCorrupt(run, n, 0, "a chunk of a segment is missing", f"the key {said(key)}")
            chunk = _chunk.decode(self._keys.unwrap(key, kv.value, run, n))
            if len(chunk) != end - n:
                raise JournalCorrupt(run, n, 0, f"{len(chunk)} entries where {end - n} belong", f"the key {said(key)}")
            payloads += chunk[max(first - n, 0) : last + 1 - n]
        return payloads

    # -- moving -----------------------------------------------------------------------------------------------------

    def compact(self, run: str, name: bytes, upto: int, keep: int | None) -> Segment | None:
        with self._upkeep.hold(name) as hold:
            saved = self._snapshots.row(run, name)[0].n
            key = self._keys.of_run(name, "hot")
            seen = self._client.read(Reach(key))
            kv = seen.one(0)
            hot, upto = self.hot(run, kv), min(upto, saved)
            sealed = None
            if upto >= hot:
                sealed = self._seal(run, name, hot, upto, hold, kv.mod_revision if kv else 0, seen.revision)
            if keep is not None:
                self._retain(run, name, keep, hold)
            return sealed.segment() if sealed else None

    def _seal(self, run: str, name: bytes, hot: int, upto: int, hold: Hold, hot_revision: int, revision: int) -> Row:
        archive = under(self._keys.of_run(name, "archive", ""))
        hold.write([delete(Reach(self._keys.of_run(name, "archive", digits(hot)), archive.end))])
        chunks: list[int] = []
        size_bytes = 0
        for n, chunk in self._chunks(run, name, hot, upto, revision):
            key = self._chunk_key(name, hot, n)
            value = self._keys.wrap(key, msgspec.msgpack.encode(chunk))
            hold.write([put(key, value)])
            chunks.append(n)
            size_bytes += len(value)
        row = Row(hot, upto, size_bytes, True, chunks)
        line = self._keys.of_run(name, "hot")
        moved = [
            self._put_row(name, row),
            put(line, self._keys.wrap(line, b"%d" % (upto + 1))),
            delete(Reach(self._keys.entry(name, hot), self._keys.entry(name, upto + 1))),
        ]
        hold.write(moved, [unchanged(line, hot_revision)])
        return row

    def _chunks(self, run: str, name: bytes, first: int, last: int, revision: int) -> Iterator[tuple[int, list[bytes]]]:
        chunk: list[bytes] = []
        n, size_bytes = first, 0
        for begin in range(first, last + 1, BATCH):
            for payload in self.entries(run, name, begin, min(begin + BATCH - 1, last), revision):
                if chunk and size_bytes + len(payload) > CHUNK_BYTES:
                    yield n, chunk
                    n, chunk, size_bytes = n + len(chunk), [], 0
                chunk.append(payload)
                size_bytes += len(payload)
        yield n, chunk

    def _retain(self, run: str, name: bytes, keep: int, hold: Hold) -> None:
        seen = self._client.read(Reach(self._keys.of_run(name, "hot")))
        hot = self.hot(run, seen.one(0))
        rows = self._rows(run, name, hot, seen.revision)
        for row in rows[: max(len(rows) - keep, 0)]:
            if row.present:
                gone = msgspec.structs.replace(row, present=False, chunks=[])
                chunks = under(self._keys.of_run(name, "archive", digits(row.first), ""))
                hold.write([self._put_row(name, gone), delete(chunks)])

    def _put_row(self, name: bytes, row: Row) -> Op:
        key = self._keys.of_run(name, "segments", digits(row.first))
        return put(key, self._keys.wrap(key, msgspec.msgpack.encode(row)))

    def _chunk_key(self, name: bytes, segment: int, n: int) -> bytes:
        return self._keys.of_run(name, "archive", digits(segment), digits(n))
