"""The journal over a bare key-value store, for runs that share nothing but such a store.

As durable as the store is. Several wishes in one call are written one after the other: a crash in between leaves the
first few of them, each a whole entry, and other handles may see the first before the last is there. A watch on the same
handle sees all of them or none.

An append that follows what this handle knows is one trip to the store, and so is reading on. A watch for the entry
after the newest that this handle knows asks for nothing before there is one; then it reads it, and hands it out to
whoever reads it next.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import nullcontext
from threading import Lock
from time import monotonic

from quoracy.core.errors import EntriesGone, JournalCorrupt, JournalGap, OutcomeUnknown
from quoracy.ports import MAX_ENTRY_BYTES, Append, Conflict, Outcome, Saved, Segment
from quoracy.ports.keyvalue import KeyValue
from quoracy.stores.keyvalue.entries import Entries
from quoracy.stores.keyvalue.keys import NONCE_BYTES
from quoracy.stores.keyvalue.meeting import KeyValueMeeting
from quoracy.stores.keyvalue.roll import Roll
from quoracy.stores.keyvalue.segments import ENTRIES_AT_ONCE, Segments
from quoracy.stores.keyvalue.session import PREFIX, Session
from quoracy.stores.keyvalue.snapshots import Snapshots
from quoracy.stores.keyvalue.steps import Exists, GetMany, Steps
from quoracy.stores.limits import bounded, decide, numbered

LOOK_AGAIN_S = 1.0
"""A watch waits for one key, which may come and be cleaned away while nobody looks."""


class KeyValueJournal:
    def __init__(self, store: KeyValue, prefix: str = PREFIX, store_id: bytes | None = None) -> None:
        self._session = Session(store, prefix, store_id)
        self._runs = Roll(f"{prefix}/runs")
        self._runs_entries: dict[str, Entries] = {}
        self._known: dict[str, int] = {}
        """An entry of each run that was there once: where to look for the end."""
        self._fetched: dict[str, tuple[int, bytes]] = {}
        """The entry of each run that a watch has read, for whoever reads it next."""
        self.meeting = KeyValueMeeting(self._session, self._entries, self._learn)
        self._batch = Lock()
        """Held while several entries are written, so that this handle's own watches do not wake up in between."""

    @property
    def store_id(self) -> bytes | None:
        """Which store this is. Keep it, to notice later that another one answers at the same address."""
        return self._session.store_id

    def runs(self) -> list[str]:
        return self._session.run(self._list_runs())

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        if len(wishes) == 1 and 1 <= self._known.get(wishes[0].run, 0) == wishes[0].n - 1:
            return self._session.run(self._append_next(wishes[0]))
        with self._batch if len(wishes) > 1 else nullcontext():
            return self._session.run(self._append(wishes))

    def last(self, run: str) -> int:
        return self._session.run(self._last(self._entries(run)))

    def read(self, run: str, first: int, limit: int = 1000) -> list[bytes]:
        numbered(first, 1, "an entry's number")
        numbered(limit, 0, "a limit")
        n, payload = self._fetched.pop(run, (0, b""))
        if n == first and limit == 1:
            self._session.check()
            return [payload]
        return self._session.run(self._read(self._entries(run), first, limit))

    def watch(self, run: str, after: int, timeout_s: float) -> int:
        entries, deadline = self._entries(run), monotonic() + timeout_s
        waits = self._known.get(run) == after
        while True:
            left_s = deadline - monotonic()
            if waits and left_s > 0 and self._fetch(entries, after, min(left_s, LOOK_AGAIN_S)):
                return after + 1
            with self._batch:
                last = self._session.run(self._last(entries))
            if last > after or deadline <= monotonic():
                return last
            waits = True

    def _fetch(self, entries: Entries, after: int, timeout_s: float) -> bool:
        """Wait for the next entry and read it. Whether it is there, and is the last."""
        found = self._session.fetch(entries.watched(after + 1, 2), timeout_s)
        if found[0] is None:
            return False
        with self._batch:  # perhaps one of this handle's own, of which another follows
            floor = entries.floor_of(found[2])
            if found[1] is not None or floor > after or self._known.get(entries.keys.run, 0) > after + 1:
                return False
            (payload,) = entries.judged(after + 1, found[:1], floor)
        self._fetched[entries.keys.run] = (self._learn(entries.keys.run, after + 1), payload)
        return True

    def save_snapshot(self, run: str, snapshot: Saved) -> None:
        last = self.last(run)
        if not 1 <= snapshot.n <= last:
            raise ValueError(f"run {run!r}: a snapshot of entry {snapshot.n}, but the last entry is {last}")
        self._session.run(Snapshots(self._session.keys(run)).save(snapshot))

    def load_snapshot(self, run: str) -> Saved | None:
        return self._session.run(Snapshots(self._session.keys(run)).load())

    def compact(self, run: str, upto: int, keep_segments: int | None = None) -> Segment | None:
        numbered(upto, 0, "an entry's number")
        numbered(keep_segments or 0, 0, "the number of segments to keep")
        return self._session.run(self._segments(run).compact(upto, keep_segments))

    def segments(self, run: str) -> list[Segment]:
        return self._session.run(self._segments(run).all())

    def close(self) -> None:
        self._fetched.clear()
        self._session.close()

    # -- the algorithms -----------------------------------------------------------------------------------------------

    def _list_runs(self) -> Steps[list[str]]:
        """The roll names a run before its first entry is created, so whether there is one has to be looked up."""
        names = yield from self._runs.names()
        firsts = yield GetMany(tuple(self._session.keys(run).entry(1) for run in names))
        found = [run for run, first in zip(names, firsts, strict=True) if first is not None]
        for run, first in zip(names, firsts, strict=True):
            if first is None and (yield from self._entries(run).floor()):
                found.append(run)
        return sorted(found)

    def _last(self, entries: Entries) -> Steps[int]:
        run = entries.keys.run
        return self._learn(run, (yield from entries.last(self._known.get(run, 0))))

    def _read(self, entries: Entries, first: int, limit: int) -> Steps[list[bytes]]:
        payloads: list[bytes] = []
        while len(payloads) < limit:
            count = min(ENTRIES_AT_ONCE, limit - len(payloads))
            try:
                found = yield from entries.read(first + len(payloads), count)
            except EntriesGone as gone:  # perhaps only what was asked for next, while this was reading
                raise EntriesGone(gone.run, first, gone.available) from None
            payloads += found
            if len(found) < count:
                break
        if payloads:
            self._learn(entries.keys.run, first + len(payloads) - 1)
        return payloads

    def _append_next(self, wish: Append) -> Steps[list[Outcome]]:
        """The same for one that follows what is known."""
        bounded(wish.payload, 1, MAX_ENTRY_BYTES, "an entry")
        outcome = yield from self._entries(wish.run).create(wish.n, wish.payload, secrets.token_bytes(NONCE_BYTES))
        self._learn(wish.run, wish.n)
        return [outcome]

    def _append(self, wishes: Sequence[Append]) -> Steps[list[Outcome]]:
        runs = {wish.run: self._entries(wish.run) for wish in wishes}
        lasts: dict[str, int] = {}
        for wish in wishes:
            if wish.run not in lasts:
                known = self._known.get(wish.run, 0)
                follows = 1 <= known == wish.n - 1
                lasts[wish.run] = known if follows else (yield from self._last(runs[wish.run]))
        try:
            verdicts = decide(wishes, lasts.__getitem__)
        except JournalGap:
            for run, entries in runs.items():  # or has somebody appended what seems to be missing?
                lasts[run] = yield from self._last(entries)
            verdicts = decide(wishes, lasts.__getitem__)
        batch = _Batch(runs)
        for wish, lost_to in zip(wishes, verdicts, strict=True):
            if 0 < lost_to <= lasts[wish.run]:  # raises EntriesGone, while nothing has been written yet
                yield from batch.look_up(wish.run, lost_to)
        outcomes: list[Outcome] = []
        for wish, lost_to in zip(wishes, verdicts, strict=True):
            if wish.n == 1 and not lost_to:
                yield from self._runs.enter(wish.run)
            outcome = yield from batch.grant(wish, lost_to)
            self._learn(wish.run, outcome.n)
            outcomes.append(outcome)
        return outcomes

    def _learn(self, run: str, n: int) -> int:
        if n > self._known.get(run, 0):
            self._known[run] = n
        return n

    def _entries(self, run: str) -> Entries:
        known = self._runs_entries.get(run)
        if known is None:
            known = self._runs_entries[run] = Entries(self._session.keys(run))
        return known

    def _segments(self, run: str) -> Segments:
        keys = self._session.keys(run)
        return Segments(Entries(keys), Snapshots(keys))


