"""One file: its connections, its transactions, and whether it may still be written.

One connection writes, under a lock; readers have their own and do not wait for the writer. Two processes may do so on
the same file at once: SQLite's lock then decides who is first.

A file is for local disks only. SQLite's locks and shared memory do not work over NFS and the like.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import TypeVar

from quoracy.core.errors import ConfigError, JournalBroken, JournalBusy, JournalCorrupt, JournalError, JournalFull
from quoracy.stores.durable import NO_ROOM
from quoracy.stores.sqlite.checkpoint import Checkpointer
from quoracy.stores.sqlite.faults import FAULTS, Fault, is_busy, translate
from quoracy.stores.sqlite.schema import PAGE_BYTES, FileKind, connect, create, refuse_foreign
from quoracy.stores.sqlite.tide import Tide
from quoracy.stores.sqlite.wal import LostCommits, log_of, lost_commits

BUSY_TIMEOUT_S = 5.0
CHECKPOINT_BYTES = 8 * 1024 * 1024
"""How far the log may grow before it is moved. After a crash, a log of this size is checked in 0.1 s."""
IDLE_READERS = 4
T = TypeVar("T")
_AGAIN_S = 0.0005
"""SQLite would sleep longer and longer between attempts, and starve beside a process that appends all the time."""


class Database:
    def __init__(
        self,
        directory: Path,
        kind: FileKind,
        *,
        create_missing: bool = True,
        read_only: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
    ) -> None:
        self.directory = directory
        self.path = directory / kind.file_name
        self.kind = kind
        self.read_only = read_only
        self.busy_timeout_s = busy_timeout_s
        self.lost: LostCommits | None = None
        """What the log has lost. Only a read-only database is opened at all then."""
        self._writing = Lock()
        self._pool = Lock()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        self._broken: str | None = None
        self.tide = Tide(self._connect_reader)
        self._checkpointer = Checkpointer(self._connect, self._writing, self._checkpoint_failed, checkpoint_bytes)
        if create_missing and not read_only:
            self._create()
        if not self.path.exists():
            raise ConfigError("data directory", str(directory), f"there is no {kind.file_name} in it: name another one")
        self._look_at_log()
        self._writer = self._open()

    # -- opening and closing ----------------------------------------------------------------------------------------

    def _create(self) -> None:
        try:
            create(self.directory, self.kind, self.busy_timeout_s)
        except FAULTS as error:
            raise translate(error, self.path) from error
        except OSError as error:
            kind = JournalFull if error.errno in NO_ROOM else JournalBroken
            raise kind(f"{self.path} cannot be created: {error}") from error

    def _look_at_log(self) -> None:
        if self.kind.synchronous != "FULL":
            return
        self.lost = lost_commits(self.path)
        if self.lost is not None and not self.read_only:
            raise JournalCorrupt("", 0, self.lost.offset, self.lost.what, log_of(self.path).name)

    def _open(self) -> sqlite3.Connection:
        """The connection that writes. It does not wait inside SQLite: see ``_patiently``."""
        if (size_bytes := self.path.stat().st_size) < PAGE_BYTES:  # SQLite takes some of these for a new database
            what = f"the file has only {size_bytes} bytes: it was cut, or another program made it"
            raise JournalCorrupt("", 0, size_bytes, what, self.path.name)
        try:
            connection = self._connect(timeout_s=0.0)
        except FAULTS as error:
            raise translate(error, self.path) from error
        try:
            self._patiently(lambda: refuse_foreign(connection, self.kind, self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, timeout_s: float | None = None) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rw"
        waits_s = self.busy_timeout_s if timeout_s is None else timeout_s
        return self._while_recovering(lambda: connect(self.path, self.kind, timeout_s=waits_s, mode=mode))

    def _while_recovering(self, attempt: Callable[[], T]) -> T:
        """While somebody else recovers the log SQLite says busy at once, whatever its own time-out is."""
        deadline = monotonic() + self.busy_timeout_s
        while True:
            try:
                return attempt()
            except FAULTS as error:
                if not is_busy(error) or monotonic() >= deadline:
                    raise
            sleep(_AGAIN_S)

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only=ON")
        return connection

    def close(self) -> None:
        """A broken database keeps one connection for ever: the last to close would checkpoint, and that is a write."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
        self._checkpointer.stop()
        self.tide.close()
        with self._pool:
            while self._readers:
                self._readers.pop().close()
        if self._broken is None:
            self._writer.close()
        else:
            Thread(target=_hold, args=(self._writer,), name="quoracy-broken", daemon=True).start()

    def refuse_unusable(self) -> None:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        if self._broken is not None:
            raise JournalBroken(self._broken)

    # -- reading ----------------------------------------------------------------------------------------------------

    @contextmanager
    def read(self, run: str = "", entry: int = 0) -> Iterator[sqlite3.Connection]:
        """A connection inside a read transaction: everything it shows is of one moment. ``run`` and ``entry`` say what
        is being read, in case it cannot be."""
        connection = self._borrow()
        try:
            connection.execute("BEGIN")
            self._while_recovering(lambda: connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone())
            yield connection
        except FAULTS as error:
            raise self.fault(error, run, entry) from error
        finally:
            self._give_back(connection)

    def fault(self, error: Fault, run: str, entry: int) -> JournalError:
        return translate(error, self.path, run, entry)

    def _borrow(self) -> sqlite3.Connection:
        with self._pool:
            if self._closed:
                raise ValueError(f"{self.path} is closed")
            if self._readers:
                return self._readers.pop()
        try:
            return self._connect_reader()
        except FAULTS as error:
            raise translate(error, self.path) from error

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with suppress(*FAULTS):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        with self._pool:
            if self._closed or len(self._readers) >= IDLE_READERS or connection.in_transaction:
                connection.close()
            else:
                self._readers.append(connection)

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, size_bytes: int = 0) -> Iterator[sqlite3.Connection]:
        """One transaction, durable when the block is left. If anything is raised in it, nothing was written.
        ``size_bytes`` is about how much goes into the log."""
        self._checkpointer.wait_if_far_ahead()
        with self._writing:
            self.refuse_unusable()
            try:
                self._patiently(lambda: self._writer.execute("BEGIN IMMEDIATE"))
                yield self._writer
                self._writer.execute("COMMIT")
            except FAULTS as error:
                self._roll_back()
                raise self._broke(error) from error
            except BaseException:
                self._roll_back()
                raise
            self._checkpointer.grew(size_bytes + 4 * PAGE_BYTES)
        self.tide.rise()

    def checkpoint(self) -> bool:
        """Move the log into the file now; True if all of it was moved. For maintenance and tests."""
        self.refuse_unusable()
        with suppress(*FAULTS):
            connection = self._connect()
            try:
                return self._checkpointer.checkpoint(connection)
            finally:
                connection.close()
        return False

    def mark_broken(self, why: str) -> None:
        self._broken = self._broken or f"{why}: this process must not write again; a new one reads what is there"
        self._checkpointer.halt()

    def _patiently(self, attempt: Callable[[], object]) -> None:
        deadline = monotonic() + self.busy_timeout_s
        while True:
            try:
                attempt()
                return
            except FAULTS as error:
                if not is_busy(error):
                    raise self._broke(error) from error
                if monotonic() >= deadline:
                    waited = f"another process holds it for more than {self.busy_timeout_s:g} s"
                    raise JournalBusy(f"{self.path}: {waited}") from error
            sleep(_AGAIN_S)

    def _roll_back(self) -> None:
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except FAULTS as error:
            self.mark_broken(f"{self.path}: rolling back failed: {error}")

    def _broke(self, error: Fault) -> JournalError:
        fault = translate(error, self.path)
        if isinstance(fault, JournalBroken):
            self.mark_broken(str(fault))
            return JournalBroken(self._broken)
        return fault

    def _checkpoint_failed(self, error: Fault) -> None:
        """Full and busy pass: nothing was lost and the next checkpoint tries again."""
        if isinstance(fault := translate(error, self.path), JournalBroken):
            self.mark_broken(f"{fault} while checkpointing")


def _hold(_connection: sqlite3.Connection) -> None:
    """A daemon thread's variables are not cleaned up when the interpreter ends, so the connection is never closed."""
    Event().wait()
