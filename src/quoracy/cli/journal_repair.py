"""What can be saved of a damaged journal, decided by the chain of digests.

Every entry holds the digest of the one before, so an entry that was lost can be taken from an export if it fits on both
sides, and nothing else can stand in its place. There is no way across a gap: later entries were decided on top of the
missing one. Except by a snapshot: entries behind it need only the snapshot, so a run whose old history is damaged goes
on, and that history is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import msgspec

from quoracy.core.codec import NO_DIGEST, digest
from quoracy.core.errors import ConfigError, JournalBusy, JournalError, QuoracyError
from quoracy.core.journal import decode_entry
from quoracy.core.kinds import READABLE as KINDS
from quoracy.core.run import Head, Run
from quoracy.core.snapshot import unpack
from quoracy.ports import Saved, Segment
from quoracy.stores.durable import Lock, write_durably
from quoracy.stores.segment import encode_end, encode_header, encode_record, salvage, scan
from quoracy.stores.sqlite.rebuild import KeptRun, aside, put_in_place, rebuild
from quoracy.stores.sqlite.salvage import FoundRun, Salvage

Candidates = Callable[[int], list[bytes]]
"""The payloads that may be entry n, the best first."""


class RunPlan(msgspec.Struct):
    """What becomes of one run. ``first`` > ``last`` means that nothing of it can be kept."""

    run: str
    first: int
    last: int
    restored: list[int]
    """Entries that come from the export."""
    lost: tuple[int, int] | None
    """Acknowledged entries that are gone, first and last."""
    forgotten: tuple[int, int] | None
    """Old entries that are gone, but which a snapshot stands for: the run goes on."""
    snapshot: int

    def loses(self) -> bool:
        return self.lost is not None or self.forgotten is not None

    def sentence(self) -> str:
        if self.first > self.last and not self.snapshot:
            return f"run {self.run!r}: nothing of it can be kept"
        parts = [f"run {self.run!r}: entries {self.first} to {self.last} are kept"]
        if self.restored:
            parts.append(f"from the export: {_ranges(self.restored)}")
        if self.forgotten:
            parts.append(f"entries {self.forgotten[0]} to {self.forgotten[1]} are gone; a snapshot stands for them")
        if self.lost:
            parts.append(f"entries {self.lost[0]} to {self.lost[1]} were acknowledged and are LOST")
        return "; ".join(parts)


def _ranges(numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for n in numbers:
        if spans and n == spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


# -- deciding ----------------------------------------------------------------------------------------------------------


def chain(run: str, first: int, before: bytes, candidates: Candidates, last: int) -> dict[int, bytes]:
    """Entries from ``first`` on, as long as one fits on the one before; at most up to ``last``. If two fit, the one
    that the next entry was decided on top of."""
    kept: dict[int, bytes] = {}
    for n in range(first, last + 1):
        fitting = [payload for payload in candidates(n) if _prev(payload, run, n) == before]
        if not fitting:
            break
        after = {_prev(payload, run, n + 1) for payload in candidates(n + 1)} if len(fitting) > 1 else set()
        kept[n] = next((payload for payload in fitting if digest(payload) in after), fitting[0])
        before = digest(kept[n])
    return kept


def chain_back(run: str, last: int, is_digest: bytes, candidates: Candidates) -> dict[int, bytes]:
    """Entries from ``last`` backwards, as long as one is what the entry behind it says it is."""
    kept: dict[int, bytes] = {}
    for n in range(last, 0, -1):
        fitting = next((payload for payload in candidates(n) if digest(payload) == is_digest), None)
        before = None if fitting is None else _prev(fitting, run, n)
        if fitting is None or before is None:
            break
        kept[n] = fitting
        is_digest = before
    return dict(sorted(kept.items()))


def _prev(payload: bytes, run: str, n: int) -> bytes | None:
    try:
        return decode_entry(payload, run, n).prev
    except JournalError:
        return None


def snapshot_digest(run: str, saved: Saved | None) -> bytes | None:
    """The digest of the entry that the snapshot stands for; None if there is no whole snapshot."""
    if saved is None:
        return None
    try:
        head = msgspec.convert(unpack(run, saved.n, saved.root, saved.pages)["head"], Head)
        Run.restore(KINDS, run, saved.n, saved.root, saved.pages)
    except (QuoracyError, KeyError, msgspec.MsgspecError):
        return None
    return head.digest


class Known(msgspec.Struct):
    """What a run was before the damage."""

    run: str
    began: int
    last: int
    snapshot: Saved | None


def best(known: Known, own: Candidates, export: dict[int, bytes]) -> tuple[RunPlan, dict[int, bytes], Saved | None]:
    """The longest life this run can have: what is planned, the entries of it, and its snapshot."""
    run, saved = known.run, known.snapshot

    def candidates(n: int) -> list[bytes]:
        return own(n) + ([export[n]] if n in export else [])

    until = max(known.last, *export, 0)
    kept = chain(run, 1, NO_DIGEST, candidates, until)
    stands_for = snapshot_digest(run, saved)
    if saved is not None and stands_for is not None and digest(kept.get(saved.n, b"")) != stands_for:
        behind = chain(run, saved.n + 1, stands_for, candidates, until)
        if saved.n + len(behind) > len(kept):
            kept = chain_back(run, saved.n, stands_for, candidates) | behind
        else:
            saved = None
    elif stands_for is None:
        saved = None
    ends = max(kept, default=saved.n if saved else 0)
    begins = min(kept, default=ends + 1)
    plan = RunPlan(
        run,
        begins,
        ends,
        [n for n, payload in kept.items() if payload not in own(n)],
        (ends + 1, known.last) if known.last > ends else None,
        (known.began, begins - 1) if known.began < begins and ends else None,
        saved.n if saved else 0,
    )
    return plan, kept, saved


# -- data directories --------------------------------------------------------------------------------------------------


def run_of(payload: bytes) -> str | None:
    """The run an entry says it belongs to."""
    try:
        return str(msgspec.msgpack.decode(payload)[1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, IndexError, KeyError):
        return None


class DirectoryRepair:
    """Use it as a context: it holds the serving lock, so that no host works on what is being repaired."""

    def __init__(self, directory: Path, export: Path | None) -> None:
        self.directory = directory
        self.plans: list[RunPlan] = []
        self._keep: list[KeptRun] = []
        self._lock = Lock(directory / "serving.lock")
        self._export = _exported(export)

    def __enter__(self) -> DirectoryRepair:
        if not self._lock.try_acquire():
            raise JournalBusy(f"process {self._lock.holder()} serves {self.directory}: stop it first")
        try:
            self._salvage = Salvage(self.directory, run_of)
            for name in sorted(self._salvage.runs.keys() | self._export.keys()):
                self._plan(self._salvage.runs.setdefault(name, FoundRun(name)))
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._salvage.close()
        self._lock.release()

    def _plan(self, found: FoundRun) -> None:
        name = found.name

        def own(n: int) -> list[bytes]:
            payload = self._salvage.entry(name, n)
            return [] if payload is None else [payload]

        known = Known(name, found.began, found.last, self._salvage.snapshot(name))
        plan, kept, saved = best(known, own, self._export.get(name, {}))
        self.plans.append(plan)
        if kept or saved:
            intact = _intact(found, kept)
            self._keep.append(KeptRun(name, plan.first, plan.last, intact, kept.__getitem__, saved))

    def carry_out(self) -> list[Path]:
        """Returns where the damaged files are now."""
        folder = self.directory / "repair.new"
        if folder.exists():
            rmtree(folder)
        folder.mkdir()
        new = rebuild(folder, self._keep, self._salvage.letters(), self._salvage.discarded())
        named = {segment.name for kept in self._keep for segment in kept.segments}
        others = [s.name for found in self._salvage.runs.values() for s in found.segments if s.name not in named]
        damaged = [self.directory / name for name in others] + self._salvage.unreadable
        moved = put_in_place(self.directory, new, damaged)
        rmtree(folder)
        return moved


def _intact(found: FoundRun, kept: dict[int, bytes]) -> list[Segment]:
    """Segments that can stay as they are: from the first kept entry on, without a gap, and with the same entries."""
    staying: list[Segment] = []
    expected = min(kept, default=0)
    for archived in sorted(found.segments, key=lambda each: each.first):
        same = archived.intact and all(kept.get(n) == payload for n, payload in archived.payloads.items())
        if same and archived.first == expected:
            staying.append(Segment(archived.first, archived.last, archived.name, archived.size_bytes, present=True))
            expected = archived.last + 1
    return staying


# -- single files ------------------------------------------------------------------------------------------------------


class FileRepair:
    """An exported file or a segment: a torn tail is cut, damage in the middle is filled from an export or cut too."""

    def __init__(self, file: Path, export: Path | None) -> None:
        self.file = file
        content = file.read_bytes()
        records = {record.n: record.payload for record in salvage(content)}
        names = [scan(content).run, *(run_of(payload) or "" for payload in records.values())]
        self._run = next((name for name in names if name), "")
        if not self._run or not records:
            raise ConfigError("path", str(file), "nothing in it is readable: take another copy")
        first = min(records)
        more = _exported(export).get(self._run, {})
        before = _prev(records[first], self._run, first)

        def candidates(n: int) -> list[bytes]:
            return [found[n] for found in (records, more) if n in found]

        last = max(records)
        self._kept = chain(self._run, first, before or b"", candidates, max(last, *more, 0))
        ends = max(self._kept, default=0)
        restored = [n for n in self._kept if n not in records]
        lost = (ends + 1, last) if last > ends else None
        self.plans = [RunPlan(self._run, first, ends, restored, lost, None, 0)]

    def __enter__(self) -> FileRepair:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def carry_out(self) -> list[Path]:
        """Returns where the damaged file is now."""
        records = [encode_record(n, payload) for n, payload in self._kept.items()]
        kept_as = aside(self.file)
        write_durably(kept_as, [self.file.read_bytes()])
        write_durably(self.file, [encode_header(self._run), *records, encode_end(max(self._kept))])
        return [kept_as]


def _exported(export: Path | None) -> dict[str, dict[int, bytes]]:
    """What an export holds, also behind damage of its own: the chain decides what fits."""
    if export is None:
        return {}
    content = export.read_bytes()
    records = {record.n: record.payload for record in salvage(content)}
    run = scan(content).run or next((name for name in map(run_of, records.values()) if name), None)
    if run is None:
        raise ConfigError("--from", str(export), "nothing in it is readable: take another export")
    return {run: records}
