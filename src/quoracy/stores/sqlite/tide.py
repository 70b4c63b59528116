"""Notices that somebody committed, whichever process it was.

Inside this process a condition variable wakes whoever waits. Other processes cannot do that; but SQLite keeps a number
that changes with every commit of anybody else (``PRAGMA data_version``), and asking for it costs a few microseconds. So
as long as somebody waits, one of the waiters looks at it every few milliseconds, for all of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from threading import Condition
from time import monotonic

POLL_S = 0.004


class Tide:
    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._changed = Condition()
        self._level = 0
        self._version = 0
        self._looked_s = 0.0
        self._closed = False

    def level(self) -> int:
        """A number to hand to ``wait``. Whatever is committed after this call makes it rise."""
        with self._changed:
            if self._connection is None and not self._closed:
                self._connection = self._connect()
                self._version = self._look(self._connection)
            return self._level

    def rise(self) -> None:
        with self._changed:
            self._level += 1
            self._changed.notify_all()

    def wait(self, level: int, timeout_s: float) -> None:
        """Until the tide has risen beyond ``level``, the time is over, or this is closed."""
        deadline = monotonic() + timeout_s
        with self._changed:
            while self._level == level and not self._closed:
                left_s = deadline - monotonic()
                if left_s <= 0:
                    return
                self._changed.wait(min(POLL_S, left_s))
                if self._connection is not None and monotonic() - self._looked_s >= POLL_S:
                    version = self._look(self._connection)
                    if version != self._version:
                        self._version = version
                        self._level += 1
                        self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._changed.notify_all()

    def _look(self, connection: sqlite3.Connection) -> int:
        self._looked_s = monotonic()
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        return int(version)
