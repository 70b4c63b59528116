"""Rows read straight from the pages of a database, without the tree that leads to them.

For repairs: one damaged page near the root of a table hides everything below it from SQLite, although the rows are
there. What is found may also be left over from earlier; rows of entries never change, so an old copy is as good as the
newest, and seals tell the good from the damaged. Only what our own tables use is understood.

The format is documented at https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from quoracy.ports import MAX_ENTRY_BYTES
from quoracy.stores.sqlite.schema import PAGE_BYTES

TABLE_LEAF = 0x0D
"""The kind of page on which a table whose key is an integer has its rows."""
_LOCAL_MOST = PAGE_BYTES - 35
_LOCAL_LEAST = (PAGE_BYTES - 12) * 32 // 255 - 23
_MOST_BYTES = MAX_ENTRY_BYTES + 1024
_INTEGERS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""Bytes that an integer of each type takes; types 8 and 9 are 0 and 1 themselves."""

Column = int | bytes | None


def leaf_rows(content: bytes) -> Iterator[tuple[int, list[Column]]]:
    """(key, columns) of every row that looks like one, in whatever order the pages lie. The key's own column is
    None."""
    for start in range(0, len(content) - PAGE_BYTES + 1, PAGE_BYTES):
        page = content[start : start + PAGE_BYTES]
        for offset in _cells(page):
            try:
                size, offset = _varint(page, offset)
                key, offset = _varint(page, offset)
                yield key, _columns(_record(content, page, offset, size))
            except (IndexError, ValueError, struct.error):
                continue


def _cells(page: bytes) -> tuple[int, ...]:
    """Where the rows of a page begin. The byte that says what kind of page it is may itself be damaged; a page that
    looks as if it were a leaf in every other way is taken for one."""
    (count,) = struct.unpack_from(">H", page, 3)
    count = min(count, (PAGE_BYTES - 8) // 2)
    offsets = struct.unpack_from(f">{count}H", page, 8)
    if page[0] == TABLE_LEAF or all(8 + 2 * count <= offset < PAGE_BYTES for offset in offsets):
        return offsets
    return ()


def _record(content: bytes, page: bytes, offset: int, size: int) -> bytes:
    """The bytes of a row, also those that are on other pages."""
    if size > _MOST_BYTES:
        raise ValueError(f"no row of ours has {size} bytes")
    if size <= _LOCAL_MOST:
        return page[offset : offset + size]
    local = _LOCAL_LEAST + (size - _LOCAL_LEAST) % (PAGE_BYTES - 4)
    if local > _LOCAL_MOST:
        local = _LOCAL_LEAST
    parts = [page[offset : offset + local]]
    (following,) = struct.unpack_from(">I", page, offset + local)
    left = size - local
    while left > 0 and following:
        start = (following - 1) * PAGE_BYTES
        (following,) = struct.unpack_from(">I", content, start)
        parts.append(content[start + 4 : start + 4 + min(left, PAGE_BYTES - 4)])
        left -= PAGE_BYTES - 4
    return b"".join(parts)


def _columns(record: bytes) -> list[Column]:
    head_size, offset = _varint(record, 0)
    types: list[int] = []
    while offset < head_size:
        kind, offset = _varint(record, offset)
        types.append(kind)
    values: list[Column] = []
    for kind in types:
        value, offset = _value(record, kind, offset)
        values.append(value)
    return values


def _value(record: bytes, kind: int, offset: int) -> tuple[Column, int]:
    if kind >= 12:
        size = (kind - 12) // 2
        return record[offset : offset + size], offset + size
    size = _INTEGERS.get(kind, -1)
    if size < 0:
        raise ValueError(f"no column of ours is of type {kind}")
    if kind in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(kind)], offset
    return int.from_bytes(record[offset : offset + size], "big", signed=True), offset + size


def _varint(content: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        byte = content[offset + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, offset + i + 1
    return value << 8 | content[offset + 8], offset + 9
