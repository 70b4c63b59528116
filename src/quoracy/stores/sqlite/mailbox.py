"""Letters in the journal's file: as durable as entries, for members on one machine that have no server."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import MAX_LETTER_BYTES, Letter
from quoracy.stores.limits import bounded, named, numbered, run_name
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.database import BUSY_TIMEOUT_S, Database
from quoracy.stores.sqlite.locate import find_row
from quoracy.stores.sqlite.schema import JOURNAL


class SqliteMailbox:
    def __init__(self, directory: str | Path, *, create: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._database = Database(Path(directory), JOURNAL, create_missing=create, busy_timeout_s=busy_timeout_s)

    def post(self, run: str, letter: Letter) -> bool:
        name, sender = run_name(run), named(letter.sender, "a sender's name")
        numbered(letter.seq, 1, "a letter's sequence number")
        bounded(letter.payload, 0, MAX_LETTER_BYTES, "a letter")
        sealed = seal(b"letter", name, sender, letter.seq, letter.payload)
        with self._database.write(len(letter.payload)) as connection:
            if letter.seq <= self._discarded(connection, name, sender):
                return False
            added = connection.execute(
                "INSERT OR IGNORE INTO letters VALUES (?, ?, ?, ?, ?)",
                (name, sender, letter.seq, sealed, letter.payload),
            )
            return added.rowcount == 1

    def collect(self, run: str, limit: int = 1000) -> list[Letter]:
        name = run_name(run)
        numbered(limit, 0, "a limit")
        with self._database.read(run) as connection:
            rows = connection.execute(
                "SELECT sender, seq, seal, payload FROM letters WHERE run = ? ORDER BY sender, seq LIMIT ?",
                (name, limit),
            )
            return [self._letter(run, name, row) for row in rows]

    def discard(self, run: str, sender: str, upto: int) -> None:
        name, by = run_name(run), named(sender, "a sender's name")
        numbered(upto, 0, "a letter's sequence number")
        with self._database.write() as connection:
            if upto > self._discarded(connection, name, by):
                row = (name, by, upto, seal(b"discarded", name, by, upto))
                connection.execute("INSERT OR REPLACE INTO discarded VALUES (?, ?, ?, ?)", row)
            connection.execute("DELETE FROM letters WHERE run = ? AND sender = ? AND seq <= ?", (name, by, upto))

    def close(self) -> None:
        self._database.close()

    def _discarded(self, connection: sqlite3.Connection, name: bytes, sender: bytes) -> int:
        row = connection.execute(
            "SELECT upto, seal FROM discarded WHERE run = ? AND sender = ?", (name, sender)
        ).fetchone()
        if row is None:
            return 0
        upto, sealed = row
        if not isinstance(upto, int) or sealed != seal(b"discarded", name, sender, upto):
            raise JournalCorrupt(
                name.decode(), 0, 0, "the row of discarded letters is damaged", self._database.path.name
            )
        return upto

    def _letter(self, run: str, name: bytes, row: tuple[object, ...]) -> Letter:
        sender, seq, sealed, payload = row
        match row:
            case bytes(sender), int(seq), bytes(sealed), bytes(payload):
                if sealed == seal(b"letter", name, sender, seq, payload):
                    return Letter(sender.decode(), seq, payload)
        offset, where = find_row(self._database.path, sealed, payload)
        raise JournalCorrupt(run, 0, offset, f"letter {seq!r} of {sender!r} is not the one that was posted", where)
