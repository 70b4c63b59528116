"""Snapshots: one row that says which one counts, an index with the root and the names of the pages, and the pages.

Pages and index are written first and count for nothing until the row is written. A page stays as long as the newest
snapshot names it and is not written again. What a crash leaves is removed by the next one that saves. Everything is cut
into parts, since etcd takes 1.5 MiB at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import Saved
from quoracy.stores.etcd.client import Client
from quoracy.stores.etcd.keys import Keys, digits, said
from quoracy.stores.etcd.upkeep import Upkeep
from quoracy.stores.etcd.words import KeyValue, Op, Reach, delete, put, under

PART_BYTES: Final = 512 * 1024


class Row(msgspec.Struct, frozen=True, array_like=True):
    n: int
    parts: int
    """Of the index."""


class Index(msgspec.Struct, frozen=True, array_like=True):
    root: bytes
    pages: list[tuple[bytes, int]]
    """Each with its number of parts."""


class Part(NamedTuple):
    key: bytes
    content: bytes


_row = msgspec.msgpack.Decoder(Row)
_index = msgspec.msgpack.Decoder(Index)


class Snapshots:
    def __init__(self, client: Client, keys: Keys, upkeep: Upkeep) -> None:
        self._client = client
        self._keys = keys
        self._upkeep = upkeep

    def row(self, run: str, name: bytes) -> tuple[Row, int]:
        """The row, with n = 0 if there is none, and the revision at which it was looked at."""
        key = self._keys.of_run(name, "snapshot")
        seen = self._client.read(Reach(key))
        kv = seen.one(0)
        return Row(0, 0) if kv is None else _row.decode(self._keys.unwrap(key, kv.value, run)), seen.revision

    def save(self, run: str, name: bytes, snapshot: Saved) -> None:
        if snapshot.n <= self.row(run, name)[0].n:
            return
        with self._upkeep.hold(name) as hold:
            row, revision = self.row(run, name)
            if snapshot.n <= row.n:
                return
            pages, indexes = (under(self._keys.of_run(name, folder, "")) for folder in ("pages", "index"))
            here = self._names(pages, revision)
            parts = {part.key: part for part in self._parts(name, snapshot)}
            hold.write_all(self._put(part) for key, part in parts.items() if key not in here)
            counts = [(digest, _count(page)) for digest, page in snapshot.pages.items()]
            index = msgspec.msgpack.encode(Index(snapshot.root, counts))
            cut = list(_cut(self._keys.of_run(name, "index", digits(snapshot.n), ""), index))
            old = self._names(indexes, revision) - {part.key for part in cut}
            hold.write_all(map(self._put, cut))
            key = self._keys.of_run(name, "snapshot")
            hold.write([self._put(Part(key, msgspec.msgpack.encode(Row(snapshot.n, len(cut)))))])
            hold.write_all(delete(Reach(unnamed)) for unnamed in sorted(old | (here - parts.keys())))

    def load(self, run: str, name: bytes) -> Saved | None:
        row, revision = self.row(run, name)
        if not row.n:
            return None
        folder = self._keys.of_run(name, "index", digits(row.n), "")
        index = _index.decode(self._joined(run, row.n, folder, row.parts, self._found(under(folder), revision)))
        pages = self._keys.of_run(name, "pages", "")
        found = self._found(under(pages), revision)
        return Saved(
            row.n,
            index.root,
            {digest: self._joined(run, row.n, _folder(pages, digest), count, found) for digest, count in index.pages},
        )

    def _joined(self, run: str, n: int, folder: bytes, count: int, found: dict[bytes, KeyValue]) -> bytes:
        parts = []
        for part in range(count):
            key = folder + b"%06d" % part
            if (kv := found.get(key)) is None:
                raise JournalCorrupt(run, n, 0, "a part of the snapshot is missing", f"the key {said(key)}")
            parts.append(self._keys.unwrap(key, kv.value, run, n))
        return b"".join(parts)

    def _found(self, reach: Reach, revision: int) -> dict[bytes, KeyValue]:
        return {kv.key: kv for kv in self._client.scan(reach, revision)}

    def _names(self, reach: Reach, revision: int) -> set[bytes]:
        return {kv.key for kv in self._client.scan(reach._replace(keys_only=True), revision)}

    def _parts(self, name: bytes, snapshot: Saved) -> Iterator[Part]:
        folder = self._keys.of_run(name, "pages", "")
        for digest, page in snapshot.pages.items():
            yield from _cut(_folder(folder, digest), page)

    def _put(self, part: Part) -> Op:
        return put(part.key, self._keys.wrap(part.key, part.content))


def _folder(pages: bytes, digest: bytes) -> bytes:
    return pages + digest.hex().encode() + b"/"


def _count(content: bytes) -> int:
    """Of parts. What is empty has one as well, so that it is there."""
    return max(1, -(-len(content) // PART_BYTES))


def _cut(folder: bytes, content: bytes) -> Iterator[Part]:
    for part in range(_count(content)):
        yield Part(folder + b"%06d" % part, content[part * PART_BYTES : (part + 1) * PART_BYTES])
