"""Snapshots: the fold so far, in pages named by their digest.

A state is a handful of sections. A section that is a list is a table, and its rows are written in pages of
``ROWS_PER_PAGE``; any other section is one page. A page that did not change has the digest it had before, so a store
that keeps pages by digest writes only what changed. The root lists the digests and is itself small; its digest is the
digest of the whole state.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quoracy.core.codec import digest, encode
from quoracy.core.errors import JournalCorrupt, JournalNewer, JournalOlder
from quoracy.core.journal import BEFORE_0_2

FORMAT: Final = 2
ROWS_PER_PAGE: Final = 256


class Section(msgspec.Struct, frozen=True, array_like=True):
    table: bool
    pages: list[bytes]


class Root(msgspec.Struct, frozen=True, array_like=True):
    format: int
    run: str
    n: int
    sections: dict[str, Section]


class Snapshot(msgspec.Struct, frozen=True):
    """What a store keeps: see ``ports.journal.Saved``, of which this is the making."""

    n: int
    root: bytes
    pages: dict[bytes, bytes]

    def digest(self) -> bytes:
        return digest(self.root)


_root = msgspec.msgpack.Decoder(Root)
_any = msgspec.msgpack.Decoder()


def pack(run: str, n: int, sections: dict[str, Any]) -> Snapshot:
    pages: dict[bytes, bytes] = {}
    named: dict[str, Section] = {}
    for name, value in sections.items():
        table = isinstance(value, list)
        parts = [value[i : i + ROWS_PER_PAGE] for i in range(0, len(value), ROWS_PER_PAGE)] if table else [value]
        written = [encode(part) for part in parts]
        digests = [digest(page) for page in written]
        pages.update(zip(digests, written, strict=True))
        named[name] = Section(table, digests)
    return Snapshot(n, encode(Root(FORMAT, run, n, named)), pages)


def unpack(run: str, n: int, root: bytes, pages: dict[bytes, bytes]) -> dict[str, Any]:
    """The sections as plain values, every page checked against its digest."""
    decoded = _decode_root(run, n, root)
    sections: dict[str, Any] = {}
    for name, section in decoded.sections.items():
        parts = [_page(run, n, name, named, pages) for named in section.pages]
        if section.table and not all(isinstance(part, list) for part in parts):
            raise JournalCorrupt(run, n, 0, "a page is no part of a table", f"the snapshot's section {name!r}")
        sections[name] = [row for part in parts for row in part] if section.table else parts[0]
    return sections


def _decode_root(run: str, n: int, root: bytes) -> Root:
    where = "the snapshot's root"
    try:
        decoded = _root.decode(root)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalCorrupt(run, n, 0, f"cannot be decoded: {error}", where) from None
    if decoded.format > FORMAT:
        raise JournalNewer(f"run {run!r}: snapshot {n} has format {decoded.format}, this Quoracy reads up to {FORMAT}")
    if decoded.format == BEFORE_0_2:
        raise JournalOlder(f"run {run!r}: snapshot {n} has format 1, of Quoracy 0.1, which is not read since 0.2")
    if decoded.format != FORMAT:
        raise JournalCorrupt(run, n, 0, f"format {decoded.format} does not exist", where)
    for name, section in decoded.sections.items():
        if not section.table and len(section.pages) != 1:
            raise JournalCorrupt(run, n, 0, f"section {name!r} is one page and names {len(section.pages)}", where)
    if (decoded.run, decoded.n) != (run, n):
        raise JournalCorrupt(run, n, 0, f"belongs to entry {decoded.n} of run {decoded.run!r}", where)
    return decoded


def _page(run: str, n: int, name: str, named: bytes, pages: dict[bytes, bytes]) -> Any:
    page = pages.get(named)
    where = f"the snapshot's section {name!r}"
    if page is None:
        raise JournalCorrupt(run, n, 0, f"page {named.hex()[:12]} is missing", where)
    if digest(page) != named:
        raise JournalCorrupt(run, n, 0, f"page {named.hex()[:12]} has other bytes than its digest says", where)
    return _any.decode(page)
