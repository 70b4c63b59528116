"""What must hold of snapshots, compaction and retention."""

from __future__ import annotations

from quoracy.core.errors import EntriesGone
from quoracy.ports import Append, Appended, Conflict, Journal, Saved
from quoracy.testing.expect import Together, equal, opened, raises, true
from quoracy.testing.journal_appends import OpenJournal, fill
from quoracy.testing.journal_reads import ODD_NAMES


def snapshot_of(n: int, pages: int = 6) -> Saved:
    """Half of its pages are the same for every n."""
    names = [f"page {i} of {n if i % 2 else 'all'}".encode() for i in range(pages)]
    return Saved(n, b"root of %d" % n, {name: name * 50 for name in names})


def sealed_journal(journal: Journal, run: str, *lines: int, count: int = 12) -> list[bytes]:
    """``count`` entries, and a segment up to each of ``lines``."""
    payloads = fill(journal, run, count)
    for upto in lines:
        journal.save_snapshot(run, snapshot_of(upto))
        sealed = journal.compact(run, upto)
        true(sealed is not None and sealed.last == upto, f"compact up to {upto} gave {sealed}")
    return payloads


def the_newest_snapshot_is_kept_with_its_pages(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        fill(journal, "r", 9)
        fill(journal, "s", 9)
        for n in (2, 5, 9):
            journal.save_snapshot("r", snapshot_of(n))
            equal(other.load_snapshot("r"), snapshot_of(n), f"the snapshot of {n}")
        other.save_snapshot("s", snapshot_of(3))
        equal(journal.load_snapshot("r"), snapshot_of(9), "the snapshot after another run saved one")
    with opened(open_journal) as journal:
        equal(journal.load_snapshot("r"), snapshot_of(9), "the snapshot after opening again")
        equal(journal.load_snapshot("s"), snapshot_of(3), "the other run's snapshot")


def a_snapshot_that_is_not_newer_is_ignored(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        fill(journal, "r", 9)
        journal.save_snapshot("r", snapshot_of(5))
        journal.save_snapshot("r", snapshot_of(4))
        journal.save_snapshot("r", Saved(5, b"another root", {}))
        equal(journal.load_snapshot("r"), snapshot_of(5), "the snapshot")


def a_snapshot_of_entries_that_are_not_there_is_refused(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        fill(journal, "r", 3)
        raises(ValueError, "a snapshot of 4 while 3 is the last", journal.save_snapshot, "r", snapshot_of(4))
        raises(ValueError, "a snapshot of 0", journal.save_snapshot, "r", snapshot_of(0))
        raises(ValueError, "a snapshot of an empty run", journal.save_snapshot, "nobody", snapshot_of(1))
        equal((journal.load_snapshot("r"), journal.load_snapshot("nobody")), (None, None), "snapshots")


def a_large_snapshot_comes_back_whole(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        fill(journal, "r", 2)
        for n in (1, 2):
            names = [b"%d/%d" % (n * (i % 3), i) for i in range(60)]
            large = Saved(n, bytes(100_000), {name: name * 20_000 for name in names})
            journal.save_snapshot("r", large)
            true(other.load_snapshot("r") == large, "a snapshot of 5 MB came back changed")


def a_snapshot_is_whole_while_another_is_being_saved(open_journal: OpenJournal) -> None:
    count = 20
    with opened(open_journal) as journal, opened(open_journal) as other:
        fill(journal, "r", count)

        def save_all() -> None:
            for n in range(1, count + 1):
                journal.save_snapshot("r", snapshot_of(n, pages=30))

        with Together() as together:
            together.call(save_all)
            n = 0
            while n < count:
                found = other.load_snapshot("r")
                if found is not None:
                    true(found.n >= n, f"snapshot {found.n} came after {n}")
                    n = found.n
                    equal(found, snapshot_of(n, pages=30), f"the snapshot of {n}")


def without_a_snapshot_nothing_is_archived(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        fill(journal, "r", 5)
        equal((journal.compact("r", 5), journal.segments("r")), (None, []), "compact without a snapshot")
        equal(journal.compact("nobody", 5), None, "compact of an empty run")
        raises(ValueError, "compact up to -1", journal.compact, "r", -1)
        raises(ValueError, "keeping -1 segments", journal.compact, "r", 1, -1)


def entries_up_to_the_snapshot_are_archived(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        fill(journal, "r", 9)
        journal.save_snapshot("r", snapshot_of(6))
        first = journal.compact("r", 4)
        second = other.compact("r", 100)
        true(first is not None and (first.first, first.last, first.present) == (1, 4, True), f"first segment {first}")
        true(second is not None and (second.first, second.last) == (5, 6), f"second segment {second}")
        equal(journal.compact("r", 100), None, "compact with nothing to move")
        equal(journal.segments("r"), [first, second], "segments")
        equal(other.segments("r"), [first, second], "segments seen by the other handle")


def reading_does_not_notice_the_archive(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        payloads = sealed_journal(journal, "r", 3, 4, 9)
        for first in range(1, 14):
            for limit in range(14):
                wanted = payloads[first - 1 : first - 1 + limit]
                equal(other.read("r", first, limit), wanted, f"read from {first}, at most {limit}")
    with opened(open_journal) as journal:
        equal(journal.read("r", 1), payloads, "read after opening again")


def an_archived_number_is_still_taken(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        payloads = sealed_journal(journal, "r", 5, 12)
        equal(journal.append([Append("r", 2, b"x")]), [Conflict(2, payloads[1])], "appending an archived number")
        wishes = [Append("r", 13, b"thirteen"), Append("r", 14, b"fourteen")]
        equal(journal.append(wishes), [Appended(13), Appended(14)], "appending when all is archived")
        equal(journal.read("r", 11), [*payloads[10:], b"thirteen", b"fourteen"], "read")


def retention_deletes_the_oldest_and_says_so(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        payloads = sealed_journal(journal, "r", 3, 6, 9)
        other.read("r", 1)
        journal.save_snapshot("r", snapshot_of(10))
        journal.compact("r", 10, keep_segments=2)
        for handle in (journal, other):
            found = [(segment.first, segment.last, segment.present) for segment in handle.segments("r")]
            equal(found, [(1, 3, False), (4, 6, False), (7, 9, True), (10, 10, True)], "segments")
            for first in (1, 3, 6):
                gone = raises(EntriesGone, f"reading entry {first}", handle.read, "r", first)
                equal((gone.run, gone.first, gone.available), ("r", first, 7), "what is left")
            equal(handle.read("r", 7), payloads[6:], "read from the first that is left")
        wishes = [Append("r", 13, b"x"), Append("r", 2, b"x")]
        raises(EntriesGone, "appending a number whose entry is gone", journal.append, wishes)
        equal(journal.last("r"), 12, "last")


def retention_works_without_anything_to_move(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        payloads = sealed_journal(journal, "r", 3, 12)
        equal(journal.compact("r", 12, keep_segments=5), None, "keeping more than there are")
        equal(journal.read("r", 1), payloads, "read")
        equal(journal.compact("r", 12, keep_segments=0), None, "keeping none")
        gone = raises(EntriesGone, "reading entry 12", journal.read, "r", 12)
        equal(gone.available, 13, "what is left")
        equal((journal.read("r", 13), journal.last("r")), ([], 12), "read beyond the end")
        equal(journal.append([Append("r", 13, b"x")]), [Appended(13)], "the run goes on")


def readers_and_appenders_do_not_notice_a_compaction(open_journal: OpenJournal) -> None:
    count = 60
    with opened(open_journal) as journal, opened(open_journal) as other:
        payloads = fill(journal, "r", count)
        journal.save_snapshot("r", snapshot_of(count))

        def compact_all() -> None:
            for upto in range(3, count + 1, 3):
                journal.compact("r", upto)

        with Together() as together:
            together.call(compact_all)
            while len(journal.segments("r")) < count // 3:
                equal(other.read("r", 1), payloads, "read during a compaction")
                payloads += fill(other, "r", 1, len(payloads) + 1)
        equal(journal.read("r", 1), payloads, "read after the compaction")


def any_name_can_be_archived(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        wanted = {}
        for i, run in enumerate(ODD_NAMES):
            journal.append([Append(run, 1, b"%d" % i), Append(run, 2, b"two")])
            journal.save_snapshot(run, snapshot_of(1))
            journal.compact(run, 1)
            wanted[run] = [b"%d" % i, b"two"]
        equal({run: other.read(run, 1) for run in ODD_NAMES}, wanted, "what each run holds")


ARCHIVE_CHECKS = (
    the_newest_snapshot_is_kept_with_its_pages,
    a_snapshot_that_is_not_newer_is_ignored,
    a_snapshot_of_entries_that_are_not_there_is_refused,
    a_large_snapshot_comes_back_whole,
    a_snapshot_is_whole_while_another_is_being_saved,
    without_a_snapshot_nothing_is_archived,
    entries_up_to_the_snapshot_are_archived,
    reading_does_not_notice_the_archive,
    an_archived_number_is_still_taken,
    retention_deletes_the_oldest_and_says_so,
    retention_works_without_anything_to_move,
    readers_and_appenders_do_not_notice_a_compaction,
    any_name_can_be_archived,
)