class _Batch:
    """The wishes of one call, written one after the other."""

    def __init__(self, runs: dict[str, Entries]) -> None:
        self._runs = runs
        self._there: dict[tuple[str, int], bytes] = {}
        self._lost: dict[str, Conflict] = {}
        self._written = False

    def look_up(self, run: str, n: int) -> Steps[bytes]:
        if (run, n) not in self._there:
            found = yield from self._runs[run].read(n, 1)
            if not found:
                raise JournalCorrupt(run, n, 0, "the entry is missing", self._runs[run].keys.entry(n))
            self._there[run, n] = found[0]
        return self._there[run, n]

    def grant(self, wish: Append, lost_to: int) -> Steps[Outcome]:
        try:
            if wish.run in self._lost:
                return (yield from self._behind(wish))
            if lost_to:
                return Conflict(lost_to, (yield from self.look_up(wish.run, lost_to)))
            outcome = yield from self._runs[wish.run].create(wish.n, wish.payload, secrets.token_bytes(NONCE_BYTES))
        except EntriesGone as gone:
            if self._written:
                raise OutcomeUnknown(f"{gone}; other entries of this call were written") from gone
            raise
        if isinstance(outcome, Conflict):
            self._lost[wish.run] = outcome
        else:
            self._written = True
        self._there[wish.run, wish.n] = outcome.payload if isinstance(outcome, Conflict) else wish.payload
        return outcome

    def _behind(self, wish: Append) -> Steps[Outcome]:
        """Behind a wish that lost a race: nothing is written, but somebody else may have taken this number too."""
        if (yield Exists(self._runs[wish.run].keys.entry(wish.n))):
            return Conflict(wish.n, (yield from self.look_up(wish.run, wish.n)))
        return self._lost[wish.run]
