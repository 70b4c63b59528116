"""What must hold of ``append``. Each check is given a function that opens the same store once more."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier

from quoracy.core.errors import JournalGap
from quoracy.ports import MAX_ENTRY_BYTES, MAX_RUN_NAME_BYTES, Append, Appended, Conflict, Journal
from quoracy.testing.expect import PATIENCE_S, Together, equal, opened, raises, true
from quoracy.testing.faults import LostReply, append_surely

OpenJournal = Callable[[], Journal]


def fill(journal: Journal, run: str, count: int, first: int = 1) -> list[bytes]:
    """Append ``count`` entries and return their payloads."""
    payloads = [f"{run}/{n}".encode() for n in range(first, first + count)]
    journal.append([Append(run, n, payload) for n, payload in enumerate(payloads, first)])
    return payloads


def an_appended_entry_is_there_for_every_handle(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        equal(journal.append([Append("r", 1, b"one")]), [Appended(1)], "appending entry 1")
        equal((journal.last("r"), other.last("r")), (1, 1), "last")
        equal(other.read("r", 1), [b"one"], "read by the other handle")
        equal(other.append([Append("r", 2, b"two")]), [Appended(2)], "the other handle appends entry 2")
        equal(journal.read("r", 1), [b"one", b"two"], "read")


def an_entry_survives_closing_and_opening(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        payloads = fill(journal, "r", 3)
    with opened(open_journal) as journal:
        equal(journal.read("r", 1), payloads, "read after opening again")


def a_taken_number_is_a_conflict_that_tells_what_is_there(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal, opened(open_journal) as other:
        journal.append([Append("r", 1, b"one")])
        equal(other.append([Append("r", 1, b"else")]), [Conflict(1, b"one")], "appending entry 1 again")
        equal(other.append([Append("r", 1, b"one")]), [Conflict(1, b"one")], "appending equal bytes again")
        equal(journal.read("r", 1), [b"one"], "read")


def appending_nothing_answers_nothing(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        equal(journal.append([]), [], "append of no wishes")
        equal(journal.runs(), [], "runs")


def several_wishes_are_answered_in_order(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        journal.append([Append("b", 1, b"b1")])
        wishes = [Append("a", 1, b"a1"), Append("b", 1, b"no"), Append("a", 2, b"a2"), Append("c", 1, b"c1")]
        wanted = [Appended(1), Conflict(1, b"b1"), Appended(2), Appended(1)]
        equal(journal.append(wishes), wanted, "four wishes for three runs")
        equal([journal.read(run, 1) for run in "abc"], [[b"a1", b"a2"], [b"b1"], [b"c1"]], "read")


def wishes_behind_a_lost_one_are_lost_too(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        journal.append([Append("r", 1, b"one")])
        wishes = [Append("r", 1, b"x1"), Append("r", 2, b"x2"), Append("s", 1, b"s1"), Append("r", 3, b"x3")]
        lost = Conflict(1, b"one")
        equal(journal.append(wishes), [lost, lost, Appended(1), lost], "wishes on top of a lost one")
        equal((journal.last("r"), journal.last("s")), (1, 1), "last")
        journal.append([Append("r", 2, b"two")])
        again = [Conflict(1, b"one"), Conflict(2, b"two"), Conflict(1, b"one")]
        equal(journal.append([wishes[0], wishes[1], wishes[3]]), again, "a wish whose own number is taken is told that")


def a_number_wished_for_twice_goes_to_the_first(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        wishes = [Append("r", 1, b"first"), Append("r", 1, b"second")]
        equal(journal.append(wishes), [Appended(1), Conflict(1, b"first")], "the same number twice in one call")


def a_gap_writes_nothing_at_all(open_journal: OpenJournal) -> None:
    with opened(open_journal) as journal:
        fill(journal, "r", 2)
        wishes = [Append("r", 3, b"three"), Append("s", 1, b"one"), Append("r", 5, b"five")]
        gap = raises(JournalGap, "entry 5 while 4 is missing", journal.append, wishes)
        equal((gap.run, gap.entry), ("r", 5), "what the gap names")
        equal((journal.last("r"), journal.last("s"), journal.runs()), (2, 0, ["r"]), "last and runs")
        raises(JournalGap, "entry 2 of a new run", journal.append, [Append("t", 2, b"two")])
        equal(journal.append([Append("r", 3, b"three")]), [Appended(3)], "the journal goes on")


def a_wish_outside_the_limits_writes_nothing(open_journal: OpenJournal) -> None:
    name = "n" * (MAX_RUN_NAME_BYTES + 1)
    wrong = {
        "an empty payload": Append("r", 1, b""),
        "a payload that is too large": Append("r", 1, bytes(MAX_ENTRY_BYTES + 1)),
        "entry 0": Append("r", 0, b"x"),
        "a run without a name": Append("", 1, b"x"),
        "a run whose name is too long": Append(name, 1, b"x"),
        "a run whose name is not Unicode": Append("\ud800", 1, b"x"),
    }
    with opened(open_journal) as journal:
        for what, wish in wrong.items():
            raises(ValueError, what, journal.append, [Append("good", 1, b"x"), wish])
        equal(journal.runs(), [], "runs")


def the_largest_entry_comes_back_whole(open_journal: OpenJournal) -> None:
    payload = bytes(range(256)) * (MAX_ENTRY_BYTES // 256)
    with opened(open_journal) as journal, opened(open_journal) as other:
        journal.append([Append("r", 1, payload), Append("r", 2, b"\0"), Append("r", 3, payload[::-1])])
        true(other.read("r", 1) == [payload, b"\0", payload[::-1]], "the largest entries came back changed")


def of_racing_appenders_exactly_one_wins(open_journal: OpenJournal) -> None:
    racers, rounds = 6, 15
    start = Barrier(racers, timeout=PATIENCE_S)

    def race(me: int) -> list[bytes]:
        seen = []
        with opened(open_journal) as journal:
            for n in range(1, rounds + 1):
                start.wait()
                mine = f"{me}:{n}".encode()
                (outcome,) = journal.append([Append("r", n, mine)])
                seen.append(outcome.payload if isinstance(outcome, Conflict) else mine)
        return seen

    with Together() as together:
        for me in range(racers):
            together.call(race, me)
    with opened(open_journal) as journal:
        there = journal.read("r", 1)
    equal(len(there), rounds, "entries after the race")
    for seen in together.results:
        equal(seen, there, "what a racer was told is there")


def appenders_that_go_on_after_a_conflict_lose_nothing(open_journal: OpenJournal) -> None:
    racers, each = 4, 25

    def append_all(me: int) -> None:
        with opened(open_journal) as journal:
            n = 1
            for i in range(each):
                while isinstance(journal.append([Append("r", n, f"{me}:{i}".encode())])[0], Conflict):
                    n += 1

    with Together() as together:
        for me in range(racers):
            together.call(append_all, me)
    with opened(open_journal) as journal:
        there = [payload.decode().split(":") for payload in journal.read("r", 1)]
    for me in range(racers):
        mine = [int(i) for owner, i in there if owner == str(me)]
        equal(mine, list(range(each)), f"what appender {me} wrote, in order")


def an_unknown_outcome_is_resolved_by_the_nonce(open_journal: OpenJournal) -> None:
    with opened(open_journal) as inner, opened(open_journal) as rival:
        journal = LostReply(inner)
        journal.lose_next("after")
        true(append_surely(journal, Append("r", 1, b"nonce-a")), "written, reply lost: it is ours")
        journal.lose_next("before")
        true(append_surely(journal, Append("r", 2, b"nonce-b")), "request lost: tried again")
        rival.append([Append("r", 3, b"nonce-c")])
        journal.lose_next("before")
        true(not append_surely(journal, Append("r", 3, b"nonce-d")), "request lost, and somebody else was faster")
        equal(rival.read("r", 1), [b"nonce-a", b"nonce-b", b"nonce-c"], "read")


APPEND_CHECKS = (
    an_appended_entry_is_there_for_every_handle,
    an_entry_survives_closing_and_opening,
    a_taken_number_is_a_conflict_that_tells_what_is_there,
    appending_nothing_answers_nothing,
    several_wishes_are_answered_in_order,
    wishes_behind_a_lost_one_are_lost_too,
    a_number_wished_for_twice_goes_to_the_first,
    a_gap_writes_nothing_at_all,
    a_wish_outside_the_limits_writes_nothing,
    the_largest_entry_comes_back_whole,
    of_racing_appenders_exactly_one_wins,
    appenders_that_go_on_after_a_conflict_lose_nothing,
    an_unknown_outcome_is_resolved_by_the_nonce,
)
