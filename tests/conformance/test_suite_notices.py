"""The suites can fail: each of these stores breaks one promise, and the check for that promise says so."""

from __future__ import annotations

import time

import pytest

from quoracy.core.errors import JournalGap
from quoracy.ports import MAX_LETTER_BYTES, MAX_NOTE_BYTES, Appended, Beat, Conflict, Letter, Saved
from quoracy.stores import MemoryJournal, MemoryMailbox, MemoryPulse, Shelf
from quoracy.testing import JOURNAL_CHECKS, MAILBOX_CHECKS, PULSE_CHECKS


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
    notices(JOURNAL_CHECKS, journal, fact)


class TakesLowerBeats(MemoryPulse):
    def beat(self, run, key, beat):
        self.forget(run, key)
        super().beat(run, key, beat)


class KeepsTheFirstNote(MemoryPulse):
    def beat(self, run, key, beat):
        known = self.beats(run).get(key)
        super().beat(run, key, beat if known is None else Beat(beat.seq, known.note))


class ForgetsNothing(MemoryPulse):
    def forget(self, run, key):
        self._open()


class ForgetsInEveryRun(MemoryPulse):
    def forget(self, run, key):
        for each in list(self.shelf.beats):
            super().forget(each, key)


class TakesAnyNote(MemoryPulse):
    def beat(self, run, key, beat):
        super().beat(run, key, Beat(abs(beat.seq), beat.note[:MAX_NOTE_BYTES]))


class LosesBeatsOfOthers(MemoryPulse):
    """Reads all, changes one, writes all: what another wrote meanwhile is gone."""

    def beat(self, run, key, beat):
        before = self.beats(run)
        super().beat(run, key, beat)
        time.sleep(0.01)
        self.shelf.beats[run] = {**before, key: beat}


class CountsWithoutALock(MemoryPulse):
    def tally(self, run, place, turn):
        _, before = self.shelf.tallies.get((run, place), (turn, 0))
        time.sleep(0.01)
        self.shelf.tallies[run, place] = (turn, before + 1)
        return before + 1


class NeverBeginsANewTurn(MemoryPulse):
    def tally(self, run, place, turn):
        return super().tally(run, place, min(turn, 1))


class IgnoresCaseOfKeys(MemoryPulse):
    def beat(self, run, key, beat):
        super().beat(run, key.lower(), beat)


class BeatsAfterClosing(MemoryPulse):
    def _open(self):
        return self.shelf.changed


@pytest.mark.parametrize(
    ("pulse", "fact"),
    [
        (KeepsTheFirstNote, "a_beat_replaces_the_one_before"),
        (TakesLowerBeats, "a_lower_beat_is_ignored_and_an_equal_one_is_not"),
        (KeepsTheFirstNote, "a_lower_beat_is_ignored_and_an_equal_one_is_not"),
        (ForgetsNothing, "a_forgotten_key_is_gone_and_may_come_back"),
        (ForgetsInEveryRun, "a_forgotten_key_is_gone_and_may_come_back"),
        (IgnoresCaseOfKeys, "any_name_is_only_a_name"),
        (TakesAnyNote, "a_beat_outside_the_limits_is_refused"),
        (LosesBeatsOfOthers, "many_may_beat_at_once"),
        (NeverBeginsANewTurn, "a_tally_counts_each_once_and_begins_anew_with_every_turn"),
        (CountsWithoutALock, "many_may_come_at_once_and_each_gets_another_number"),
        (BeatsAfterClosing, "closing_twice_is_fine_and_nothing_works_afterwards"),
    ],
)
def test_a_broken_promise_of_a_pulse_is_noticed(pulse, fact):
    notices(PULSE_CHECKS, pulse, fact)


class Overwrites(MemoryMailbox):
    def post(self, run, letter):
        super().post(run, letter)
        self.shelf.letters.setdefault(run, {})[letter.sender, letter.seq] = letter
        return True


class TellsThatEveryPostWon(MemoryMailbox):
    def post(self, run, letter):
        super().post(run, letter)
        return True


class LooksThenPosts(MemoryMailbox):
    """Not atomic: two may both find the slot free."""

    def post(self, run, letter):
        free = (letter.sender, letter.seq) not in self.shelf.letters.get(run, {})
        if free:
            time.sleep(0.01)  # whoever is behind catches up meanwhile
            super().post(run, letter)
        return free


class HandsOutOnce(MemoryMailbox):
    def collect(self, run, limit=1000):
        found = super().collect(run, limit)
        for letter in found:
            del self.shelf.letters[run][letter.sender, letter.seq]
        return found


class OpensDiscardedSlots(MemoryMailbox):
    def discard(self, run, sender, upto):
        super().discard(run, sender, upto)
        self.shelf.discarded.pop((run, sender), None)


class ForgetsOnClosing(MemoryMailbox):
    def close(self):
        self.shelf.letters.clear()
        super().close()


class HandsOutInOrderOfPosting(MemoryMailbox):
    def collect(self, run, limit=1000):
        super().collect(run, limit)
        return list(self.shelf.letters.get(run, {}).values())[:limit]


class IgnoresCaseOfSenders(MemoryMailbox):
    def post(self, run, letter):
        return super().post(run, Letter(letter.sender.lower(), letter.seq, letter.payload))


class TakesAnyLetter(MemoryMailbox):
    def post(self, run, letter):
        return super().post(run, Letter(letter.sender, max(1, letter.seq), letter.payload[:MAX_LETTER_BYTES]))


class PostsAfterClosing(MemoryMailbox):
    def _open(self):
        return self.shelf.changed


@pytest.mark.parametrize(
    ("mailbox", "fact"),
    [
        (HandsOutOnce, "a_posted_letter_can_be_collected_until_it_is_discarded"),
        (ForgetsOnClosing, "letters_survive_closing_and_opening"),
        (OpensDiscardedSlots, "letters_survive_closing_and_opening"),
        (Overwrites, "a_taken_slot_keeps_its_letter"),
        (TellsThatEveryPostWon, "a_taken_slot_keeps_its_letter"),
        (OpensDiscardedSlots, "a_discarded_slot_stays_closed"),
        (HandsOutInOrderOfPosting, "letters_come_in_order_and_within_the_limit"),
        (LooksThenPosts, "of_racing_posts_to_a_slot_one_wins"),
        (TellsThatEveryPostWon, "of_racing_posts_to_a_slot_one_wins"),
        (IgnoresCaseOfSenders, "any_name_is_only_a_name"),
        (TakesAnyLetter, "a_letter_outside_the_limits_is_refused"),
        (PostsAfterClosing, "closing_twice_is_fine_and_nothing_works_afterwards"),
    ],
)
def test_a_broken_promise_of_a_mailbox_is_noticed(mailbox, fact):
    notices(MAILBOX_CHECKS, mailbox, fact)


def notices(checks, port, fact):
    shelf = Shelf()
    (check,) = [check for check in checks if check.__name__ == fact]
    with pytest.raises((AssertionError, ValueError)):
        check(lambda: port(shelf))


@pytest.mark.parametrize("checks", [JOURNAL_CHECKS, PULSE_CHECKS, MAILBOX_CHECKS])
def test_no_two_checks_have_the_same_name(checks):
    names = [check.__name__ for check in checks]
    assert len(set(names)) == len(names)
