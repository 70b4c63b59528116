"""Runs algorithms against a real store, and notices when it is not the store it was."""

from __future__ import annotations

import secrets
from typing import Any

from quoracy.core.errors import JournalNewer, OutcomeUnknown
from quoracy.ports.keyvalue import KeyValue, Look, StoreLost, Unreachable
from quoracy.stores.keyvalue.keys import MAX_PREFIX_BYTES, RunKeys, Sealed, checked_key
from quoracy.stores.keyvalue.steps import Step, Steps, T, changes, perform

FORMAT = 1
"""What the keys and values look like: see ``keys``."""
ID_BYTES = 16
PREFIX = "quoracy"


class Session:
    """One store, as one handle uses it. ``store_id`` is drawn by whoever opens an empty store first. A store that
    answers with another one, or with none, has lost its memory; this handle is of no use then, for ever.

    Whoever knows from before which store it wants passes ``store_id``: a new process cannot tell an empty store from
    one that forgot everything."""

    def __init__(self, store: KeyValue, prefix: str = PREFIX, store_id: bytes | None = None) -> None:
        self.store = store
        self.prefix = checked_key(prefix)
        if len(prefix) > MAX_PREFIX_BYTES:
            raise ValueError(f"a prefix has at most {MAX_PREFIX_BYTES} characters, this one has {len(prefix)}")
        self._key = f"{prefix}/store"
        self._sealed = Sealed("store")
        self._lost: str | None = None
        self._runs: dict[str, RunKeys] = {}
        try:
            found = store.get(self._key)
            if found is None and store_id is None:
                found = store.create(self._key, self._sealed.seal(b"%d " % FORMAT + secrets.token_bytes(ID_BYTES)))
            self._found = found
            self.store_id = self._identify(found)
            if store_id not in (None, self.store_id):
                raise StoreLost(_not_that_one(self._key, store_id, self.store_id))
            store.guard(self._check)
        except BaseException:
            store.close()
            raise

    def run(self, steps: Steps[T]) -> T:
        """Once anything was changed, *nothing was done* is no true answer any more: then it is OutcomeUnknown."""
        done: list[Step] = []
        answer: Any = None
        try:
            while True:
                step = steps.send(answer)
                self.check()
                answer = perform(self.store, step)
                done.append(step)
        except StopIteration as over:
            result: T = over.value
            return result
        except Unreachable as error:
            if any(map(changes, done)):
                raise OutcomeUnknown(f"{error}; a part of it was done") from error
            raise
        except StoreLost as error:
            self._lost = str(error)
            raise

    def fetch(self, keys: tuple[str, ...], timeout_s: float) -> list[bytes | None]:
        self.check()
        try:
            return self.store.fetch(keys, timeout_s)
        except StoreLost as error:
            self._lost = str(error)
            raise

    def wait_either(self, key: str, other: str, timeout_s: float) -> str | None:
        self.check()
        try:
            return self.store.wait_either(key, other, timeout_s)
        except StoreLost as error:
            self._lost = str(error)
            raise

    def check(self) -> None:
        """Raises StoreLost if it was lost before."""
        if self._lost is not None:
            raise StoreLost(self._lost)

    def keys(self, run: str) -> RunKeys:
        known = self._runs.get(run)
        if known is None:
            known = self._runs[run] = RunKeys(self.prefix, run)
        return known

    def close(self) -> None:
        self.store.close()

    def _check(self, look: Look) -> None:
        found = look(self._key)
        if found != self._found:
            self._lost = _not_that_one(self._key, self.store_id, self._identify(found))
            raise StoreLost(self._lost)

    def _identify(self, found: bytes | None) -> bytes | None:
        if found is None:
            return None
        version, _, store_id = self._sealed.open(found, self._key).partition(b" ")
        if int(version) > FORMAT:
            raise JournalNewer(
                f"the store has format {int(version)}, this Quoracy reads up to {FORMAT}: use a newer one"
            )
        return store_id


def _not_that_one(key: str, wanted: bytes | None, found: bytes | None) -> str:
    there = f"is {found.hex()} now" if found else "is missing"
    return (
        f"store_lost: {key} was {wanted.hex() if wanted else 'missing'} and {there}: the store lost its memory, or "
        "another one has its address; this process must not write again"
    )
