"""What is left of a damaged journal, row by row and file by file.

Works on a flattened copy: the database with its log played into it, also behind the damage, since later versions of a
page are usually whole. Entries are read from its pages without SQLite (see ``leaves``). Nothing of all that is believed
except rows and records whose seal fits. The original is only read.

To a store an entry is bytes, so what names the run of a row whose run's own row is damaged is given by the caller.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quoracy.core.errors import QuoracyError
from quoracy.ports import Letter, Saved
from quoracy.stores import segment
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.entries import NUMBER_BITS
from quoracy.stores.sqlite.faults import FAULTS
from quoracy.stores.sqlite.heads import Head
from quoracy.stores.sqlite.journal import SqliteJournal
from quoracy.stores.sqlite.leaves import leaf_rows
from quoracy.stores.sqlite.schema import JOURNAL
from quoracy.stores.sqlite.wal import read_log


class FoundSegment:
    """A segment's file and what is good in it."""

    def __init__(self, directory: Path, file: Path, run_of: Callable[[bytes], str | None]) -> None:
        content = file.read_bytes()
        self.name = str(file.relative_to(directory))
        self.size_bytes = len(content)
        scan = segment.scan(content)
        self.intact = scan.damage is None and scan.sealed and bool(scan.records)
        records = scan.records if self.intact else segment.salvage(content)
        self.payloads = {record.n: record.payload for record in records}
        self.run = scan.run or next((name for name in map(run_of, self.payloads.values()) if name), "")

    @property
    def first(self) -> int:
        return min(self.payloads)

    @property
    def last(self) -> int:
        return max(self.payloads)


class FoundRun:
    """One run, from ``began`` (before that, retention had deleted) to ``last``, the newest entry it is known to have
    had, good or not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = 1
        self.last = 0
        self.segments: list[FoundSegment] = []
        self.hot: dict[int, bytes] = {}
        """Good entries that are in the database."""


class Salvage:
    """Close it: it holds a copy of the database in the data directory."""

    def __init__(self, directory: Path, run_of: Callable[[bytes], str | None]) -> None:
        self._folder = TemporaryDirectory(prefix="salvage-", dir=directory)
        self._connection: sqlite3.Connection | None = None
        self._names: dict[int, str] = {}
        self.runs: dict[str, FoundRun] = {}
        self.unreadable: list[Path] = []
        """Segments of which nothing can be read."""
        try:
            image = _flatten(directory / JOURNAL.file_name, Path(self._folder.name) / JOURNAL.file_name)
            with suppress(*FAULTS):
                self._connection = sqlite3.connect(image.as_uri() + "?immutable=1", uri=True)
                self._connection.text_factory = bytes
            self._find_heads()
            self._find_entries(image.read_bytes(), run_of)
            self._find_segments(directory, run_of)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._folder.cleanup()

    def entry(self, run: str, n: int) -> bytes | None:
        """The entry if its bytes are those that were appended."""
        found = self.runs[run]
        archived = next((each for each in found.segments if n in each.payloads), None)
        return archived.payloads[n] if archived else found.hot.get(n)

    def snapshot(self, run: str) -> Saved | None:
        with suppress(QuoracyError, *FAULTS), closing(SqliteJournal(self._folder.name, read_only=True)) as journal:
            return journal.load_snapshot(run)
        return None

    def letters(self) -> Iterator[tuple[str, Letter]]:
        for row in self._rows("SELECT run, sender, seq, payload, seal FROM letters"):
            match row:
                case bytes(run), bytes(sender), int(seq), bytes(payload), bytes(sealed):
                    if sealed == seal(b"letter", run, sender, seq, payload):
                        yield run.decode(), Letter(sender.decode(), seq, payload)

    def discarded(self) -> Iterator[tuple[str, str, int]]:
        for row in self._rows("SELECT run, sender, upto, seal FROM discarded"):
            match row:
                case bytes(run), bytes(sender), int(upto), bytes(sealed):
                    if sealed == seal(b"discarded", run, sender, upto):
                        yield run.decode(), sender.decode(), upto

    def _rows(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """As many rows as can be read."""
        if self._connection is not None:
            with suppress(*FAULTS):
                yield from self._connection.execute(statement, values)

    def _find_heads(self) -> None:
        for row in self._rows("SELECT id, name, last, hot, saved, seal FROM runs"):
            match row:
                case int(known), bytes(name), int(last), int(hot), int(saved), bytes(sealed):
                    head = Head(known, name, last, hot, saved)
                    if sealed == head.seal():
                        self._names[known] = head.run
                        found = self.runs.setdefault(head.run, FoundRun(head.run))
                        found.last = max(found.last, last)
                        found.began = max(found.began, *(gone + 1 for gone in self._gone(known, head.run)), 1)

    def _find_entries(self, image: bytes, run_of: Callable[[bytes], str | None]) -> None:
        for place, columns in leaf_rows(image):
            known, n = place >> NUMBER_BITS, place & (1 << NUMBER_BITS) - 1
            match columns:
                case [None, bytes(sealed), bytes(payload)]:
                    name = self._names.get(known) or run_of(payload)
                    if name and sealed == seal(b"entry", name.encode(), n, payload):
                        found = self.runs.setdefault(name, FoundRun(name))
                        found.hot[n] = payload
                        found.last = max(found.last, n)

    def _gone(self, known: int, name: str) -> Iterator[int]:
        """The last entries of segments that retention has deleted."""
        columns = "SELECT name, first, last, size_bytes, present, seal FROM segments WHERE run = ?"
        for *fields, sealed in self._rows(columns, known):
            readable = all(isinstance(field, int | bytes) for field in fields)
            if readable and sealed == seal(b"segment", name.encode(), *fields) and not fields[4]:
                yield fields[2]

    def _find_segments(self, directory: Path, run_of: Callable[[bytes], str | None]) -> None:
        for file in sorted((directory / "segments").rglob("*.qseg")):
            archived = FoundSegment(directory, file, run_of)
            if archived.run and archived.payloads:
                found = self.runs.setdefault(archived.run, FoundRun(archived.run))
                found.segments.append(archived)
                found.last = max(found.last, archived.last)
            else:
                self.unreadable.append(file)


def _flatten(database: Path, image: Path) -> Path:
    """A copy of the database with its log played into it. No connection to the database may be open in this process:
    closing the file here would drop its locks."""
    if database.exists():
        shutil.copyfile(database, image)
    else:
        image.touch()
    log = read_log(database)
    with image.open("r+b") as file:
        for number, page in (log.salvaged() if log else {}).items():
            if number * len(page) <= image.stat().st_size + len(log.content if log else b""):  # else it is damaged
                file.seek((number - 1) * len(page))
                file.write(page)
        file.flush()
        os.fsync(file.fileno())
    return image.absolute()
