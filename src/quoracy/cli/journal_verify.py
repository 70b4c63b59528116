"""Whether a journal is what was written: seals, numbers, the chain of digests, signatures of joins, the fold and its
state digests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from quoracy.cli.journal_source import PAGE, Source
from quoracy.core.codec import digest
from quoracy.core.errors import JournalCorrupt, QuoracyError
from quoracy.core.journal import decode_created, decode_entry
from quoracy.core.kinds import READABLE
from quoracy.core.run import Run
from quoracy.trust import check_proof

KINDS = READABLE.verified_by(check_proof)
"""Folding checks that every join was signed."""

_events = msgspec.msgpack.Decoder(list[msgspec.Raw])


class Checked(msgspec.Struct):
    """A run in which nothing is wrong."""

    run: str
    kind: str
    first: int
    last: int
    events: int
    archived: int
    snapshot: int
    """The entry the snapshot stands for; 0 if there is none."""
    folded: bool
    """False if the beginning is not there, so that only the chain could be checked."""


class Damaged(msgspec.Struct):
    """The first thing that is wrong with a run, or with the whole store if ``run`` is empty."""

    code: str
    run: str
    entry: int
    offset: int
    where: str
    what: str

    @classmethod
    def of(cls, error: QuoracyError, run: str = "") -> Damaged:
        if isinstance(error, JournalCorrupt):
            return cls(error.code, error.run or run, error.entry, error.offset, error.where, error.what)
        return cls(error.code, run, 0, 0, "", str(error))

    def sentence(self) -> str:
        if self.code != "journal_corrupt":
            return self.what
        which = f"run {self.run!r}: " if self.run else ""
        entry = f"entry {self.entry}, " if self.entry else ""
        return f"{which}{entry}offset {self.offset} of {self.where or 'the journal'}: {self.what}"


class Verdict(msgspec.Struct):
    checked: list[Checked]
    damages: list[Damaged]

    def ok(self) -> bool:
        return not self.damages

    def facts(self) -> dict[str, Any]:
        return {
            "runs": [msgspec.structs.asdict(run) for run in self.checked],
            "entries": sum(run.last - run.first + 1 for run in self.checked),
            "events": sum(run.events for run in self.checked),
            "damage": msgspec.structs.asdict(self.damages[0]) if self.damages else None,
            "damages": [msgspec.structs.asdict(damage) for damage in self.damages],
        }


def verify(source: Source, run: str | None = None) -> Verdict:
    """All runs, or one. A damaged run does not keep the others from being checked."""
    verdict = Verdict([], [])
    try:
        runs = source.runs() if run is None else [run]
    except QuoracyError as error:
        return Verdict([], [Damaged.of(error)])
    for each in runs:
        try:
            verdict.checked.append(check_run(source, each))
        except QuoracyError as error:
            verdict.damages.append(Damaged.of(error, each))
    if run is None:
        try:
            source.verify()
        except JournalCorrupt as error:
            if not verdict.damages:
                verdict.damages.append(Damaged.of(error))
    return verdict


def check_run(source: Source, run: str) -> Checked:
    """Raises JournalCorrupt, FoldDiverged or UnknownRules at the first thing that is wrong."""
    first, last = source.first(run), source.last(run)
    saved = source.snapshot(run)
    restored = Run.restore(KINDS, run, saved.n, saved.root, saved.pages) if saved else None
    folding = None
    events, n, before = 0, first - 1, None
    for n, payload in _entries(source, run, first):
        if first == 1:
            folding = folding or Run.create(KINDS, decode_created(decode_entry(payload, run, 1)))
        elif restored is not None and saved is not None and n == saved.n + 1:
            folding = restored
        if folding is not None:
            events += len(folding.extend(payload)[1])
        else:
            events += _check_link(payload, run, n, before)
        before = digest(payload)
        if saved is not None and restored is not None and n == saved.n:
            _check_snapshot(run, saved.n, before, restored, folding, saved.root)
    if n != last:
        raise JournalCorrupt(run, n + 1, 0, f"the run is said to end at {last}", str(source.path))
    run_now = folding or restored
    kind = f"{run_now.head.kind} {run_now.head.rules}" if run_now else ""
    return Checked(run, kind, first, last, events, source.archived(run), saved.n if saved else 0, run_now is not None)


def _entries(source: Source, run: str, first: int) -> Iterator[tuple[int, bytes]]:
    n = first
    while page := source.read(run, n, PAGE):
        for payload in page:
            yield n, payload
            n += 1


def _check_link(payload: bytes, run: str, n: int, before: bytes | None) -> int:
    """An entry whose beginning is gone: it must still fit the one before. Returns how many events it holds."""
    entry = decode_entry(payload, run, n)
    if before is not None and entry.prev != before:
        raise JournalCorrupt(run, n, 0, "the digest of the entry before does not fit", "the entry")
    return len(_events.decode(entry.events))


def _check_snapshot(run: str, n: int, before: bytes, restored: Run, folding: Run | None, root: bytes) -> None:
    if restored.head.digest != before:
        raise JournalCorrupt(
            run, n, 0, "the snapshot continues another entry than the one that is there", "the snapshot"
        )
    if folding is not None and folding.snapshot().root != root:
        raise JournalCorrupt(run, n, 0, "the snapshot is not the state that the entries make", "the snapshot")
