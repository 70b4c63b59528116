"""Series in a file of their own, ``series.db``: history for people, which may be lost and must never be in the way.

What is written is first appended to ``fresh``, one row for each call, and moved into the buckets when enough has
gathered. A bucket of every tier of every series lies on another page of the file: touching them all every second would
write megabytes a second for a few kilobytes of numbers. Readers look into both, so nobody sees the difference.

Commits do not wait for the disk: after a crash of the machine the last seconds are gone, and nobody minds. Buckets
carry no seal: a wrong one is a wrong spot in a curve. A file that turns out to be damaged is moved aside and begun
afresh.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from threading import RLock
from typing import Any, Final

import msgspec

from quoracy.core.errors import JournalBroken, JournalCorrupt
from quoracy.ports.series import MAX_SERIES, MAX_SERIES_PER_RUN, TIERS, Bucket, Key, Point, Tier
from quoracy.stores.limits import run_name
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.database import BUSY_TIMEOUT_S, Database
from quoracy.stores.sqlite.schema import FileKind
from quoracy.stores.tiers import Sum, check_points, check_span, check_tiers, coarsen, key_of, pick, start_of, sum_of

SERIES = FileKind(
    file_name="series.db",
    application_id=int.from_bytes(b"QrSr"),
    version=1,
    synchronous="NORMAL",
    tables="""
        CREATE TABLE series (
            id INTEGER PRIMARY KEY AUTOINCREMENT, run BLOB NOT NULL, name BLOB NOT NULL, subject BLOB NOT NULL,
            newest REAL NOT NULL, UNIQUE (run, name, subject));
        CREATE TABLE fresh (
            id INTEGER PRIMARY KEY, points INTEGER NOT NULL, packed BLOB NOT NULL, seal BLOB NOT NULL);
        CREATE TABLE buckets (
            series INTEGER NOT NULL, width INTEGER NOT NULL, start INTEGER NOT NULL, count INTEGER NOT NULL,
            low REAL NOT NULL, high REAL NOT NULL, total REAL NOT NULL, last REAL NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (series, width, start)) WITHOUT ROWID;
        """,
)
FOLD_POINTS: Final = 10_000
"""So many points gather before they are moved into the buckets: two minutes of a fleet, unpacked in a few ms."""
TOGETHER: Final = 500
"""Buckets in one statement. Whoever executes a statement gives the interpreter's lock away and waits for it again."""

_MERGE: Final = (
    " ON CONFLICT DO UPDATE SET count = count + excluded.count, low = min(low, excluded.low),"
    " high = max(high, excluded.high), total = total + excluded.total,"
    " last = CASE WHEN excluded.at >= at THEN excluded.last ELSE last END, at = max(at, excluded.at)"
)
_COLUMNS: Final = 9
_pack = msgspec.msgpack.Encoder()
_unpack = msgspec.msgpack.Decoder(list[tuple[int, int, float, float, float, float, float]])


