"""A data directory or a single file, to be read: what ``quoracy journal`` looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from quoracy.core.errors import ConfigError, JournalCorrupt, QuoracyError
from quoracy.ports import Saved
from quoracy.stores import SqliteJournal
from quoracy.stores.segment import MAGIC, Damage, scan

PAGE = 500


class UnknownRun(QuoracyError):
    code = "unknown_run"


class Source(Protocol):
    path: Path

    def runs(self) -> list[str]: ...

    def first(self, run: str) -> int:
        """The first entry that is still there."""

    def last(self, run: str) -> int: ...

    def read(self, run: str, first: int, limit: int) -> list[bytes]:
        """As ``ports.Journal.read``."""

    def snapshot(self, run: str) -> Saved | None: ...

    def archived(self, run: str) -> int:
        """How many entries are in segments that are there."""

    def verify(self) -> None:
        """What reading entries does not show. Raises JournalCorrupt."""

    def close(self) -> None: ...


class DirectorySource:
    """A data directory, opened so that nothing in it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = SqliteJournal(path, create=False, read_only=True)
        self.runs = self._journal.runs
        self.last = self._journal.last
        self.read = self._journal.read
        self.snapshot = self._journal.load_snapshot
        self.verify = self._journal.verify
        self.close = self._journal.close

    def first(self, run: str) -> int:
        segments = self._journal.segments(run)
        hot = segments[-1].last + 1 if segments else 1
        return next((segment.first for segment in segments if segment.present), hot)

    def archived(self, run: str) -> int:
        return sum(s.last - s.first + 1 for s in self._journal.segments(run) if s.present)


class FileSource:
    """An exported file or an archived segment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = scan(path.read_bytes())
        self._run = found.run
        self._payloads = [record.payload for record in found.records]
        self._first = found.records[0].n if found.records else 1
        self.damage = found.damage
        if found.damage is None and not found.sealed:
            last = self.last(self._run)
            self.damage = Damage(last + 1, path.stat().st_size, f"the file was cut short after entry {last}", torn=True)

    def runs(self) -> list[str]:
        if not self._run:
            self.verify()
        return [self._run]

    def first(self, run: str) -> int:
        return self._first if run == self._run else 1

    def last(self, run: str) -> int:
        return self._first + len(self._payloads) - 1 if run == self._run else 0

    def read(self, run: str, first: int, limit: int) -> list[bytes]:
        found = self._payloads[first - self._first :][:limit] if run == self._run else []
        if len(found) < limit:
            self.verify()
        return found

    def snapshot(self, run: str) -> Saved | None:  # noqa: ARG002 - a file holds none
        return None

    def archived(self, run: str) -> int:  # noqa: ARG002 - a file holds none
        return 0

    def verify(self) -> None:
        if self.damage is not None:
            entry, offset, what, _ = self.damage
            raise JournalCorrupt(self._run, entry, offset, what, self.path.name)

    def close(self) -> None:
        pass


def is_segment(path: Path) -> bool:
    if path.is_file():
        with path.open("rb") as file:
            return path.suffix == ".qseg" or file.read(len(MAGIC)) == MAGIC
    return False


def open_source(path: Path) -> Source:
    if path.is_dir():
        return DirectorySource(path)
    if path.name == "journal.db" and path.is_file():
        return DirectorySource(path.parent)
    if is_segment(path):
        return FileSource(path)
    what = "is neither a data directory nor a file made by export" if path.exists() else "does not exist"
    raise ConfigError("path", str(path), f"it {what}: name the directory that holds journal.db, or an exported file")


def pick(source: Source, run: str | None) -> str:
    """The run that is meant: the named one, or the only one there is."""
    if run is not None:
        if source.last(run) == 0 and not source.read(run, 1, 1):  # reading also tells whether damage hides it
            raise UnknownRun(
                f"there is no run {run!r} in {source.path} (there are: {', '.join(source.runs()) or 'none'})"
            )
        return run
    runs = source.runs()
    if len(runs) != 1:
        raise ConfigError("run", None, f"say which of: {', '.join(runs)}" if runs else f"{source.path} holds no run")
    return runs[0]


def read_until_damage(source: Source, run: str, first: int, limit: int) -> tuple[list[bytes], JournalCorrupt | None]:
    """Entries up to the limit, the end or the damage, whichever comes first."""
    payloads: list[bytes] = []
    while len(payloads) < limit:
        n, wanted = first + len(payloads), min(PAGE, limit - len(payloads))
        try:
            page = source.read(run, n, wanted)
        except JournalCorrupt as damage:
            if n < damage.entry < n + wanted:
                payloads += source.read(run, n, damage.entry - n)
            return payloads, damage
        if not page:
            break
        payloads += page
    return payloads, None
