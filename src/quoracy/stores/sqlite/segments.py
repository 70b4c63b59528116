"""The rows that say which segments a run has, and how entries move from the hot table into one.

First the file, durable, then one transaction that adds its row, deletes the entries and moves the line between hot and
archived. A crash in between leaves a file that nobody names; the next compaction replaces or sweeps it. Deleting goes
the other way round: first the row says *gone*, then the file goes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from quoracy.core.errors import EntriesGone, JournalBroken, JournalCorrupt
from quoracy.ports import Segment
from quoracy.stores.durable import Lock
from quoracy.stores.limits import run_name
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.archive import Archive
from quoracy.stores.sqlite.database import Database
from quoracy.stores.sqlite.entries import delete_entries, read_entries
from quoracy.stores.sqlite.heads import Head, Heads

BATCH_ENTRIES = 256


class Segments:
    def __init__(self, database: Database, heads: Heads) -> None:
        self._database = database
        self._heads = heads
        self._archive = Archive(database.directory)

    def all(self, run: str) -> list[Segment]:
        name = run_name(run)
        with self._database.read(run) as connection:
            head = self._heads.find(connection, name)
            return self.rows(connection, head) if head else []

    def rows(self, connection: sqlite3.Connection, head: Head) -> list[Segment]:
        """All of them, which must cover everything below ``head.hot`` without a gap."""
        rows = connection.execute(
            "SELECT first, last, name, size_bytes, present, seal FROM segments WHERE run = ? ORDER BY first", (head.id,)
        )
        found: list[Segment] = []
        expected = 1
        for first, last, name, size_bytes, present, sealed in rows:
            fields = (first, last, size_bytes, present)
            good = isinstance(name, bytes) and all(isinstance(field, int) for field in fields)
            if not good or sealed != seal(b"segment", head.name, name, *fields) or first != expected:
                raise self._damaged(head, expected, "the row of a segment is missing or damaged")
            found.append(Segment(first, last, name.decode(), size_bytes, bool(present)))
            expected = last + 1
        if expected != head.hot:
            raise self._damaged(head, expected, "the row of a segment is missing")
        return found

    def read(self, run: str, rows: list[Segment], first: int, last: int) -> list[bytes]:
        """Archived entries. Raises EntriesGone, JournalCorrupt, or FileNotFoundError if a file was just deleted."""
        payloads: list[bytes] = []
        for row in rows:
            if row.last < first or row.first > last:
                continue
            if not row.present:
                available = next((later.first for later in rows if later.present), rows[-1].last + 1)
                raise EntriesGone(run, first, available)
            payloads += self._archive.read(run, row, max(first, row.first), min(last, row.last))
        return payloads

    def compact(self, run: str, upto: int, keep: int | None) -> Segment | None:
        name = run_name(run)
        with Lock(self._database.directory / "maintenance.lock").hold(self._database.busy_timeout_s):
            self._database.refuse_unusable()
            with self._database.read(run) as connection:
                head = self._heads.find(connection, name)
                rows = self.rows(connection, head) if head else []
            if head is None:
                return None
            self._archive.sweep(run, rows)
            upto = min(upto, head.saved)
            sealed = self._seal(head, upto) if upto >= head.hot else None
            if keep is not None:
                self._retain(name, keep)
        return sealed

    def _seal(self, head: Head, upto: int) -> Segment:
        try:
            sealed = self._archive.write(head.run, head.hot, upto, self._hot(head, upto))
        except JournalBroken as error:
            self._database.mark_broken(str(error))
            raise
        with self._database.write() as connection:
            found = self._heads.find(connection, head.name)
            if found is None or found.hot != head.hot:
                raise self._damaged(head, head.hot, "somebody compacted without the maintenance lock")
            put_segment(connection, head, sealed)
            delete_entries(connection, head, upto)
            found.hot = upto + 1
            self._heads.put(connection, found)
        return sealed

    def _hot(self, head: Head, upto: int) -> Iterator[bytes]:
        for first in range(head.hot, upto + 1, BATCH_ENTRIES):
            last = min(first + BATCH_ENTRIES - 1, upto)
            with self._database.read(head.run, first) as connection:
                payloads = read_entries(self._database, connection, head, first, last)
            yield from payloads

    def _retain(self, name: bytes, keep: int) -> None:
        with self._database.write() as connection:
            head = self._heads.find(connection, name)
            if head is None:
                return
            rows = self.rows(connection, head)
            going = [row for row in rows[: max(len(rows) - keep, 0)] if row.present]
            for row in going:
                put_segment(connection, head, Segment(row.first, row.last, row.name, row.size_bytes, present=False))
        for row in going:
            self._archive.remove(row)

    def _damaged(self, head: Head, entry: int, what: str) -> JournalCorrupt:
        return JournalCorrupt(head.run, entry, 0, what, self._database.path.name)

    def check_files(self, run: str) -> None:
        """Read every file that should be there to its end. Raises JournalCorrupt."""
        for row in self.all(run):
            if row.present:
                self._archive.check(run, row)


def put_segment(connection: sqlite3.Connection, head: Head, row: Segment) -> None:
    name, present = row.name.encode(), int(row.present)
    sealed = seal(b"segment", head.name, name, row.first, row.last, row.size_bytes, present)
    values = (head.id, row.first, row.last, name, row.size_bytes, present, sealed)
    connection.execute("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)", values)
