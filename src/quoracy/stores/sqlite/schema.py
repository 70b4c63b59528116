"""What is in the files, how a file comes into being, and which files are refused.

``journal.db`` holds everything that must survive. ``pulse.db`` holds beats, which need not: it is a file of its own so
that writing without fsync cannot weaken what the journal promises.

Every row carries a seal (see ``stores.seal``) over all its columns. SQLite checks its own structure only in part, so
each table must also notice a row that has *vanished*: ``store`` counts the runs, a run counts its entries (``last``,
``hot``) and names its snapshot (``saved``), segments and entries leave no gap, a snapshot lists its pages. A letter
that vanishes is posted again by its sender.

Names are BLOBs: then nothing depends on the text encoding that the file's header claims.

The ``place`` of an entry is its run and its number in one integer (see ``entries``). With an integer for a key, SQLite
keeps rows in leaf pages only: less is written per append, and damage to an inner page hides rows but destroys none.
"""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from quoracy.core.errors import ConfigError, JournalCorrupt, JournalNewer
from quoracy.folders import make_directory, sync_directory
from quoracy.stores.durable import TEMPORARY, Lock
from quoracy.stores.seal import seal

PAGE_BYTES = 4096


class FileKind(NamedTuple):
    file_name: str
    application_id: int
    version: int
    tables: str
    synchronous: str

    def table_names(self) -> set[str]:
        return set(re.findall(r"CREATE TABLE (\w+)", self.tables))


JOURNAL = FileKind(
    file_name="journal.db",
    application_id=int.from_bytes(b"QrJl"),
    version=1,
    synchronous="FULL",
    tables="""
        CREATE TABLE store (
            id INTEGER PRIMARY KEY, runs INTEGER NOT NULL, seal BLOB NOT NULL);
        CREATE TABLE runs (
            id INTEGER PRIMARY KEY, name BLOB NOT NULL, last INTEGER NOT NULL, hot INTEGER NOT NULL,
            saved INTEGER NOT NULL, seal BLOB NOT NULL);
        CREATE TABLE entries (
            place INTEGER PRIMARY KEY, seal BLOB NOT NULL, payload BLOB NOT NULL);
        CREATE TABLE segments (
            run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, name BLOB NOT NULL,
            size_bytes INTEGER NOT NULL, present INTEGER NOT NULL, seal BLOB NOT NULL,
            PRIMARY KEY (run, first)) WITHOUT ROWID;
        CREATE TABLE snapshots (
            run INTEGER PRIMARY KEY, n INTEGER NOT NULL, root BLOB NOT NULL, digests BLOB NOT NULL,
            seal BLOB NOT NULL);
        CREATE TABLE pages (
            run INTEGER NOT NULL, digest BLOB NOT NULL, seal BLOB NOT NULL, page BLOB NOT NULL,
            PRIMARY KEY (run, digest)) WITHOUT ROWID;
        CREATE TABLE letters (
            run BLOB NOT NULL, sender BLOB NOT NULL, seq INTEGER NOT NULL, seal BLOB NOT NULL, payload BLOB NOT NULL,
            PRIMARY KEY (run, sender, seq)) WITHOUT ROWID;
        CREATE TABLE discarded (
            run BLOB NOT NULL, sender BLOB NOT NULL, upto INTEGER NOT NULL, seal BLOB NOT NULL,
            PRIMARY KEY (run, sender)) WITHOUT ROWID;
        """,
)

PULSE = FileKind(
    file_name="pulse.db",
    application_id=int.from_bytes(b"QrPs"),
    version=1,
    synchronous="OFF",
    tables="""
        CREATE TABLE beats (
            run BLOB NOT NULL, beater BLOB NOT NULL, seq INTEGER NOT NULL, note BLOB NOT NULL, seal BLOB NOT NULL,
            PRIMARY KEY (run, beater)) WITHOUT ROWID;
        CREATE TABLE tallies (
            run BLOB NOT NULL, place BLOB NOT NULL, turn INTEGER NOT NULL, count INTEGER NOT NULL,
            PRIMARY KEY (run, place)) WITHOUT ROWID;
        """,
)


def connect(path: Path, kind: FileKind, *, timeout_s: float, mode: str = "rw") -> sqlite3.Connection:
    """A connection that never checkpoints by itself, never creates the file, and is guarded by its owner's lock.

    ``text_factory`` is bytes because a damaged column may pretend to be text, which need not be UTF-8.
    """
    connection = sqlite3.connect(
        f"file://{quote(str(path.absolute()))}?mode={mode}",
        timeout_s,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    try:
        connection.text_factory = bytes
        connection.execute(f"PRAGMA synchronous={kind.synchronous}")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute(f"PRAGMA journal_size_limit={64 * 1024 * 1024}")
        connection.execute("PRAGMA secure_delete=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def create(directory: Path, kind: FileKind, timeout_s: float) -> None:
    """Make the file if it is not there: whole or not at all, also when two processes start at once."""
    path = directory / kind.file_name
    if path.exists():
        return
    make_directory(directory)
    with Lock(directory / "maintenance.lock").hold(timeout_s):
        if path.exists():
            return
        _refuse_remains(path)
        temporary = path.with_name(path.name + TEMPORARY)
        for left in directory.glob(temporary.name + "*"):
            left.unlink()
        _fill(temporary, kind)
        temporary.replace(path)
        sync_directory(directory)


def _fill(path: Path, kind: FileKind) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN")
        for statement in kind.tables.split(";"):
            connection.execute(statement)
        if kind is JOURNAL:
            connection.execute("INSERT INTO store VALUES (1, 0, ?)", (seal(b"store", 0),))
        connection.execute(f"PRAGMA application_id={kind.application_id}")
        connection.execute(f"PRAGMA user_version={kind.version}")
        connection.execute("COMMIT")
    finally:
        connection.close()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_remains(path: Path) -> None:
    """A fresh file beside an old write-ahead log would be filled from that log, which is worse than no file."""
    log = path.with_name(path.name + "-wal")
    segments = path.parent / "segments"
    beside = sorted(file.name for file in path.parent.glob(f"{path.name}.damaged-*"))
    if beside:
        raise JournalCorrupt("", 0, 0, f"the file is missing, but {beside[0]} is there: repair it", path.name)
    if log.exists() and log.stat().st_size:
        raise JournalCorrupt("", 0, 0, f"the file is missing, but its log {log.name} is there", path.name)
    if path.name == JOURNAL.file_name and segments.is_dir() and any(segments.rglob("*.qseg")):
        raise JournalCorrupt("", 0, 0, "the file is missing, but archived segments of it are there", path.name)


def refuse_foreign(connection: sqlite3.Connection, kind: FileKind, path: Path) -> None:
    """Raises unless the file is of this kind and of a version that is known here."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    names = {name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    expected = kind.table_names()
    if application_id != kind.application_id:
        if names >= expected:
            raise JournalCorrupt("", 0, 68, f"the application id is {application_id:#x}", path.name)
        raise ConfigError(
            "data directory", str(path.parent), f"its {path.name} belongs to another program: choose another"
        )
    if version > kind.version:
        raise JournalNewer(
            f"{path} has schema version {version}, this Quoracy reads up to {kind.version}: use a newer one"
        )
    if version != kind.version or not names >= expected:
        missing = ", ".join(sorted(expected - names)) or "none"
        raise JournalCorrupt("", 0, 60, f"schema version {version}, missing tables: {missing}", path.name)
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != b"wal":
        raise JournalCorrupt("", 0, 18, f"the file is in mode {mode.decode()}, not wal", path.name)
