"""How fast events become durable with group commit, and how fast a journal is opened again.

Sixty-four workers, each with one command under way, against a host on SQLite with ``synchronous=FULL``: what arrives
while a commit is under way goes into the next entry. Beside it, in the same directory: bare fsyncs.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from quoracy.bench.fold import make_journal
from quoracy.bench.load import RUN, Crew
from quoracy.core.kinds import KINDS
from quoracy.core.run import fold
from quoracy.core.shell import Loaded
from quoracy.hosts import InlineHost, carry
from quoracy.ports import Append, Outcome
from quoracy.report import Measurement, Report
from quoracy.stores import SqliteJournal

WORKERS = 64
SECONDS = 4.0
OPEN_EVENTS = 100_000


def bench_journal() -> Report:
    with tempfile.TemporaryDirectory(prefix="quoracy-bench-", dir=Path.cwd()) as folder:
        fsync_us = sorted(fsyncs_us(Path(folder) / "fsync"))[100]
        events, entries, seconds, stored_s = _commit(Path(folder) / "commit")
        opened = _open(Path(folder) / "open")
    commit_us = seconds / entries * 1e6
    note = (
        f"{WORKERS} workers with one command each: {events:,} events in {entries:,} durable entries, "
        f"{events / entries:.0f} events an entry. One takes {commit_us:.0f} us; a bare fsync takes {fsync_us:.0f}. "
        f"The limit: for {stored_s / seconds:.0%} of the time SQLite writes and waits for the disk, the rest is "
        "deciding and encoding in Python. Opening is the fold; reading is small beside it."
    )
    beside = f"bare fsync: {1e6 / fsync_us:,.0f}/s"
    folding = f"folding alone: {opened[1]:.3f} s"
    return Report(
        "bench journal",
        measurements=[
            Measurement("journal_events_per_s", round(events / seconds), "events/s", 20_000, against=beside),
            Measurement("journal_entries_per_s", round(entries / seconds), "entries/s"),
            Measurement("journal_commit_vs_fsync", round(commit_us / fsync_us, 2), "x one bare fsync"),
            Measurement("journal_open_s", round(opened[0], 3), "s", 1.0, "at most", folding),
        ],
        notes=[note],
    )


def fsyncs_us(path: Path) -> list[float]:
    """Two hundred of them, each after a page is written."""
    times = []
    with path.open("wb") as file:
        for _ in range(200):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return [seconds * 1e6 for seconds in times]


class _Timed(SqliteJournal):
    """Knows how long others have waited for it."""

    stored_s = 0.0

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        began = time.perf_counter()
        try:
            return super().append(wishes)
        finally:
            self.stored_s += time.perf_counter() - began


def _commit(folder: Path) -> tuple[int, int, float, float]:
    """Events, entries, seconds, and how many of these were spent in the store."""
    journal = _Timed(folder)
    try:
        host = InlineHost(journal, RUN)
        host.create("cluster", {})
        crew = Crew(WORKERS)
        host.exchange(crew.join())
        host.exchange(crew.ready())
        first = journal.last(RUN)
        journal.stored_s = 0.0
        events = 0
        began = time.perf_counter()
        while (seconds := time.perf_counter() - began) < SECONDS:
            said = list(crew.work())
            for i in range(0, len(said), WORKERS):
                host.exchange(said[i : i + WORKERS])
            events += 2 * WORKERS + 1
        return events, journal.last(RUN) - first, seconds, journal.stored_s
    finally:
        journal.close()


def _open(folder: Path) -> tuple[float, float]:
    """Seconds to open the store, read everything and fold it, with no snapshot to help; and to fold alone."""
    entries, _ = make_journal(OPEN_EVENTS)
    journal = SqliteJournal(folder)
    for i in range(0, len(entries), 500):
        journal.append([Append(RUN, i + k + 1, payload) for k, payload in enumerate(entries[i : i + 500])])
    journal.close()
    began = time.perf_counter()
    journal = SqliteJournal(folder)
    try:
        loaded = carry.load(journal, RUN)
        if not isinstance(loaded, Loaded):
            raise TypeError(f"the journal could not be read: {loaded}")
        fold(KINDS, RUN, loaded.entries)
        open_s = time.perf_counter() - began
    finally:
        journal.close()
    began = time.perf_counter()
    fold(KINDS, RUN, entries)
    return open_s, time.perf_counter() - began
