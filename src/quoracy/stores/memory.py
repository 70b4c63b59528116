"""Journal, pulse and mailbox in memory: for tests, the simulator and runs that need not survive their process.

A ``Shelf`` is what a disk or a server is to the other stores: several handles on one shelf are several processes on
one file. Nothing here is durable, everything else is as the ports say.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Condition
from time import monotonic

from quoracy.core.errors import EntriesGone
from quoracy.ports import (
    MAX_LETTER_BYTES,
    MAX_NOTE_BYTES,
    Append,
    Appended,
    Beat,
    Conflict,
    Letter,
    Outcome,
    Saved,
    Segment,
)
from quoracy.stores.limits import bounded, decide, named, numbered, run_name


class _Kept:
    """One run. Entries stay in one list for ever: sealing only draws a line, deleting sets them to None."""

    def __init__(self) -> None:
        self.entries: list[bytes | None] = []
        self.segments: list[Segment] = []
        self.snapshot: Saved | None = None

    def hot(self) -> int:
        """The first entry that is in no segment."""
        return self.segments[-1].last + 1 if self.segments else 1

    def available(self) -> int:
        return next((s.first for s in self.segments if s.present), self.hot())


class Shelf:
    def __init__(self) -> None:
        self.changed = Condition()
        self.runs: dict[str, _Kept] = {}
        self.beats: dict[str, dict[str, Beat]] = {}
        self.tallies: dict[tuple[str, str], tuple[int, int]] = {}
        self.letters: dict[str, dict[tuple[str, int], Letter]] = {}
        self.discarded: dict[tuple[str, str], int] = {}


class _Handle:
    def __init__(self, shelf: Shelf | None = None) -> None:
        self.shelf = shelf or Shelf()
        self._closed = False

    def _open(self) -> Condition:
        """The lock of the shelf, for whoever may still use this handle. Reentrant, so checking under it is fine."""
        if self._closed:
            raise ValueError("this store is closed")
        return self.shelf.changed

    def close(self) -> None:
        with self.shelf.changed:
            self._closed = True
            self.shelf.changed.notify_all()


class MemoryJournal(_Handle):
    def runs(self) -> list[str]:
        with self._open():
            return sorted(self.shelf.runs)

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        with self._open():
            answered = list(zip(wishes, decide(wishes, self.last), strict=True))
            for wish, lost_to in answered:
                if lost_to:
                    self.read(wish.run, lost_to, 1)  # raises EntriesGone, while nothing has been written yet
            for wish, lost_to in answered:
                if not lost_to:
                    self.shelf.runs.setdefault(wish.run, _Kept()).entries.append(wish.payload)
            self.shelf.changed.notify_all()
            return [
                Conflict(lost_to, self.read(wish.run, lost_to, 1)[0]) if lost_to else Appended(wish.n)
                for wish, lost_to in answered
            ]

    def last(self, run: str) -> int:
        run_name(run)
        with self._open():
            kept = self.shelf.runs.get(run)
            return len(kept.entries) if kept else 0

    def read(self, run: str, first: int, limit: int = 1000) -> list[bytes]:
        numbered(first, 1, "an entry's number")
        numbered(limit, 0, "a limit")
        with self._open():
            if self.last(run) < first or not limit:
                return []
            kept = self.shelf.runs[run]
            if first < kept.available():
                raise EntriesGone(run, first, kept.available())
            return [entry for entry in kept.entries[first - 1 : first - 1 + limit] if entry is not None]

    def watch(self, run: str, after: int, timeout_s: float) -> int:
        deadline = monotonic() + timeout_s
        with self._open():
            while (last := self.last(run)) <= after and (left_s := deadline - monotonic()) > 0:
                self.shelf.changed.wait(left_s)
                self._open()
            return last

    def save_snapshot(self, run: str, snapshot: Saved) -> None:
        with self._open():
            last = self.last(run)
            if not 1 <= snapshot.n <= last:
                raise ValueError(f"run {run!r}: a snapshot of entry {snapshot.n}, but the last entry is {last}")
            kept = self.shelf.runs[run]
            if kept.snapshot is None or kept.snapshot.n < snapshot.n:
                kept.snapshot = Saved(snapshot.n, snapshot.root, dict(snapshot.pages))

    def load_snapshot(self, run: str) -> Saved | None:
        run_name(run)
        with self._open():
            kept = self.shelf.runs.get(run)
            if kept is None or kept.snapshot is None:
                return None
            return Saved(kept.snapshot.n, kept.snapshot.root, dict(kept.snapshot.pages))

    def compact(self, run: str, upto: int, keep_segments: int | None = None) -> Segment | None:
        run_name(run)
        numbered(upto, 0, "an entry's number")
        numbered(keep_segments or 0, 0, "the number of segments to keep")
        with self._open():
            kept = self.shelf.runs.get(run)
            if kept is None:
                return None
            upto, first, sealed = min(upto, kept.snapshot.n if kept.snapshot else 0), kept.hot(), None
            if upto >= first:
                size_bytes = sum(len(entry) for entry in kept.entries[first - 1 : upto] if entry is not None)
                sealed = Segment(first, upto, f"memory/{first}-{upto}", size_bytes, True)
                kept.segments.append(sealed)
            if keep_segments is not None:
                _delete(kept, len(kept.segments) - keep_segments)
            return sealed and kept.segments[-1]

    def segments(self, run: str) -> list[Segment]:
        run_name(run)
        with self._open():
            kept = self.shelf.runs.get(run)
            return list(kept.segments) if kept else []


def _delete(kept: _Kept, count: int) -> None:
    for i, old in enumerate(kept.segments[: max(count, 0)]):
        kept.segments[i] = Segment(old.first, old.last, old.name, old.size_bytes, False)
        kept.entries[old.first - 1 : old.last] = [None] * (old.last - old.first + 1)


class MemoryPulse(_Handle):
    def beat(self, run: str, key: str, beat: Beat) -> None:
        run_name(run)
        named(key, "a beater's key")
        numbered(beat.seq, 0, "a beat's sequence number")
        bounded(beat.note, 0, MAX_NOTE_BYTES, "a note")
        with self._open():
            beats = self.shelf.beats.setdefault(run, {})
            if key not in beats or beats[key].seq <= beat.seq:
                beats[key] = beat

    def beats(self, run: str) -> dict[str, Beat]:
        run_name(run)
        with self._open():
            return dict(sorted(self.shelf.beats.get(run, {}).items()))

    def forget(self, run: str, key: str) -> None:
        run_name(run)
        with self._open():
            self.shelf.beats.get(run, {}).pop(key, None)

    def tally(self, run: str, place: str, turn: int) -> int:
        run_name(run)
        named(place, "a place")
        numbered(turn, 0, "a turn")
        with self._open():
            before, count = self.shelf.tallies.get((run, place), (turn, 0))
            if turn < before:
                return 0
            count = count + 1 if turn == before else 1
            self.shelf.tallies[run, place] = (turn, count)
            return count


class MemoryMailbox(_Handle):
    def post(self, run: str, letter: Letter) -> bool:
        run_name(run)
        named(letter.sender, "a sender's name")
        numbered(letter.seq, 1, "a letter's sequence number")
        bounded(letter.payload, 0, MAX_LETTER_BYTES, "a letter")
        with self._open():
            letters = self.shelf.letters.setdefault(run, {})
            slot = (letter.sender, letter.seq)
            if slot in letters or letter.seq <= self.shelf.discarded.get((run, letter.sender), 0):
                return False
            letters[slot] = letter
            return True

    def collect(self, run: str, limit: int = 1000) -> list[Letter]:
        run_name(run)
        numbered(limit, 0, "a limit")
        with self._open():
            letters = self.shelf.letters.get(run, {})
            return [letters[slot] for slot in sorted(letters)[:limit]]

    def discard(self, run: str, sender: str, upto: int) -> None:
        run_name(run)
        numbered(upto, 0, "a letter's sequence number")
        with self._open():
            mark = (run, sender)
            self.shelf.discarded[mark] = max(upto, self.shelf.discarded.get(mark, 0))
            letters = self.shelf.letters.get(run, {})
            for slot in [slot for slot in letters if slot[0] == sender and slot[1] <= upto]:
                del letters[slot]
