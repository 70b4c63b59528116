"""Hot entries as sealed rows, in the order of runs and numbers."""

from __future__ import annotations

import sqlite3

from quoracy.core.errors import JournalCorrupt
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.database import Database
from quoracy.stores.sqlite.faults import FAULTS
from quoracy.stores.sqlite.heads import Head
from quoracy.stores.sqlite.locate import find_row

NUMBER_BITS = 40
"""A million million entries in each of four million runs."""


def place_of(run_id: int, n: int) -> int:
    return run_id << NUMBER_BITS | n


def read_entries(database: Database, connection: sqlite3.Connection, head: Head, first: int, last: int) -> list[bytes]:
    """Entries ``first``..``last``, which must all be there: the head says so."""
    payloads: list[bytes] = []
    n = first
    try:
        rows = connection.execute(
            "SELECT place, seal, payload FROM entries WHERE place BETWEEN ? AND ? ORDER BY place",
            (place_of(head.id, first), place_of(head.id, last)),
        )
        for place, sealed, payload in rows:
            if place != place_of(head.id, n):
                break
            if not isinstance(payload, bytes) or sealed != seal_of(head, n, payload):
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
    row = (place_of(head.id, n), seal_of(head, n, payload), payload)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", row)


def delete_entries(connection: sqlite3.Connection, head: Head, upto: int) -> None:
    bounds = (place_of(head.id, 1), place_of(head.id, upto))
    connection.execute("DELETE FROM entries WHERE place BETWEEN ? AND ?", bounds)


def is_beyond(connection: sqlite3.Connection, head: Head) -> bool:
    """Whether there are entries which the head does not know of."""
    bounds = (place_of(head.id, head.last + 1), place_of(head.id + 1, 0))
    return bool(connection.execute("SELECT 1 FROM entries WHERE place BETWEEN ? AND ?", bounds).fetchone())


def seal_of(head: Head, n: int, payload: bytes) -> bytes:
    return seal(b"entry", head.name, n, payload)
