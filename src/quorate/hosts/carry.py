"""Between a host's wishes and a journal: carries out reads and writes, and turns exceptions into reports."""

from __future__ import annotations

from quorate.core import shell
from quorate.core.errors import JournalBusy, JournalError, JournalFull, JournalGap, OutcomeUnknown
from quorate.core.snapshot import Snapshot
from quorate.ports import Append, Conflict, Journal, Saved

PAGE = 1000


def load(journal: Journal, run: str) -> shell.Report:
    """The newest snapshot and every entry after it."""
    try:
        saved = journal.load_snapshot(run)
        snapshot = None if saved is None else Snapshot(saved.n, saved.root, saved.pages)
        entries: list[bytes] = []
        first = 1 if saved is None else saved.n + 1
        while page := journal.read(run, first, PAGE):
            entries += page
            first += len(page)
    except JournalError as error:
        return shell.Broken(error.code, str(error))
    return shell.Loaded(snapshot, entries)


def append(journal: Journal, run: str, wish: shell.Append) -> shell.Report:
    try:
        (outcome,) = journal.append([Append(run, wish.n, wish.payload)])
    except OutcomeUnknown:
        return shell.Unknown(wish.nonce)
    except (JournalFull, JournalBusy) as error:
        return shell.Delayed(wish.nonce, str(error), error.code)
    except JournalGap:
        return shell.Unknown(wish.nonce)
    except JournalError as error:
        return shell.Broken(error.code, str(error))
    if isinstance(outcome, Conflict):
        return shell.Taken(wish.nonce, outcome.payload)
    return shell.Written(wish.nonce)


def read_entry(journal: Journal, run: str, n: int) -> shell.Report:
    try:
        found = journal.read(run, n, 1)
    except JournalError as error:
        return shell.Broken(error.code, str(error))
    return shell.EntryRead(n, found[0] if found else None)


def save(journal: Journal, run: str, snapshot: Snapshot) -> None:
    journal.save_snapshot(run, Saved(snapshot.n, snapshot.root, snapshot.pages))
