"""Where each run stands: one sealed row per run.

Runs are never deleted and their ids grow by one, so an id that was seen once is known for good, and ``store`` only has
to be asked how many there are. A run is looked up before anything is written in the same transaction (``find``, then
``add`` or ``put``); so no id is remembered that a rollback takes back.
"""

from __future__ import annotations

import sqlite3

import msgspec

from quoracy.core.errors import JournalCorrupt, JournalFull
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.database import Database

MAX_RUNS = (1 << 22) - 1
_COLUMNS = "SELECT id, name, last, hot, saved, seal FROM runs"


class Head(msgspec.Struct):
    id: int
    name: bytes
    last: int
    """The newest entry."""
    hot: int
    """The first entry that is not in a segment; ``last`` + 1 if all are."""
    saved: int
    """The entry the snapshot stands for; 0 if there is none."""

    def seal(self) -> bytes:
        return seal(b"run", self.id, self.name, self.last, self.hot, self.saved)

    @property
    def run(self) -> str:
        return self.name.decode()


class Heads:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: dict[bytes, int] = {}
        self._learnt = 0
        """Every run up to this id is in ``_ids``."""

    def find(self, connection: sqlite3.Connection, name: bytes) -> Head | None:
        known = self._ids.get(name)
        if known is None:
            damage = self._learn(connection)
            known = self._ids.get(name)
            if known is None and damage is not None:
                raise damage  # who knows whether that is the run which is asked for
        if known is None:
            return None
        row = connection.execute(f"{_COLUMNS} WHERE id = ?", (known,)).fetchone()
        if row is None and known > self._count(connection):
            return None  # another thread has seen it by now, but this transaction shows an earlier moment
        return self._check(row, known, name)

    def all(self, connection: sqlite3.Connection) -> list[Head]:
        count = self._count(connection)
        rows = connection.execute(f"{_COLUMNS} ORDER BY id").fetchall()
        if len(rows) != count:
            raise self._damaged(f"{len(rows)} runs where {count} belong")
        return [self._check(row, wanted) for wanted, row in enumerate(rows, 1)]

    def add(self, connection: sqlite3.Connection, name: bytes) -> Head:
        count = self._count(connection) + 1
        if count > MAX_RUNS:
            raise JournalFull(f"{self._database.path} holds {MAX_RUNS} runs, which is all it can")
        connection.execute("UPDATE store SET runs = ?, seal = ? WHERE id = 1", (count, seal(b"store", count)))
        head = Head(count, name, 0, 1, 0)
        values = (head.id, head.name, head.last, head.hot, head.saved, head.seal())
        connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", values)
        return head

    def put(self, connection: sqlite3.Connection, head: Head) -> None:
        connection.execute(
            "UPDATE runs SET last = ?, hot = ?, saved = ?, seal = ? WHERE id = ?",
            (head.last, head.hot, head.saved, head.seal(), head.id),
        )

    def _count(self, connection: sqlite3.Connection) -> int:
        row = connection.execute("SELECT runs, seal FROM store WHERE id = 1").fetchone()
        if row is None or not isinstance(row[0], int) or row[1] != seal(b"store", row[0]):
            raise self._damaged("the number of runs is damaged")
        return int(row[0])

    def _learn(self, connection: sqlite3.Connection) -> JournalCorrupt | None:
        """The runs that were added since the last look, by whatever process. One damaged row does not hide the others:
        it is returned."""
        learnt, count = self._learnt, self._count(connection)
        if count <= learnt:
            return None
        rows = connection.execute(f"{_COLUMNS} WHERE id > ? ORDER BY id", (learnt,)).fetchall()
        damage = (
            None if len(rows) >= count - learnt else self._damaged(f"{learnt + len(rows)} runs where {count} belong")
        )
        for wanted, row in enumerate(rows, learnt + 1):
            try:
                head = self._check(row, row[0] if damage else wanted)
            except JournalCorrupt as error:
                damage = damage or error
            else:
                self._ids.setdefault(head.name, head.id)
        if damage is None:
            self._learnt = max(self._learnt, learnt + len(rows))
        return damage

    def _check(self, row: tuple[object, ...] | None, wanted: int, name: bytes | None = None) -> Head:
        match row:
            case int(known), bytes(called), int(last), int(hot), int(saved), bytes(sealed):
                head = Head(known, called, last, hot, saved)
                if known == wanted and sealed == head.seal() and name in (None, called):
                    return head
        raise self._damaged(f"the row of run {wanted} is missing or damaged", name)

    def _damaged(self, what: str, name: bytes | None = None) -> JournalCorrupt:
        return JournalCorrupt((name or b"").decode(), 0, 0, what, self._database.path.name)
