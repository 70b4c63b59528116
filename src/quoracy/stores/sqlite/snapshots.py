"""Snapshots in the database: one row with the root and the list of pages, and the pages under their digests.

A page is written once and stays as long as the newest snapshot names it. Pages are written in small transactions before
the one that makes them count, so a large snapshot does not hold up the appends beside it. Until then nobody names them,
and a crash leaves nothing but pages that the next snapshot uses or removes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import Saved
from quoracy.stores.limits import run_name
from quoracy.stores.seal import seal
from quoracy.stores.sqlite.database import Database
from quoracy.stores.sqlite.heads import Head, Heads
from quoracy.stores.sqlite.locate import find_row

BATCH_BYTES = 1 << 20


class Snapshots:
    def __init__(self, database: Database, heads: Heads) -> None:
        self._database = database
        self._heads = heads

    def save(self, run: str, snapshot: Saved) -> None:
        name = run_name(run)
        with self._database.read(run, snapshot.n) as connection:
            head = self._heads.find(connection, name)
            if head is None or not 1 <= snapshot.n <= head.last:
                last = head.last if head else 0
                raise ValueError(f"run {run!r}: a snapshot of entry {snapshot.n}, but the last entry is {last}")
            if snapshot.n <= head.saved:
                return
            here = _digests(connection, head)
        for batch in _batches({digest: page for digest, page in snapshot.pages.items() if digest not in here}):
            with self._database.write(sum(len(page) for page in batch.values())) as connection:
                _insert(connection, head, batch)
        with self._database.write(len(snapshot.root)) as connection:
            self._make_it_count(connection, name, snapshot)

    def _make_it_count(self, connection: sqlite3.Connection, name: bytes, snapshot: Saved) -> None:
        """Whatever another process did meanwhile: all pages are there, no others are, and the row is the newest."""
        head = self._heads.find(connection, name)
        if head is None or snapshot.n <= head.saved:
            return
        here = _digests(connection, head)
        _insert(connection, head, {digest: page for digest, page in snapshot.pages.items() if digest not in here})
        unnamed = [(head.id, digest) for digest in here - snapshot.pages.keys()]
        connection.executemany("DELETE FROM pages WHERE run = ? AND digest = ?", unnamed)
        digests = msgspec.msgpack.encode(sorted(snapshot.pages))
        row = (head.id, snapshot.n, snapshot.root, digests, _seal(head, snapshot.n, snapshot.root, digests))
        connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)", row)
        head.saved = snapshot.n
        self._heads.put(connection, head)

    def load(self, run: str) -> Saved | None:
        name = run_name(run)
        with self._database.read(run) as connection:
            head = self._heads.find(connection, name)
            if head is None or not head.saved:
                return None
            row = connection.execute(
                "SELECT n, root, digests, seal FROM snapshots WHERE run = ?", (head.id,)
            ).fetchone()
            if row is None:
                raise self._damaged(head, "the row of the snapshot is missing")
            n, root, digests, sealed = row
            if n != head.saved or not isinstance(root, bytes) or sealed != _seal(head, n, root, digests):
                raise self._damaged(head, "the row of the snapshot is damaged", root)
            pages = self._pages(connection, head, msgspec.msgpack.decode(digests, type=list[bytes]))
        return Saved(n, root, pages)

    def _pages(self, connection: sqlite3.Connection, head: Head, digests: list[bytes]) -> dict[bytes, bytes]:
        pages: dict[bytes, bytes] = {}
        for digest in digests:
            row = connection.execute(
                "SELECT seal, page FROM pages WHERE run = ? AND digest = ?", (head.id, digest)
            ).fetchone()
            if row is None:
                raise self._damaged(head, f"page {digest.hex()[:12]} of the snapshot is missing")
            sealed, page = row
            if not isinstance(page, bytes) or sealed != _seal_page(head, digest, page):
                raise self._damaged(head, f"page {digest.hex()[:12]} of the snapshot is damaged", sealed, page)
            pages[digest] = page
        return pages

    def _damaged(self, head: Head, what: str, *columns: object) -> JournalCorrupt:
        offset, where = find_row(self._database.path, *columns)
        return JournalCorrupt(head.run, head.saved, offset, what, where)


def _digests(connection: sqlite3.Connection, head: Head) -> set[bytes]:
    return {digest for (digest,) in connection.execute("SELECT digest FROM pages WHERE run = ?", (head.id,))}


def _insert(connection: sqlite3.Connection, head: Head, pages: dict[bytes, bytes]) -> None:
    rows = [(head.id, digest, _seal_page(head, digest, page), page) for digest, page in pages.items()]
    connection.executemany("INSERT OR REPLACE INTO pages VALUES (?, ?, ?, ?)", rows)


def _batches(pages: dict[bytes, bytes]) -> Iterator[dict[bytes, bytes]]:
    batch: dict[bytes, bytes] = {}
    size_bytes = 0
    for digest, page in pages.items():
        batch[digest] = page
        size_bytes += len(page)
        if size_bytes >= BATCH_BYTES:
            yield batch
            batch, size_bytes = {}, 0
    if batch:
        yield batch


def _seal(head: Head, n: object, root: bytes, digests: object) -> bytes:
    if not isinstance(n, int) or not isinstance(digests, bytes):
        return b""
    return seal(b"snapshot", head.name, n, root, digests)


def _seal_page(head: Head, digest: bytes, page: bytes) -> bytes:
    return seal(b"page", head.name, digest, page)
