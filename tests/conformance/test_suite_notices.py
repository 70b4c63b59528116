"""The suites can fail: each of these journals breaks one promise, and the check for that promise says so."""

from __future__ import annotations

import pytest

from quorate.core.errors import JournalGap
from quorate.ports import Appended, Conflict, Saved
from quorate.stores import MemoryJournal, Shelf
from quorate.testing import JOURNAL_CHECKS


class TellsLosersTheyWon(MemoryJournal):
    def append(self, wishes):
        return [Appended(outcome.n) for outcome in super().append(wishes)]


class ReturnsTheLosersBytes(MemoryJournal):
    def append(self, wishes):
        outcomes = super().append(wishes)
        return [
            Conflict(outcome.n, wish.payload) if isinstance(outcome, Conflict) else outcome
            for wish, outcome in zip(wishes, outcomes, strict=True)
        ]


class WritesWhatItCanBeforeAGap(MemoryJournal):
    def append(self, wishes):
        try:
            return super().append(wishes)
        except JournalGap:
            for wish in wishes[:1]:
                super().append([wish])
            raise


class WritesOnTopOfALostWish(MemoryJournal):
    def append(self, wishes):
        return [super(WritesOnTopOfALostWish, self).append([wish])[0] for wish in wishes]


class ReadsOneTooMany(MemoryJournal):
    def read(self, run, first, limit=1000):
        return super().read(run, first, limit + 1 if limit > 1 else limit)


class WatchesWithItsEyesClosed(MemoryJournal):
    def watch(self, run, after, timeout_s):
        return self.last(run)


class KeepsTheLastSnapshotNotTheNewest(MemoryJournal):
    def save_snapshot(self, run, snapshot):
        super().save_snapshot(run, snapshot)
        self.shelf.runs[run].snapshot = snapshot


class ForgetsPages(MemoryJournal):
    def load_snapshot(self, run):
        found = super().load_snapshot(run)
        return found and Saved(found.n, found.root, dict(list(found.pages.items())[1:]))


class ArchivesBeyondTheSnapshot(MemoryJournal):
    def compact(self, run, upto, keep_segments=None):
        kept = self.shelf.runs.get(run)
        if kept and kept.snapshot:
            kept.snapshot = Saved(len(kept.entries), kept.snapshot.root, kept.snapshot.pages)
        return super().compact(run, upto, keep_segments)


class HidesWhatIsGone(MemoryJournal):
    def segments(self, run):
        return [segment for segment in super().segments(run) if segment.present]


class IgnoresCaseInNames(MemoryJournal):
    def append(self, wishes):
        return super().append([type(wish)(wish.run.lower(), wish.n, wish.payload) for wish in wishes])

    def last(self, run):
        return super().last(run.lower())


class CannotBeClosedTwice(MemoryJournal):
    def close(self):
        self._open()
        super().close()


class WorksAfterClosing(MemoryJournal):
    def _open(self):
        return self.shelf.changed


@pytest.mark.parametrize(
    ("journal", "fact"),
    [
        (TellsLosersTheyWon, "a_taken_number_is_a_conflict_that_tells_what_is_there"),
        (TellsLosersTheyWon, "of_racing_appenders_exactly_one_wins"),
        (ReturnsTheLosersBytes, "a_taken_number_is_a_conflict_that_tells_what_is_there"),
        (ReturnsTheLosersBytes, "of_racing_appenders_exactly_one_wins"),
        (WritesWhatItCanBeforeAGap, "a_gap_writes_nothing_at_all"),
        (WritesOnTopOfALostWish, "wishes_behind_a_lost_one_are_lost_too"),
        (WritesOnTopOfALostWish, "a_wish_outside_the_limits_writes_nothing"),
        (ReadsOneTooMany, "reading_gives_the_entries_that_were_asked_for"),
        (WatchesWithItsEyesClosed, "a_watch_ends_when_its_time_is_over"),
        (KeepsTheLastSnapshotNotTheNewest, "a_snapshot_that_is_not_newer_is_ignored"),
        (ForgetsPages, "the_newest_snapshot_is_kept_with_its_pages"),
        (ArchivesBeyondTheSnapshot, "entries_up_to_the_snapshot_are_archived"),
        (HidesWhatIsGone, "retention_deletes_the_oldest_and_says_so"),
        (IgnoresCaseInNames, "any_name_is_only_a_name"),
        (CannotBeClosedTwice, "closing_twice_is_fine_and_nothing_works_afterwards"),
        (WorksAfterClosing, "closing_twice_is_fine_and_nothing_works_afterwards"),
    ],
)
def test_a_broken_promise_is_noticed(journal, fact):
    shelf = Shelf()
    (check,) = [check for check in JOURNAL_CHECKS if check.__name__ == fact]
    with pytest.raises((AssertionError, ValueError)):
        check(lambda: journal(shelf))


def test_no_two_checks_have_the_same_name():
    names = [check.__name__ for check in JOURNAL_CHECKS]
    assert len(set(names)) == len(names)
