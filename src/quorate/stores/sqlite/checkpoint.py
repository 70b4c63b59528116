"""Moving commits from the write-ahead log into the database file, off the commit path.

SQLite would do it inside some unlucky commit. Here a thread does it: most of it while commits go on, then, holding the
writers' lock for a moment, the few pages that came in meanwhile. Only a log that was moved completely is written from
its start again, so without that second pass a busy journal's log would grow for ever.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from threading import Event, Lock, Thread

from quorate.stores.sqlite.faults import FAULTS, Fault


class Checkpointer:
    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        writing: Lock,
        failed: Callable[[Fault], None],
        limit_bytes: int,
    ) -> None:
        self._connect = connect
        self._writing = writing
        self._failed = failed
        self._limit_bytes = limit_bytes
        self._grown_bytes = 0
        self._due = Event()
        self._stopping = False
        self._thread: Thread | None = None

    def grew(self, size_bytes: int) -> None:
        """The log grew by about this much. Called with the writers' lock held."""
        self._grown_bytes += size_bytes
        if self._grown_bytes < self._limit_bytes:
            return
        self._grown_bytes = 0
        if self._thread is None:
            self._thread = Thread(target=self._run, name="quorate-checkpoint", daemon=True)
            self._thread.start()
        self._due.set()

    def checkpoint(self, connection: sqlite3.Connection) -> bool:
        """Move all that can be moved; True if that was all there is. What the first pass says of itself does not count:
        it speaks of the log as it was when it began."""
        try:
            self._pass(connection)
            with self._writing:
                return self._pass(connection)
        except FAULTS as error:
            self._failed(error)
            return False

    def halt(self) -> None:
        """No further checkpoint from here on."""
        self._stopping = True
        self._due.set()

    def stop(self) -> None:
        self.halt()
        if self._thread is not None:
            self._thread.join()

    @staticmethod
    def _pass(connection: sqlite3.Connection) -> bool:
        busy, in_log, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return not busy and in_log == moved

    def _run(self) -> None:
        try:
            connection = self._connect()
        except FAULTS as error:
            self._failed(error)
            return
        with closing(connection):
            while True:
                self._due.wait()
                self._due.clear()
                if self._stopping:
                    return
                self.checkpoint(connection)
