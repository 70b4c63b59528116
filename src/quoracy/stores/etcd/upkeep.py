"""One at a time saves or compacts a run: a key that is bound to the session's lease, and named by every write.

Because each of those writes happens only while the key is still the one we made, a process that was stopped for so long
that another one took over its work changes nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from time import monotonic, sleep
from typing import Final

from quoracy.core.errors import JournalBusy, JournalError
from quoracy.stores.etcd.client import MAX_BYTES, MAX_OPS, Client, Written
from quoracy.stores.etcd.keys import Keys, said
from quoracy.stores.etcd.session import Session
from quoracy.stores.etcd.words import Compare, Op, Reach, created_at, delete, get, put

WAIT_S: Final = 10.0
PAUSE_S: Final = 0.05


class Hold:
    """The right to change what upkeep changes."""

    def __init__(self, client: Client, key: bytes, created: int) -> None:
        self._client = client
        self._key = key
        self._created = created

    def write(self, then: list[Op], compares: Iterable[Compare] = ()) -> Written:
        written = self._client.write([created_at(self._key, self._created), *compares], then)
        if not written.succeeded:
            raise JournalBusy(f"the key {said(self._key)} was lost: another process does the upkeep of this run now")
        return written

    def write_all(self, ops: Iterable[Op]) -> None:
        """As many at once as etcd takes."""
        batch: list[Op] = []
        size_bytes = 0
        for op in ops:
            if batch and (len(batch) == MAX_OPS or size_bytes + op.ByteSize() > MAX_BYTES):
                self.write(batch)
                batch, size_bytes = [], 0
            batch.append(op)
            size_bytes += op.ByteSize()
        if batch:
            self.write(batch)

    def release(self) -> None:
        with suppress(JournalError):
            self._client.write([created_at(self._key, self._created)], [delete(Reach(self._key))])


class Upkeep:
    def __init__(self, client: Client, keys: Keys, session: Session, holder: str) -> None:
        self._client = client
        self._keys = keys
        self._session = session
        self._holder = holder.encode()
        self._lock = Lock()

    @contextmanager
    def hold(self, name: bytes) -> Iterator[Hold]:
        """Raises JournalBusy if another process has it for too long."""
        key = self._keys.of_run(name, "upkeep")
        deadline = monotonic() + WAIT_S
        with self._lock:
            while (held := self._try(key)) is None:
                if monotonic() >= deadline:
                    raise JournalBusy(f"another process holds the key {said(key)} for more than {WAIT_S:g} s")
                sleep(PAUSE_S)
            try:
                yield held
            finally:
                held.release()

    def _try(self, key: bytes) -> Hold | None:
        lease = self._session.lease()
        mine = put(key, self._holder, lease)
        written = self._client.write([created_at(key, 0)], [mine], [get(Reach(key))])
        if written.succeeded:
            return Hold(self._client, key, written.revision)
        found = written.found[0]
        if found and found[0].lease == lease:  # our own, of a call whose answer was lost
            return Hold(self._client, key, found[0].create_revision)
        return None
