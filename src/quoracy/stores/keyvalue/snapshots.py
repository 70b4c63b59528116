"""Snapshots over a bare store: one small record that is swapped, and blobs that it leads to.

Each save writes under a mark of its own, so nobody else uses its blobs before its record counts. A page that the record
before already has is not written again: the new record names the blob where it is. That is safe because the swap fails
if the record is another one by then. Whoever replaces a record deletes the blobs that only the old one named; they are
never named again.

A reader that finds a blob missing looks whether the record is still the same: if it is, that is damage.

A save that dies half-way leaves blobs behind that nobody names.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import msgspec

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import Saved
from quoracy.stores.keyvalue.keys import RunKeys, Sealed
from quoracy.stores.keyvalue.steps import Create, Delete, Get, GetMany, Step, Steps, Swap

PART_BYTES = 512 * 1024
PARTS_AT_ONCE = 16


class Page(msgspec.Struct, frozen=True, array_like=True):
    digest: bytes
    mark: str
    """Of the save that wrote it."""
    index: int
    size_bytes: int


class Contents(msgspec.Struct, frozen=True, array_like=True):
    root: bytes
    pages: list[Page]


class Record(msgspec.Struct, frozen=True, array_like=True):
    n: int
    mark: str
    size_bytes: int
    """Of the contents, which are blob 0 of the mark."""


_record = msgspec.msgpack.Decoder(Record)
_contents = msgspec.msgpack.Decoder(Contents)
Blob = tuple[str, int, int]
"""(mark, index, size in bytes)."""


class Snapshots:
    def __init__(self, keys: RunKeys) -> None:
        self._keys = keys
        self._head = Sealed("snapshot", keys.run)
        self._part = Sealed("blob", keys.run)

    def newest(self) -> Steps[int]:
        found = yield Get(self._keys.snapshot)
        return self._decode(found).n if found else 0

    def save(self, snapshot: Saved) -> Steps[None]:
        mark = secrets.token_hex(8)
        written: dict[bytes, Page] = {}
        while True:
            found: bytes | None = yield Get(self._keys.snapshot)
            before = self._decode(found) if found else None
            if before is not None and before.n >= snapshot.n:
                yield from self._delete((mark, page.index, page.size_bytes) for page in written.values())
                return
            old = (yield from self._contents(before)) if before else Contents(b"", [])
            if old is None:
                continue
            inherited = {page.digest: page for page in old.pages if page.digest in snapshot.pages}
            for digest, content in snapshot.pages.items():
                if digest not in inherited and digest not in written:
                    page = Page(digest, mark, len(written) + 1, len(content))
                    yield from self._write((mark, page.index, page.size_bytes), content)
                    written[digest] = page
            contents = Contents(snapshot.root, [(inherited | written)[digest] for digest in snapshot.pages])
            if (yield from self._count(found, snapshot.n, mark, contents)):
                break
        named = {page.mark + str(page.index) for page in contents.pages}
        gone = [page for page in [*old.pages, *written.values()] if page.mark + str(page.index) not in named]
        yield from self._delete((page.mark, page.index, page.size_bytes) for page in gone)
        if before is not None:
            yield from self._delete([(before.mark, 0, before.size_bytes)])

    def _count(self, found: bytes | None, n: int, mark: str, contents: Contents) -> Steps[bool]:
        """The swap that makes it the snapshot; False if somebody else was faster."""
        body = msgspec.msgpack.encode(contents)
        blob = (mark, 0, len(body))
        yield from self._write(blob, body)
        wanted = self._head.seal(msgspec.msgpack.encode(Record(n, mark, len(body))))
        key = self._keys.snapshot
        step: Step = Create(key, wanted) if found is None else Swap(key, found, wanted)
        stored = yield step
        if stored != wanted:
            yield from self._delete([blob])
        return bool(stored == wanted)

    def load(self) -> Steps[Saved | None]:
        found: bytes | None = yield Get(self._keys.snapshot)
        while found is not None:
            record = self._decode(found)
            loaded = yield from self._load(record)
            again: bytes | None = yield Get(self._keys.snapshot)
            if again == found:
                if loaded is None:
                    what = "a part of the snapshot is missing"
                    raise JournalCorrupt(self._keys.run, record.n, 0, what, self._keys.snapshot)
                return loaded
            found = again
        return None

    def _load(self, record: Record) -> Steps[Saved | None]:
        contents = yield from self._contents(record)
        if contents is None:
            return None
        pages: dict[bytes, bytes] = {}
        for page in contents.pages:
            content = yield from self._read((page.mark, page.index, page.size_bytes))
            if content is None:
                return None
            pages[page.digest] = content
        return Saved(record.n, contents.root, pages)

    def _contents(self, record: Record) -> Steps[Contents | None]:
        body = yield from self._read((record.mark, 0, record.size_bytes))
        return None if body is None else _contents.decode(body)

    def _decode(self, found: bytes) -> Record:
        return _record.decode(self._head.open(found, self._keys.snapshot))

    # -- blobs: any number of bytes, in parts -------------------------------------------------------------------------

    def _parts(self, blob: Blob) -> list[str]:
        mark, index, size_bytes = blob
        count = max(1, -(-size_bytes // PART_BYTES))
        return [f"{self._keys.base}/blob/{mark}/{index}/{i}" for i in range(count)]

    def _write(self, blob: Blob, content: bytes) -> Steps[None]:
        for i, key in enumerate(self._parts(blob)):
            yield Create(key, self._part.seal(content[i * PART_BYTES : (i + 1) * PART_BYTES], name=key))

    def _read(self, blob: Blob) -> Steps[bytes | None]:
        parts, content = self._parts(blob), bytearray()
        for i in range(0, len(parts), PARTS_AT_ONCE):
            keys = tuple(parts[i : i + PARTS_AT_ONCE])
            values = yield GetMany(keys)
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    return None
                content += self._part.open(value, key, name=key)
        return bytes(content)

    def _delete(self, blobs: Iterable[Blob]) -> Steps[None]:
        for blob in blobs:
            for key in self._parts(blob):
                yield Delete(key)
