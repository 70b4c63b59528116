"""The journal in etcd: for servers on several machines.

One key for each entry, and one *head* for each run that holds the number of the newest. An append is one transaction:
if nobody has written the head since we read it, and there is no such entry, write both. Whoever loses is handed the
head that is there, and decides again. So exactly one of several writers gets entry n, wherever they are.

``append`` with more wishes than one transaction can take writes several, in order. If one in the middle fails the
earlier ones are there, so all of them are called unknown: whoever appended reads what is there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Final, NamedTuple, TypeVar

from quoracy.config.etcd_url import EtcdAddress
from quoracy.core.errors import JournalCorrupt, JournalError, JournalGap, OutcomeUnknown
from quoracy.ports import Append, Appended, Conflict, Outcome, Saved, Segment
from quoracy.stores.etcd.client import CALL_S, MAX_BYTES, MAX_OPS, PATIENCE_S, Compacted
from quoracy.stores.etcd.keys import said
from quoracy.stores.etcd.segments import Segments
from quoracy.stores.etcd.session import Session
from quoracy.stores.etcd.snapshots import Snapshots
from quoracy.stores.etcd.store import Store
from quoracy.stores.etcd.tide import Tide
from quoracy.stores.etcd.upkeep import Upkeep
from quoracy.stores.etcd.words import KeyValue, Op, Reach, created_at, get, put, unchanged, under
from quoracy.stores.limits import decide, numbered, run_name

TRIES: Final = 10
"""How often a read begins again because etcd compacted its history away under it."""
SLACK_BYTES: Final = 2048
"""What an entry costs in a transaction beyond its payload: keys, seals, compares."""

T = TypeVar("T")


class Head(NamedTuple):
    last: int = 0
    """The newest entry; 0 if there is none."""
    revision: int = 0
    """Of the key, when it was last written; 0 if it is not there."""


class EtcdJournal:
    lock_lapses: Final = True
    """Unlike a lock of the operating system this one can be lost while its holder lives."""

    def __init__(
        self,
        url: str | EtcdAddress,
        *,
        ca: str = "",
        cert: str = "",
        key: str = "",
        call_s: float = CALL_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """``url`` as ``etcd://host:port,host:port/prefix``, or ``etcds://`` with the file of the authority to believe,
        and a certificate with its key if etcd asks for one. ``call_s``: how long an append may take before its outcome
        counts as unknown. ``patience_s``: how long members are tried in turn before JournalBusy is raised."""
        self._store = Store(url, ca=ca, cert=cert, key=key, call_s=call_s, patience_s=patience_s)
        self._client, self._keys = self._store.client, self._store.keys
        self._holder = f"{socket.gethostname()} process {os.getpid()}"
        self._session = Session(self._client)
        upkeep = Upkeep(self._client, self._keys, self._session, self._holder)
        self._snapshots = Snapshots(self._client, self._keys, upkeep)
        self._segments = Segments(self._client, self._keys, upkeep, self._snapshots)
        self._tide = Tide(self._client, under(self._keys.heads))
        self._heads: dict[str, Head] = {}
        self._appending = Lock()
        self._locking = Lock()
        self._locked = 0

    def runs(self) -> list[str]:
        self._client.check_open()
        return self._again(self._runs)

    def _runs(self) -> list[str]:
        revision = self._client.read(Reach(self._keys.schema, keys_only=True)).revision
        found = self._client.scan(under(self._keys.heads), revision)
        return sorted(self._name_of(kv) for kv in found)

    def _name_of(self, kv: KeyValue) -> str:
        name = self._keys.last_step(kv.key).decode()
        self._head(name, kv)
        return name

    # -- appending --------------------------------------------------------------------------------------------------

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        self._client.check_open()
        outcomes: dict[int, Outcome] = {}
        with self._appending:
            pending = list(range(len(wishes)))
            while pending:
                try:
                    pending = self._append_some(wishes, pending, outcomes)
                except JournalError as error:
                    if not any(isinstance(outcome, Appended) for outcome in outcomes.values()):
                        raise
                    raise OutcomeUnknown(f"only some of {len(wishes)} wishes were written: {error}") from error
        return [outcomes[which] for which in range(len(wishes))]

    def _append_some(self, wishes: Sequence[Append], pending: list[int], outcomes: dict[int, Outcome]) -> list[int]:
        """One transaction. What can be answered now is put into ``outcomes``; returns what is left to do."""
        verdicts = self._decide([wishes[which] for which in pending])
        granted, left = [], []
        for which, lost_to in zip(pending, verdicts, strict=True):
            wish = wishes[which]
            if not lost_to:
                granted.append(which)
            elif lost_to <= self._heads[wish.run].last:
                outcomes[which] = Conflict(lost_to, self.read(wish.run, lost_to, 1)[0])
            else:
                left.append(which)  # lost to a wish of this very call: told when that one is there
        batch = _fitting(wishes, granted)
        if batch and self._write([wishes[which] for which in batch]):
            outcomes.update({which: Appended(wishes[which].n) for which in batch})
            return sorted(left + granted[len(batch) :])
        return sorted(left + granted)

    def _decide(self, wishes: list[Append]) -> list[int]:
        """By what we know, unless that says anything but yes: then by what is there now."""
        names = {wish.run: run_name(wish.run) for wish in wishes}
        unknown = {run: name for run, name in names.items() if run not in self._heads}
        self._learn(unknown)
        try:
            verdicts = decide(wishes, lambda run: self._heads[run].last)
        except JournalGap:
            verdicts = [1]
        if any(verdicts) and len(unknown) < len(names):
            self._learn(names)
        return decide(wishes, lambda run: self._heads[run].last) if any(verdicts) else verdicts

    def _learn(self, names: dict[str, bytes]) -> None:
        """Read the heads of these runs."""
        runs = list(names)
        for begin in range(0, len(runs), MAX_OPS):
            some = runs[begin : begin + MAX_OPS]
            seen = self._client.read(*(Reach(self._keys.head(names[run])) for run in some))
            for which, run in enumerate(some):
                self._heads[run] = self._head(run, seen.one(which))

    def _write(self, wishes: list[Append]) -> bool:
        """Whether they are there now; if not, somebody else was faster, and the heads are read anew."""
        compares, puts, asked = [], [], []
        last: dict[str, int] = {}
        for wish in wishes:
            key = self._keys.entry(run_name(wish.run), wish.n)
            if wish.run not in last:
                head = self._keys.head(run_name(wish.run))
                asked.append(get(Reach(head)))
                compares += [unchanged(head, self._heads[wish.run].revision), created_at(key, 0)]
            puts.append(put(key, self._keys.wrap(key, wish.payload)))
            last[wish.run] = wish.n
        written = self._client.write(compares, [*puts, *(self._put_head(run, n) for run, n in last.items())], asked)
        if written.succeeded:
            self._heads.update({run: Head(n, written.revision) for run, n in last.items()})
            return True
        before = {run: self._heads[run] for run in last}
        for run, found in zip(last, written.found, strict=True):
            self._heads[run] = self._head(run, found[0] if found else None)
        if all(self._heads[run] == head for run, head in before.items()):
            run = next(iter(last))
            beyond = before[run].last + 1
            what = f"the run is said to end at {beyond - 1}, but there is more"
            raise JournalCorrupt(run, beyond, 0, what, f"the key {said(self._keys.head(run_name(run)))}")
        return False

    def _put_head(self, run: str, n: int) -> Op:
        key = self._keys.head(run_name(run))
        return put(key, self._keys.wrap(key, b"%d" % n))

    def _head(self, run: str, kv: KeyValue | None) -> Head:
        if kv is None:
            return Head()
        text = self._keys.unwrap(kv.key, kv.value, run)
        return Head(int(text), kv.mod_revision)

    # -- reading ----------------------------------------------------------------------------------------------------

    def last(self, run: str) -> int:
        self._client.check_open()
        key = self._keys.head(run_name(run))
        return self._head(run, self._client.read(Reach(key)).one(0)).last

    def read(self, run: str, first: int, limit: int = 1000) -> list[bytes]:
        self._client.check_open()
        name = run_name(run)
        numbered(first, 1, "an entry's number")
        numbered(limit, 0, "a limit")
        return self._again(lambda: self._read(run, name, first, limit)) if limit else []

    def _read(self, run: str, name: bytes, first: int, limit: int) -> list[bytes]:
        keys = self._keys
        entries = under(keys.of_run(name, "entries", ""))
        beyond = Reach(keys.entry(name, first), entries.end, 1, keys_only=limit > 1)
        seen = self._client.read(Reach(keys.head(name)), Reach(keys.of_run(name, "hot")), beyond)
        head = self._head(run, seen.one(0))
        last = min(head.last, first + limit - 1)
        if first > last:
            if seen.found[2]:
                what = f"the run is said to end at {head.last}, but there is more"
                raise JournalCorrupt(run, first, 0, what, f"the key {said(keys.head(name))}")
            return []
        hot = self._segments.hot(run, seen.one(1))
        next_one = seen.one(2)
        if limit == 1 and first >= hot and next_one is not None and next_one.key == keys.entry(name, first):
            return [keys.unwrap(next_one.key, next_one.value, run, first)]
        payloads: list[bytes] = []
        if first < hot:
            payloads = self._segments.read(run, name, first, min(last, hot - 1), hot, seen.revision)
        if last >= hot:
            payloads += self._segments.entries(run, name, max(first, hot), last, seen.revision)
        return payloads

    def watch(self, run: str, after: int, timeout_s: float) -> int:
        deadline = monotonic() + timeout_s
        while True:
            level = self._tide.level()
            last = self.last(run)
            left_s = deadline - monotonic()
            if last > after or left_s <= 0:
                return last
            self._tide.wait(level, left_s)

    # -- snapshots and segments -------------------------------------------------------------------------------------

    def save_snapshot(self, run: str, snapshot: Saved) -> None:
        name, last = run_name(run), self.last(run)
        if not 1 <= snapshot.n <= last:
            raise ValueError(f"run {run!r}: a snapshot of entry {snapshot.n}, but the last entry is {last}")
        self._again(lambda: self._snapshots.save(run, name, snapshot))

    def load_snapshot(self, run: str) -> Saved | None:
        self._client.check_open()
        name = run_name(run)
        return self._again(lambda: self._snapshots.load(run, name))

    def compact(self, run: str, upto: int, keep_segments: int | None = None) -> Segment | None:
        self._client.check_open()
        name = run_name(run)
        numbered(upto, 0, "an entry's number")
        numbered(keep_segments or 0, 0, "the number of segments to keep")
        return self._again(lambda: self._segments.compact(run, name, upto, keep_segments))

    def segments(self, run: str) -> list[Segment]:
        self._client.check_open()
        name = run_name(run)
        return self._again(lambda: self._segments.all(run, name))

    def _again(self, look: Callable[[], T]) -> T:
        """etcd forgets old revisions; a read that takes so long begins again with a newer one."""
        for _ in range(TRIES):
            try:
                return look()
            except Compacted as error:
                why = str(error)
        raise JournalError(f"etcd at {self._client.address} compacts faster than this can be read: {why}")

    # -- among hosts ------------------------------------------------------------------------------------------------

    def try_lock(self) -> bool:
        """Become the only host that serves this prefix, or see whether we still are. Appending does not need it: it is
        a promise among hosts, and ends by itself a few seconds after its holder died or was cut off. Asks nobody
        while we hold it; else it takes as long as any other call."""
        self._client.check_open()
        with self._locking:
            if self._locked and self._session.alive(self._locked):
                return True
            self._locked = 0
            lease, key = self._session.lease(), self._keys.serving
            mine = put(key, self._holder.encode(), lease)
            written = self._client.write([created_at(key, 0)], [mine], [get(Reach(key))])
            ours = written.succeeded or any(kv.lease == lease for kv in written.found[0])
            self._locked = lease if ours else 0
            return ours

    def lock_holder(self) -> str:
        """Machine and process id of whoever has the lock now."""
        found = self._client.read(Reach(self._keys.serving)).one(0)
        return found.value.decode(errors="replace") if found else ""

    def shared_secret(self, make: Callable[[], bytes]) -> bytes:
        """The same bytes for all hosts on this prefix: what ``make`` gave to the first of them."""
        key = self._keys.secret
        found = self._client.read(Reach(key)).one(0)
        if found is None:
            mine = self._keys.wrap(key, make())
            written = self._client.write([created_at(key, 0)], [put(key, mine)], [get(Reach(key))])
            if written.succeeded:
                return self._keys.unwrap(key, mine)
            found = written.found[0][0]
        return self._keys.unwrap(key, found.value)

    def close(self) -> None:
        self._tide.close()
        self._session.close()
        self._store.close()


def _fitting(wishes: Sequence[Append], granted: list[int]) -> list[int]:
    """As many of them, from the front, as one transaction takes: an operation for each, and one for each run."""
    runs: set[str] = set()
    size_bytes = 0
    for count, which in enumerate(granted):
        runs.add(wishes[which].run)
        size_bytes += len(wishes[which].payload) + 4 * len(wishes[which].run.encode()) * 3 + SLACK_BYTES
        if count and (count + 1 + len(runs) > MAX_OPS or size_bytes > MAX_BYTES):
            return granted[:count]
    return granted
