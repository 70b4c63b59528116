"""Hot entries as sealed rows."""

from __future__ import annotations

import sqlite3

from quorate.core.errors import JournalCorrupt
from quorate.stores.seal import seal
from quorate.stores.sqlite.database import Database
from quorate.stores.sqlite.faults import FAULTS
from quorate.stores.sqlite.heads import Head
from quorate.stores.sqlite.locate import find_row


def read_entries(database: Database, connection: sqlite3.Connection, head: Head, first: int, last: int) -> list[bytes]:
    """Entries ``first``..``last``, which must all be there: the head says so."""
    payloads: list[bytes] = []
    n = first
    try:
        rows = connection.execute(
            "SELECT n, seal, payload FROM entries WHERE run = ? AND n BETWEEN ? AND ? ORDER BY n",
            (head.id, first, last),
        )
        for found, sealed, payload in rows:
            if found != n:
                break
            if not isinstance(payload, bytes) or sealed != seal(b"entry", head.name, n, payload):
                offset, where = find_row(database.path, sealed, payload)
                raise JournalCorrupt(head.run, n, offset, "the payload is not the one that was written", where)
            payloads.append(payload)
            n += 1
    except FAULTS as error:
        raise database.fault(error, head.run, n) from error
    if n <= last:
        raise JournalCorrupt(head.run, n, 0, "the row of the entry is missing", database.path.name)
    return payloads


def insert_entry(connection: sqlite3.Connection, head: Head, n: int, payload: bytes) -> None:
    sealed = seal(b"entry", head.name, n, payload)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (head.id, n, sealed, payload))
