"""A new journal from what was saved of a damaged one, put in its place. The damaged files are kept beside it.

In this order, so that a crash leaves either the damaged journal or the new one, or none and a refusal to start with an
empty one (``schema.create`` looks for what lies beside): write the new database under another name, put the damaged
files aside, put the new one in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from quoracy.folders import sync_directory
from quoracy.ports import Letter, Saved, Segment
from quoracy.stores.limits import run_name
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.database import Database
from quoracy.stores.sqlite.entries import insert_entry
from quoracy.stores.sqlite.heads import Heads
from quoracy.stores.sqlite.schema import JOURNAL
from quoracy.stores.sqlite.segments import put_segment
from quoracy.stores.sqlite.snapshots import Snapshots

BATCH_ENTRIES = 200


class KeptRun(msgspec.Struct):
    """Entries ``first``..``last`` stay; those of the intact segments stay in their files, the others become hot."""

    run: str
    first: int
    last: int
    segments: list[Segment]
    entry: Callable[[int], bytes]
    snapshot: Saved | None


def rebuild(
    folder: Path, runs: list[KeptRun], letters: Iterable[tuple[str, Letter]], discarded: Iterable[tuple[str, str, int]]
) -> Path:
    """Write a whole new database into the empty folder."""
    database = Database(folder, JOURNAL)
    with closing(database):
        heads = Heads(database)
        snapshots = Snapshots(database, heads)
        for kept in runs:
            _write_run(database, heads, kept)
            if kept.snapshot is not None:
                snapshots.save(kept.run, kept.snapshot)
        with database.write() as connection:
            for run, letter in letters:
                name, sender = run.encode(), letter.sender.encode()
                sealed = seal(b"letter", name, sender, letter.seq, letter.payload)
                row = (name, sender, letter.seq, sealed, letter.payload)
                connection.execute("INSERT OR IGNORE INTO letters VALUES (?, ?, ?, ?, ?)", row)
            for run, by, upto in discarded:
                mark = (run.encode(), by.encode(), upto, seal(b"discarded", run.encode(), by.encode(), upto))
                connection.execute("INSERT OR REPLACE INTO discarded VALUES (?, ?, ?, ?)", mark)
    return folder / JOURNAL.file_name


def _write_run(database: Database, heads: Heads, kept: KeptRun) -> None:
    hot = kept.segments[-1].last + 1 if kept.segments else kept.first
    with database.write() as connection:
        head = heads.add(connection, run_name(kept.run))
        if kept.first > 1:
            put_segment(connection, head, Segment(1, kept.first - 1, "", 0, present=False))
        for archived in kept.segments:
            put_segment(connection, head, archived)
        head.hot, head.last = hot, hot - 1
        heads.put(connection, head)
    for first in range(hot, kept.last + 1, BATCH_ENTRIES):
        numbers = range(first, min(first + BATCH_ENTRIES, kept.last + 1))
        payloads = [kept.entry(n) for n in numbers]
        with database.write(sum(map(len, payloads))) as connection:
            head = heads.find(connection, head.name) or head
            for n, payload in zip(numbers, payloads, strict=True):
                insert_entry(connection, head, n, payload)
            head.last = numbers[-1]
            heads.put(connection, head)


def aside(path: Path) -> Path:
    """A name beside the file that is still free."""
    number = 1
    while (free := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return free


def put_in_place(directory: Path, new: Path, damaged: list[Path]) -> list[Path]:
    """The damaged files, and the database with its log, go aside; the new database takes its place."""
    database = directory / JOURNAL.file_name
    moved = []
    kept_as = aside(database)
    for suffix in ("", "-wal"):
        file = database.with_name(database.name + suffix)
        if file.exists() and file.stat().st_size:
            moved.append(file.rename(kept_as.with_name(kept_as.name + suffix)))
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    moved += [file.rename(aside(file)) for file in damaged]
    sync_directory(directory)
    new.replace(database)
    sync_directory(directory)
    return moved
