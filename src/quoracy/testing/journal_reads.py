"""What must hold of reading, watching, names and closing."""

from __future__ import annotations

from time import monotonic

from quoracy.ports import MAX_RUN_NAME_BYTES, Append
from quoracy.testing.expect import PATIENCE_S, Together, equal, opened, raises, true
from quoracy.testing.journal_appends import OpenJournal, fill

ODD_NAMES = (
    "..",
    ".",
    "/",
    "../../../outside",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a b",
    " ",
    "a\0b",
    "a\nb",
    "Run",
    "run",
    "RUN",
    "lauf-ä",
    "lauf-a\u0308",
    "走る",
    "🏃",
    "con",
    "a.db",
    "%2e%2e",
    "'; DROP TABLE runs; --",
    "x" * MAX_RUN_NAME_BYTES,
    "é" * (MAX_RUN_NAME_BYTES // 2),
    "x" * (MAX_RUN_NAME_BYTES - 1) + "y",
)
"""Names that have led somebody out of a directory, into another run, or into trouble."""


def a_run_nobody_wrote_is_empty(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        equal((journal.runs(), journal.last("r"), journal.read("r", 1)), ([], 0, []), "an empty journal")
        equal((journal.load_snapshot("r"), journal.segments("r")), (None, []), "snapshot and segments of it")


def reading_gives_the_entries_that_were_asked_for(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        payloads = fill(journal, "r", 7)
        for first in range(1, 10):
            for limit in range(9):
                wanted = payloads[first - 1 : first - 1 + limit]
                equal(journal.read("r", first, limit), wanted, f"read from {first}, at most {limit}")
        equal(journal.read("r", 1), payloads, "read without a limit")
        raises(ValueError, "reading entry 0", journal.read, "r", 0)
        raises(ValueError, "a negative limit", journal.read, "r", 1, -1)


def a_watch_returns_at_once_if_there_is_something(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        fill(journal, "r", 3)
        began = monotonic()
        equal(journal.watch("r", 2, PATIENCE_S), 3, "watch beyond 2")
        equal(journal.watch("r", 0, PATIENCE_S), 3, "watch beyond 0")
        true(monotonic() - began < PATIENCE_S / 2, "a watch waited although an entry was there")


def a_watch_ends_when_its_time_is_over(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        fill(journal, "r", 3)
        fill(journal, "other", 5)
        began = monotonic()
        equal(journal.watch("r", 3, 0.05), 3, "watch beyond 3")
        equal(journal.watch("nobody", 0, 0.0), 0, "watch without any time")
        true(0.05 <= monotonic() - began < PATIENCE_S / 2, "a watch of 50 ms took something else")


def a_watch_sees_what_another_handle_appends(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        for n in range(1, 6):
            with Together() as together:
                together.call(journal.watch, "r", n - 1, PATIENCE_S)
                other.append([Append("r", n, b"x"), Append("elsewhere", n, b"x")])
            equal(together.results, [n], f"watch beyond {n - 1}")


def a_watch_sees_what_its_own_handle_appends(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, Together() as together:
        for after in range(4):
            together.call(journal.watch, "r", after, PATIENCE_S)
        fill(journal, "r", 5)
        equal(sorted(together.wait()), [5, 5, 5, 5], "four watches")


def runs_do_not_see_each_other(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        wanted = {}
        for i in range(40):
            run = f"run-{i:02}"
            wanted[run] = fill(journal if i % 2 else other, run, i % 5 + 1)
        for handle in (journal, other):
            equal(handle.runs(), sorted(wanted), "runs")
            equal({run: handle.read(run, 1) for run in wanted}, wanted, "what each run holds")


def any_name_is_only_a_name(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        for i, run in enumerate(ODD_NAMES):
            journal.append([Append(run, 1, b"%d" % i)])
        equal(other.runs(), sorted(ODD_NAMES), "runs")
        for i, run in enumerate(ODD_NAMES):
            equal(other.read(run, 1), [b"%d" % i], f"the run called {run!r}")


def closing_twice_is_fine_and_nothing_works_afterwards(open_journal: OpenJournal) -> None:
    with opened(open_journal) as other:
        with opened(open_journal) as journal:
            fill(journal, "r", 2)
            journal.close()
            journal.close()
            raises(ValueError, "runs after close", journal.runs)
            raises(ValueError, "last after close", journal.last, "r")
            raises(ValueError, "read after close", journal.read, "r", 1)
            raises(ValueError, "watch after close", journal.watch, "r", 0, 0.0)
            raises(ValueError, "append after close", journal.append, [Append("r", 3, b"x")])
            raises(ValueError, "compact after close", journal.compact, "r", 1)
        equal(other.last("r"), 2, "the other handle is still open")


def closing_ends_a_watch(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, Together() as together:
        together.call(raises, ValueError, "watch while closing", journal.watch, "r", 0, PATIENCE_S)
        journal.close()


READ_CHECKS = (
    a_run_nobody_wrote_is_empty,
    reading_gives_the_entries_that_were_asked_for,
    a_watch_returns_at_once_if_there_is_something,
    a_watch_ends_when_its_time_is_over,
    a_watch_sees_what_another_handle_appends,
    a_watch_sees_what_its_own_handle_appends,
    runs_do_not_see_each_other,
    any_name_is_only_a_name,
    closing_twice_is_fine_and_nothing_works_afterwards,
    closing_ends_a_watch,
)
