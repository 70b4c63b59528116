"""What SQLite's error codes mean to us.

The question behind each is whether the write may have happened. *Full* and *busy* are said before anything is final,
so the same append may be tried again. Everything else that goes wrong while writing leaves it open what the disk
holds, and after a failed fsync the kernel may have thrown the bytes away while it reports success the next time: so
this process must not write again (*broken*).
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from quoracy.core.errors import JournalBroken, JournalBusy, JournalCorrupt, JournalError, JournalFull
from quoracy.stores.sqlite.schema import PAGE_BYTES

Fault = sqlite3.Error | UnicodeDecodeError
FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What the Python module raises. It decodes messages as UTF-8, and one that quotes a damaged name is none."""

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
"""ERROR and CONSTRAINT as well: our statements fit the tables we made, so the tables are not those any more."""
_DAMAGED_EXTENDED = (sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)


def code_of(error: Fault) -> int:
    """The extended code. Errors that the Python module raises by itself have none: 0."""
    return getattr(error, "sqlite_errorcode", 0)


def is_busy(error: Fault) -> bool:
    return code_of(error) & 0xFF in _BUSY


def is_damage(error: Fault) -> bool:
    code = code_of(error)
    return isinstance(error, UnicodeDecodeError) or code & 0xFF in _DAMAGED or code in _DAMAGED_EXTENDED


def translate(error: Fault, path: Path, run: str = "", entry: int = 0) -> JournalError:
    """The error as the ports name it. ``entry`` is the one that was being read or written, 0 if it was none."""
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    said = f"{path}: {error} ({name})"
    if is_busy(error):
        return JournalBusy(said)
    if code_of(error) & 0xFF == sqlite3.SQLITE_FULL:
        return JournalFull(said)
    if is_damage(error):
        offset, what = examine(path)
        return JournalCorrupt(
            run, entry, offset, f"{error} ({name}): {what}" if what else f"{error} ({name})", path.name
        )
    return JournalBroken(said)


def examine(path: Path) -> tuple[int, str]:
    """Where SQLite's own check finds the first damage, and what it says of it."""
    try:
        connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", 1.0, uri=True)
    except sqlite3.Error:
        return 0, ""
    try:
        (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except FAULTS:
        return 0, ""
    finally:
        connection.close()
    page = re.search(r"[Pp]age (\d+)", said)
    offset = (int(page.group(1)) - 1) * PAGE_BYTES if page else 0
    return max(offset, 0), said.replace("*** in database main ***\n", "").strip()
