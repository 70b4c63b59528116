"""Between a host's wishes and a journal: carries out reads and writes, and turns exceptions into reports."""

from __future__ import annotations

import msgspec

from quoracy.core import shell
from quoracy.core.errors import JournalBusy, JournalError, JournalFull, JournalGap, OutcomeUnknown
from quoracy.core.snapshot import Snapshot
from quoracy.ports import Append, Conflict, Journal, Outcome, Saved, Segment

PAGE = 1000


def read_run(journal: Journal, run: str) -> tuple[Snapshot | None, list[bytes]]:
    """The newest snapshot and every entry after it."""
    saved = journal.load_snapshot(run)
    snapshot = None if saved is None else Snapshot(saved.n, saved.root, saved.pages)
    entries: list[bytes] = []
    first = 1 if saved is None else saved.n + 1
    while page := journal.read(run, first, PAGE):
        entries += page
        first += len(page)
    return snapshot, entries


def load(journal: Journal, run: str) -> shell.Report:
    try:
        return shell.Loaded(*read_run(journal, run))
    except JournalError as error:
        return shell.Broken(error.code, str(error))


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
    return _report(wish, outcome)


def _report(wish: shell.Append, outcome: Outcome) -> shell.Report:
    if isinstance(outcome, Conflict):
        return shell.Taken(wish.nonce, outcome.payload)
    return shell.Written(wish.nonce)


def append_all(journal: Journal, wishes: list[tuple[str, shell.Append]]) -> list[shell.Report]:
    """Wishes of different runs in one commit. If they cannot be written together, each is tried alone, so that one
    run's trouble is not another's."""
    if len(wishes) > 1:
        try:
            outcomes = journal.append([Append(run, wish.n, wish.payload) for run, wish in wishes])
        except (JournalGap, JournalFull, JournalBusy):
            pass
        except OutcomeUnknown:
            return [shell.Unknown(wish.nonce) for _, wish in wishes]
        except JournalError as error:
            return [shell.Broken(error.code, str(error)) for _ in wishes]
        else:
            return [_report(wish, outcome) for (_, wish), outcome in zip(wishes, outcomes, strict=True)]
    return [append(journal, run, wish) for run, wish in wishes]


def read_entry(journal: Journal, run: str, n: int) -> shell.Report:
    try:
        found = journal.read(run, n, 1)
    except JournalBusy:
        return shell.EntryRead(n, None)  # the same bytes are written again, which tells what is there
    except JournalError as error:
        return shell.Broken(error.code, str(error))
    return shell.EntryRead(n, found[0] if found else None)


def save(journal: Journal, run: str, snapshot: Snapshot) -> None:
    journal.save_snapshot(run, Saved(snapshot.n, snapshot.root, snapshot.pages))


class Retention(msgspec.Struct, frozen=True):
    """How much of a journal stays where: see ``host.segment_entries`` and ``host.keep_segments`` in the settings."""

    segment_entries: int = 10_000
    keep_segments: int | None = None


def archive(journal: Journal, run: str, covered: int, retention: Retention) -> Segment | None:
    """After a snapshot of the entries up to ``covered``: move the older half of what is hot into a segment, if that is
    enough to fill one."""
    segments = journal.segments(run)
    archived = segments[-1].last if segments else 0
    if covered - archived < 2 * retention.segment_entries:
        return None
    return journal.compact(run, covered - retention.segment_entries, retention.keep_segments)