class SqliteSeries:
    def __init__(
        self,
        directory: str | Path,
        *,
        tiers: Sequence[Tier] = TIERS,
        max_series_per_run: int = MAX_SERIES_PER_RUN,
        max_series: int = MAX_SERIES,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """``say`` is told if a damaged file was moved aside. Raises JournalNewer for one of a newer Quoracy: it is not
        damaged, and not ours to judge."""
        self._directory = Path(directory)
        self._tiers = check_tiers(tiers)
        self._max_per_run = max_series_per_run
        self._max = max_series
        self._busy_timeout_s = busy_timeout_s
        self._say = say or _silent
        self._lock = RLock()
        self._ids: dict[Key, int] = {}
        self._seen = -1
        """The version of the file that ``_ids`` is of; another process may have changed it."""
        self._swept = False
        """Whether the buckets of other settings than ours are gone: a look at every row, so once is enough."""
        self._closed = False
        self._database = self._open()

    # -- the file ---------------------------------------------------------------------------------------------------

    def _open(self) -> Database:
        try:
            return self._connect()
        except (JournalCorrupt, JournalBroken) as error:
            if not self._put_aside(str(error)):
                raise
            return self._connect()

    def _connect(self) -> Database:
        """A file whose head says that nobody may write it can be opened; so that is tried at once."""
        database = Database(self._directory, SERIES, busy_timeout_s=self._busy_timeout_s)
        try:
            with database.write() as connection:
                connection.execute(f"PRAGMA user_version={SERIES.version}")
        except BaseException:
            database.close()
            raise
        return database

    def _put_aside(self, why: str) -> bool:
        """False if there is nothing: then it is not the file that is wrong."""
        path = self._directory / SERIES.file_name
        number = 1
        while (aside := path.with_name(f"{path.name}.aside-{number}")).exists():
            number += 1
        parts = [ending for ending in ("-wal", "-shm", "") if path.with_name(path.name + ending).exists()]
        if not parts:
            return False
        for ending in parts:
            path.with_name(path.name + ending).replace(aside.with_name(aside.name + ending))
        self._say(f"{why}; the history was moved to {aside.name} and begins afresh")
        return True

    @contextmanager
    def _mending(self) -> Iterator[Database]:
        """A file that turns out to be damaged is put aside; what was being done to it is not done."""
        with self._lock:
            if self._closed:
                raise ValueError("this store is closed")
            database = self._database
        try:
            yield database
        except JournalCorrupt as error:
            with self._lock:
                if self._database is database and not self._closed:
                    database.close()
                    self._put_aside(str(error))
                    self._ids, self._seen = {}, -1
                    self._database = self._connect()

    @contextmanager
    def _writing(self, size_bytes: int = 0) -> Iterator[sqlite3.Connection]:
        with self._mending() as database, database.write(size_bytes) as connection:
            try:
                yield connection
            except BaseException:
                self._ids, self._seen = {}, -1
                raise

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._database.close()

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, points: Sequence[Point]) -> list[Key]:
        check_points(points)
        refused: dict[Key, None] = {}
        if not points:
            return []
        with self._writing(40 * len(points)) as connection:
            self._look(connection)
            rows: list[tuple[int, int, float, float, float, float, float]] = []
            for point in points:
                key = key_of(point)
                series = self._ids.get(key) or self._begin(connection, key, point.at_s)
                if series is None:
                    refused[key] = None
                else:
                    held = sum_of(point)
                    rows.append((series, held.count, held.low, held.high, held.total, held.last, held.at_s))
            if rows:
                packed = _pack.encode(rows)
                insert = "INSERT INTO fresh (points, packed, seal) VALUES (?, ?, ?)"
                connection.execute(insert, (len(rows), packed, seal(b"fresh", packed)))
            (gathered,) = connection.execute("SELECT total(points) FROM fresh").fetchone()
            if gathered >= FOLD_POINTS:
                self._fold(connection)
        return list(refused)

    def _look(self, connection: sqlite3.Connection) -> None:
        """Learn the names again if another process has changed something. Inside a transaction nobody can."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._seen:
            self._ids = {
                _key(run, name, subject): series
                for series, run, name, subject in connection.execute("SELECT id, run, name, subject FROM series")
            }
            self._seen = version

    def _begin(self, connection: sqlite3.Connection, key: Key, at_s: float) -> int | None:
        own = sum(1 for other in self._ids if other.run == key.run)
        if own >= self._max_per_run or len(self._ids) >= self._max:
            self._fold(connection)
            stalest = connection.execute(
                "SELECT id, newest, run, name, subject FROM series WHERE (? OR run = ?) ORDER BY newest, id LIMIT 1",
                (own < self._max_per_run, key.run.encode()),
            ).fetchone()
            if stalest is None or stalest[1] >= at_s - self._tiers[0].keep_s:
                return None
            self._forget(connection, [stalest[0]])
            del self._ids[_key(*stalest[2:])]
        names = tuple(part.encode() for part in key)
        cursor = connection.execute(
            "INSERT INTO series (run, name, subject, newest) VALUES (?, ?, ?, ?)", (*names, at_s)
        )
        series = int(cursor.lastrowid or 0)
        self._ids[key] = series
        return series

    def _forget(self, connection: sqlite3.Connection, ids: Sequence[int]) -> None:
        connection.executemany("DELETE FROM buckets WHERE series = ?", [(series,) for series in ids])
        connection.executemany("DELETE FROM series WHERE id = ?", [(series,) for series in ids])

    def _fold(self, connection: sqlite3.Connection) -> None:
        """What has gathered goes into the buckets of its series. What is of no series any more goes nowhere."""
        known = {series for (series,) in connection.execute("SELECT id FROM series")}
        points = [(series, held) for series, held in _fresh(connection) if series in known]
        newest: dict[int, float] = {}
        for series, held in points:
            newest[series] = max(held.at_s, newest.get(series, 0.0))
        sums: dict[tuple[int, int, int], Sum] = {}
        for tier in self._tiers:  # each from the one before: there is less of it
            wider: dict[tuple[int, int, int], Sum] = {}
            for series, held in points:
                place = (series, tier.width_s, start_of(held.at_s, tier.width_s))
                before = wider.get(place)
                wider[place] = held if before is None else before.plus(held)
            points = [(place[0], held) for place, held in wider.items()]
            sums |= wider
        places = sorted(sums)
        for first in range(0, len(places), TOGETHER):
            some = places[first : first + TOGETHER]
            values = ", ".join([f"({', '.join('?' * _COLUMNS)})"] * len(some))
            row = [value for place in some for value in (*place, *msgspec.structs.astuple(sums[place]))]
            connection.execute(f"INSERT INTO buckets VALUES {values}{_MERGE}", row)  # noqa: S608
        connection.executemany(
            "UPDATE series SET newest = max(newest, ?) WHERE id = ?",
            [(at_s, series) for series, at_s in newest.items()],
        )
        connection.execute("DELETE FROM fresh")

    def drop(self, run: str) -> None:
        name = run_name(run)
        with self._writing() as connection:
            ids = [series for (series,) in connection.execute("SELECT id FROM series WHERE run = ?", (name,))]
            self._forget(connection, ids)
            self._ids, self._seen = {}, -1

    def tidy(self, now_s: float) -> None:
        with self._writing() as connection:
            self._fold(connection)
            for width_s, keep_s in self._tiers:
                connection.execute(
                    "DELETE FROM buckets WHERE series IN (SELECT id FROM series) AND width = ? AND start <= ?",
                    (width_s, now_s - keep_s - width_s),
                )
            if not self._swept:
                widths = [tier.width_s for tier in self._tiers]
                others = f"DELETE FROM buckets WHERE width NOT IN ({', '.join('?' * len(widths))})"  # noqa: S608
                connection.execute(others, widths)
                self._swept = True
            connection.execute(
                "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM buckets WHERE buckets.series = series.id)"
            )
            self._ids, self._seen = {}, -1

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(
        self, run: str, name: str, subject: str, since_s: float, until_s: float, max_points: int = 500
    ) -> list[Bucket]:
        check_span(since_s, until_s, max_points)
        answer: list[Bucket] = []
        with self._mending() as database, database.read(run) as connection:
            found = connection.execute(
                "SELECT id FROM series WHERE run = ? AND name = ? AND subject = ?",
                (run.encode(), name.encode(), subject.encode()),
            ).fetchone()
            if found is not None and until_s >= since_s:
                fresh = [held for series, held in _fresh(connection) if series == found[0]]
                answer = self._answer(connection, found[0], fresh, since_s, until_s, max_points)
        return answer

    def _answer(
        self, connection: sqlite3.Connection, series: int, fresh: list[Sum], since_s: float, until_s: float, most: int
    ) -> list[Bucket]:
        def oldest_of(index: int) -> int | None:
            width_s = self._tiers[index].width_s
            (stored,) = connection.execute(
                "SELECT min(start) FROM buckets WHERE series = ? AND width = ?", (series, width_s)
            ).fetchone()
            starts = [start_of(held.at_s, width_s) for held in fresh]
            return min(starts if stored is None else [stored, *starts], default=None)

        width_s = self._tiers[pick(self._tiers, since_s, until_s, most, oldest_of)].width_s
        first, last = start_of(since_s, width_s), start_of(until_s, width_s)
        sums: dict[int, Sum] = {}
        for start_s, *columns in connection.execute(
            "SELECT start, count, low, high, total, last, at FROM buckets"
            " WHERE series = ? AND width = ? AND start BETWEEN ? AND ?",
            (series, width_s, first, last),
        ):
            sums[start_s] = _sum(columns)
        for held in fresh:
            start_s = start_of(held.at_s, width_s)
            if first <= start_s <= last:
                sums[start_s] = sums[start_s].plus(held) if start_s in sums else held
        return coarsen(sorted(sums.items()), width_s, since_s, until_s, most)

    def names(self, run: str) -> list[tuple[str, str]]:
        wanted = run_name(run)
        names: list[tuple[str, str]] = []
        with self._mending() as database, database.read(run) as connection:
            rows = connection.execute("SELECT run, name, subject FROM series WHERE run = ?", (wanted,)).fetchall()
            names += sorted(_key(*row)[1:] for row in rows)
        return names


def _fresh(connection: sqlite3.Connection) -> Iterator[tuple[int, Sum]]:
    for packed, sealed in connection.execute("SELECT packed, seal FROM fresh ORDER BY id"):
        if not isinstance(packed, bytes) or sealed != seal(b"fresh", packed):
            raise JournalCorrupt("", 0, 0, "points that were gathered are damaged", SERIES.file_name)
        for series, count, low, high, total, last, at_s in _unpack.decode(packed):
            yield series, Sum(count, low, high, total, last, at_s)


def _sum(columns: list[Any]) -> Sum:
    count, *numbers = columns
    whole = isinstance(count, int) and count >= 1
    if not whole or not all(isinstance(number, float) and isfinite(number) for number in numbers):
        raise JournalCorrupt("", 0, 0, f"a bucket holds {columns}", SERIES.file_name)
    return Sum(count, *numbers)


def _key(*columns: Any) -> Key:
    if not all(isinstance(column, bytes) for column in columns):
        raise JournalCorrupt("", 0, 0, f"a series is called {columns}", SERIES.file_name)
    run, name, subject = columns
    return Key(run.decode(), name.decode(), subject.decode())


def _silent(_what: str) -> None:
    pass
