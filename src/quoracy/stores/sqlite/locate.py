"""Where in the file a damaged row is.

SQLite does not say where a row is stored, so its bytes are searched for: first in the log (the newest copy of a page is
the one that counts), then in the database file.

A trap: POSIX locks belong to the process, and closing *any* descriptor of a file drops all of them, SQLite's too; then
another process might delete the log under our feet. So the descriptor that is opened here is never closed. There is at
most one per file, and only after damage was found.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

from quoracy.stores.sqlite.wal import log_of, read_log

_CHUNK_BYTES = 1 << 20
_LOCAL_BYTES = 400
"""The part of a row that is certainly in one piece: SQLite puts at least 489 bytes of it on the page of its key."""

_kept_open: dict[tuple[int, int], int] = {}
_guard = Lock()


def find_row(database: Path, *columns: object) -> tuple[int, str]:
    """(offset, file name) of a row that holds these columns next to each other; offset 0 if it cannot be found.

    Older copies of a row may lie in unused parts of the file. So the whole row is tried first: with the damage in it,
    it is there only once. Only a row that is spread over several pages is found by its beginning.
    """
    row = b"".join(column for column in columns if isinstance(column, bytes))
    log = read_log(database)
    for needle in (row, row[:_LOCAL_BYTES]) if row else ():
        found = 0
        for offset, page in log.pages() if log else ():
            at = page.find(needle)
            found = offset + at if at >= 0 else found
        if found:
            return found, log_of(database).name
        found = _find(_descriptor(database), needle)
        if found:
            return found, database.name
    return 0, database.name


def _descriptor(path: Path) -> int:
    status = path.stat()
    with _guard:
        key = (status.st_dev, status.st_ino)
        if key not in _kept_open:
            _kept_open[key] = os.open(path, os.O_RDONLY)
        return _kept_open[key]


def _find(descriptor: int, needle: bytes) -> int:
    offset, kept = 0, b""
    while chunk := os.pread(descriptor, _CHUNK_BYTES, offset):
        window = kept + chunk
        at = window.find(needle)
        if at >= 0:
            return offset - len(kept) + at
        kept = window[-len(needle) :]
        offset += len(chunk)
    return 0
