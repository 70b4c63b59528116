"""How fast a journal is folded, in one thread: decoding, checking the chain, every rule of every event."""

from __future__ import annotations

import time
from collections.abc import Callable

from quoracy.bench.load import RUN, Crew
from quoracy.core.cluster.kind import KIND
from quoracy.core.journal import decode_entry, recorded_decoder
from quoracy.core.kinds import KINDS
from quoracy.core.run import fold
from quoracy.hosts import InlineHost
from quoracy.report import Measurement, Report
from quoracy.stores import MemoryJournal

EVENTS = 200_000
TARGET_PER_S = 150_000
REPEATS = 5


def make_journal(events: int) -> tuple[list[bytes], int]:
    """A journal of at least so many events, as a host writes it."""
    journal = MemoryJournal()
    host = InlineHost(journal, RUN)
    host.create("cluster", {})
    crew = Crew(8)
    host.exchange(crew.join())
    host.exchange(crew.ready())
    rounds = events // (2 * len(crew.names) + 1) + 1
    for _ in range(rounds):
        host.exchange(crew.work())
    entries = [payload for first in range(1, journal.last(RUN) + 1, 1000) for payload in journal.read(RUN, first)]
    decoder = recorded_decoder(KIND.events)
    count = sum(len(decoder.decode(decode_entry(p, RUN, n).events)) for n, p in enumerate(entries, start=1))
    return entries, count


def bench_fold() -> Report:
    entries, events = make_journal(EVENTS)
    decoder = recorded_decoder(KIND.events)

    def decode_only() -> None:
        for n, payload in enumerate(entries, start=1):
            decoder.decode(decode_entry(payload, RUN, n).events)

    fold_s = min(_timed(lambda: fold(KINDS, RUN, entries)) for _ in range(REPEATS))
    decode_s = min(_timed(decode_only) for _ in range(REPEATS))
    per_s, limit_per_s = events / fold_s, events / decode_s
    beside = f"decoding alone: {limit_per_s:,.0f} events/s"
    note = (
        f"{events:,} events in {len(entries):,} entries, the best of {REPEATS} folds. "
        "The limit is the interpreter: by a profile about 22 calls per event, none of which stands out."
    )
    return Report(
        "bench fold",
        measurements=[
            Measurement("fold_events_per_s", round(per_s), "events/s", TARGET_PER_S, against=beside),
            Measurement("fold_vs_decode", round(per_s / limit_per_s, 3), "of decoding speed"),
        ],
        notes=[note],
    )


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
