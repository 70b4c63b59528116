"""The journal in one SQLite file: the default store of a server on one machine.

``append`` is one transaction for all wishes, with one fsync. Several processes may append to the same file; exactly one
of them gets entry n. ``try_lock`` is for hosts that want to be alone: the lock goes with the process that held it, so
the next one can take over at once.

Do not carry an open journal over a fork: open it in the child.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from quoracy.core.errors import Bug, JournalCorrupt
from quoracy.ports import Append, Appended, Conflict, Outcome, Saved, Segment
from quoracy.stores.durable import Lock
from quoracy.stores.limits import decide, numbered, run_name
from quoracy.stores.sqlite.database import BUSY_TIMEOUT_S, CHECKPOINT_BYTES, Database
from quoracy.stores.sqlite.entries import insert_entry, is_beyond, read_entries
from quoracy.stores.sqlite.faults import FAULTS, examine
from quoracy.stores.sqlite.heads import Head, Heads
from quoracy.stores.sqlite.schema import JOURNAL
from quoracy.stores.sqlite.segments import Segments
from quoracy.stores.sqlite.snapshots import Snapshots
from quoracy.stores.sqlite.wal import log_of


class SqliteJournal:
    def __init__(
        self,
        directory: str | Path,
        *,
        create: bool = True,
        read_only: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
    ) -> None:
        """``read_only`` changes no file and also opens a journal whose log is damaged: what is readable can be read,
        and reading on from there raises JournalCorrupt."""
        self.directory = Path(directory)
        self._database = Database(
            self.directory,
            JOURNAL,
            create_missing=create,
            read_only=read_only,
            busy_timeout_s=busy_timeout_s,
            checkpoint_bytes=checkpoint_bytes,
        )
        self._heads = Heads(self._database)
        self._snapshots = Snapshots(self._database, self._heads)
        self._segments = Segments(self._database, self._heads)
        self._lock = Lock(self.directory / "serving.lock")

    def runs(self) -> list[str]:
        with self._database.read() as connection:
            return sorted(head.run for head in self._heads.all(connection))

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        if not wishes:
            return []
        with self._database.write(sum(len(wish.payload) for wish in wishes)) as connection:
            heads = {wish.run: self._heads.find(connection, run_name(wish.run)) for wish in wishes}
            verdicts = decide(wishes, lambda run: head.last if (head := heads[run]) else 0)
            grown: dict[str, Head] = {}
            for wish, lost_to in zip(wishes, verdicts, strict=True):
                if not lost_to:
                    head = heads[wish.run] or self._heads.add(connection, run_name(wish.run))
                    insert_entry(connection, head, wish.n, wish.payload)
                    head.last = wish.n
                    heads[wish.run] = grown[wish.run] = head
            for head in grown.values():
                self._heads.put(connection, head)
            return [
                self._lost(connection, heads[wish.run], lost_to) if lost_to else Appended(wish.n)
                for wish, lost_to in zip(wishes, verdicts, strict=True)
            ]

    def _lost(self, connection: sqlite3.Connection, head: Head | None, n: int) -> Conflict:
        if head is None:
            raise Bug(f"entry {n} was there, in a run that is not")
        if n >= head.hot:
            return Conflict(n, read_entries(self._database, connection, head, n, n)[0])
        return Conflict(n, self._segments.read(head.run, self._segments.rows(connection, head), n, n)[0])

    def last(self, run: str) -> int:
        name = run_name(run)
        with self._database.read(run) as connection:
            head = self._heads.find(connection, name)
            return head.last if head else 0

    def read(self, run: str, first: int, limit: int = 1000) -> list[bytes]:
        name = run_name(run)
        numbered(first, 1, "an entry's number")
        numbered(limit, 0, "a limit")
        missing = ""
        for _ in range(3):
            try:
                return self._read(run, name, first, limit) if limit else []
            except FileNotFoundError as error:
                missing = Path(error.filename).name  # has retention just deleted it? Then the rows say so now
        raise JournalCorrupt(run, first, 0, "the file of the segment is missing", missing)

    def _read(self, run: str, name: bytes, first: int, limit: int) -> list[bytes]:
        with self._database.read(run, first) as connection:
            head = self._heads.find(connection, name)
            last = min(head.last, first + limit - 1) if head else 0
            if head is None or first > last:
                self._check_end(connection, run, head)
                return []
            payloads: list[bytes] = []
            if first < head.hot:
                rows = self._segments.rows(connection, head)
                payloads = self._segments.read(run, rows, first, min(last, head.hot - 1))
            if last >= head.hot:
                payloads += read_entries(self._database, connection, head, max(first, head.hot), last)
            return payloads

    def _check_end(self, connection: sqlite3.Connection, run: str, head: Head | None) -> None:
        """Where a run seems to end it must really end: no commits lost from the log, no entries beyond the head."""
        beyond = head.last + 1 if head else 1
        if (lost := self._database.lost) is not None:
            raise JournalCorrupt(run, beyond, lost.offset, lost.what, log_of(self._database.path).name)
        if head and is_beyond(connection, head):
            what = f"the run is said to end at {head.last}, but there is more"
            raise JournalCorrupt(run, beyond, 0, what, self._database.path.name)

    def watch(self, run: str, after: int, timeout_s: float) -> int:
        deadline = monotonic() + timeout_s
        tide = self._database.tide
        try:
            while True:
                level = tide.level()
                last = self.last(run)
                left_s = deadline - monotonic()
                if last > after or left_s <= 0:
                    return last
                tide.wait(level, left_s)
        except FAULTS as error:
            raise self._database.fault(error, run, after + 1) from error

    def save_snapshot(self, run: str, snapshot: Saved) -> None:
        self._snapshots.save(run, snapshot)

    def load_snapshot(self, run: str) -> Saved | None:
        return self._snapshots.load(run)

    def compact(self, run: str, upto: int, keep_segments: int | None = None) -> Segment | None:
        numbered(upto, 0, "an entry's number")
        if keep_segments is not None:
            numbered(keep_segments, 0, "the number of segments to keep")
        return self._segments.compact(run, upto, keep_segments)

    def segments(self, run: str) -> list[Segment]:
        return self._segments.all(run)

    def verify(self, run: str | None = None) -> None:
        """What reading entries does not show: the files of all segments to their ends, and SQLite's own structure.
        Takes time in proportion to the size. Raises JournalCorrupt."""
        if (lost := self._database.lost) is not None:
            raise JournalCorrupt(run or "", 0, lost.offset, lost.what, log_of(self._database.path).name)
        for each in self.runs() if run is None else [run]:
            self._segments.check_files(each)
        offset, said = examine(self._database.path)
        if said != "ok":
            raise JournalCorrupt(run or "", 0, offset, said or "the database cannot be read", self._database.path.name)

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the file now; happens by itself otherwise. True if all of it was moved."""
        return self._database.checkpoint()

    def try_lock(self) -> bool:
        """Become the only host that serves this directory; False if another one does. Appending does not need it: it
        is a promise among hosts, kept by the system for as long as this process lives or until ``close``."""
        self._database.refuse_unusable()
        return self._lock.try_acquire()

    def lock_holder(self) -> str:
        """The process id of whoever took the lock last."""
        return self._lock.holder()

    def close(self) -> None:
        self._database.close()
        self._lock.release()
