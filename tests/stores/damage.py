"""A journal worth damaging, everything that is in it, and what may be seen of it afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, settings

from quoracy.core.errors import JournalCorrupt, JournalNewer
from quoracy.ports import Append, Saved
from quoracy.stores import SqliteJournal

often = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SIZES = (1, 20, 300, 900, 1100, 3000, 4096, 5000, 9000, 20_000, 60, 70)
RUNS = ("alpha", "beta")
GONE_UPTO = 3


def build(directory: Path) -> SqliteJournal:
    """Two runs with entries of all sizes, deleted and kept segments, a snapshot. Still open."""
    dice = Random(5)
    journal = SqliteJournal(directory)
    for run in RUNS:
        for n, size_bytes in enumerate(SIZES, 1):
            journal.append([Append(run, n, dice.randbytes(size_bytes))])
        pages = {bytes([i]) * 32: dice.randbytes(900 * i + 1) for i in range(6)}
        journal.save_snapshot(run, Saved(8, dice.randbytes(200), pages))
        journal.compact(run, GONE_UPTO)
        journal.compact(run, 6, keep_segments=1)
        journal.append([Append(run, len(SIZES) + 1, dice.randbytes(50))])
    return journal


def everything(directory: Path, **how: bool) -> dict[str, object]:
    """All that can be read, or the error that says why not."""
    found: dict[str, object] = {}
    with closing(SqliteJournal(directory, create=False, **how)) as journal:
        for run in journal.runs():
            payloads: list[bytes] = []
            while more := journal.read(run, GONE_UPTO + 1 + len(payloads), 4):
                payloads += more
            found[run] = (journal.last(run), payloads, journal.load_snapshot(run), journal.segments(run))
    return found


def damaged(original: Path, directory: Path, name: str | Path, change: Callable[[bytearray], None]) -> Path:
    """A copy of the journal with one file changed."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(original, directory)
    content = bytearray((directory / name).read_bytes())
    change(content)
    (directory / name).write_bytes(content)
    return directory


def same_or_named(directory: Path, good: dict[str, object]) -> None:
    try:
        found = everything(directory)
    except (JournalCorrupt, JournalNewer):
        return
    assert found == good
