"""Moving commits from the write-ahead log into the database file, off the commit path.

SQLite would do it inside some unlucky commit. Here a thread does it: most of it while commits go on, then, holding the
writers' lock for a moment, the few pages that came in meanwhile. Only a log that was moved completely is written from
its start again, so without that second pass a busy journal's log would grow for ever. Writers that are far ahead of
the thread wait for it: that is what bounds the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from threading import Condition, Lock, Thread

from quoracy.stores.sqlite.faults import FAULTS, Fault

FAR_AHEAD = 4
"""Writers wait when the log has grown to this many times the size at which it is moved."""
PATIENCE_S = 1.0
"""But not for longer: a disk that is that slow is no reason to stop."""


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
        self._changed = Condition()
        self._grown_bytes = 0
        self._stopping = False
        self._thread: Thread | None = None

    def grew(self, size_bytes: int) -> None:
        """The log grew by about this much."""
        with self._changed:
            self._grown_bytes += size_bytes
            if self._grown_bytes < self._limit_bytes or self._stopping:
                return
            if self._thread is None:
                self._thread = Thread(target=self._run, name="quoracy-checkpoint", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait_if_far_ahead(self) -> None:
        """Called before the writers' lock is taken: the thread needs it too."""
        if self._grown_bytes >= FAR_AHEAD * self._limit_bytes:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._grown_bytes < self._limit_bytes, PATIENCE_S)

    def checkpoint(self, connection: sqlite3.Connection) -> bool:
        """Move all that can be moved; True if that was all there is. What the first pass says of itself does not count:
        it speaks of the log as it was when it began."""
        try:
            self._pass(connection)
            with self._writing:
                complete = self._pass(connection)
        except FAULTS as error:
            self._failed(error)
            complete = False
        with self._changed:
            self._grown_bytes = 0
            self._changed.notify_all()
        return complete

    def halt(self) -> None:
        """No further checkpoint from here on."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

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
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping or self._grown_bytes >= self._limit_bytes)
                    if self._stopping:
                        return
                self.checkpoint(connection)
