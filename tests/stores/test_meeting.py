"""Meetings over a bare store: arriving in one trip, and being let go on by what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pytest
from tests.stores.tcpserver import Server, tcpstore_server
from tests.stores.test_tcpstore import BOUND_S, SHORT_S, stopped

from quoracy.core.errors import EntriesGone
from quoracy.ports import Append, Letter
from quoracy.ports.keyvalue import StoreLost, Unreachable
from quoracy.stores.keyvalue import KeyValueJournal, KeyValueMailbox, KeyValuePulse, MemoryKeyValue, Rack
from quoracy.stores.keyvalue.notes import SLOT_BYTES, count_of, frame, unframe
from quoracy.stores.tcpstore import open_journal
from quoracy.testing.expect import Together
from quoracy.testing.journal_archive import snapshot_of

PATIENCE_S = 20.0
Opener = Callable[[], KeyValueJournal]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tcpstore_server() as running:
        yield running


@pytest.fixture(params=["memory", "tcpstore"])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Another handle on the same store with each call."""
    rack, opened = Rack(), list[KeyValueJournal]()
    url = request.getfixturevalue("server").url() if request.param == "tcpstore" else ""

    def open_one() -> KeyValueJournal:
        opened.append(open_journal(url) if url else KeyValueJournal(MemoryKeyValue(rack)))
        return opened[-1]

    yield open_one
    for journal in opened:
        journal.close()


def write(journal: KeyValueJournal, *numbers: int) -> None:
    for n in numbers:
        journal.append([Append("r", n, b"entry %d" % n)])


def test_whoever_arrives_sees_who_else_has_and_what_was_written(opener: Opener) -> None:
    one, other = opener(), opener()
    write(one, 1, 2)
    met = one.meeting.arrive("r", "door", 5, b"from one", 2, 2, False)
    assert (met.count, met.notes, met.letters, met.entry) == (1, [], False, None)
    met = other.meeting.arrive("r", "door", 5, b"from other", 2, 2, True)
    assert (met.count, met.notes, met.letters, met.entry) == (2, [b"from one", b"from other"], False, b"entry 2")


def test_a_note_too_many_or_too_long_is_no_harm(opener: Opener) -> None:
    one = opener()
    long = bytes(range(100))
    assert one.meeting.arrive("r", "door", 1, long, 99, 1, False).count == 4
    met = one.meeting.arrive("r", "door", 1, b"", 5, 1, False)
    assert (met.count, met.notes) == (5, [long, b""])


@pytest.mark.parametrize("size_bytes", [0, 1, SLOT_BYTES - 2, SLOT_BYTES - 1, 4096])
def test_notes_of_any_length_come_back(size_bytes: int) -> None:
    notes = [b"x" * size_bytes, b"short", b"y" * size_bytes]
    there = b"".join(map(frame, notes))
    assert unframe(there) == notes
    assert count_of(there) >= len(notes)


def test_an_entry_that_cannot_be_read_any_more_is_told_and_the_note_was_left(opener: Opener) -> None:
    one, other = opener(), opener()
    write(one, 1, 2, 3)
    one.save_snapshot("r", snapshot_of(2))
    one.compact("r", 2, keep_segments=0)
    with pytest.raises(EntriesGone, match="begins at 3"):
        other.meeting.arrive("r", "door", 1, b"left", 9, 2, True)
    assert one.meeting.arrive("r", "door", 1, b"", 1, 3, False).notes == [b"left", b""]


def test_whether_there_are_letters_is_known_by_everybody_once_somebody_has_looked() -> None:
    rack = Rack()
    journal, mailbox = KeyValueJournal(MemoryKeyValue(rack)), KeyValueMailbox(MemoryKeyValue(rack))

    def letters() -> bool:
        return journal.meeting.arrive("r", "door", 1, b"", 99, 1, False).letters

    assert not letters()
    mailbox.post("r", Letter("a", 1, b"x"))
    assert letters()
    assert [letter.seq for letter in mailbox.collect("r")] == [1]
    mailbox.discard("r", "a", 1)
    assert letters(), "nobody has looked since"
    assert mailbox.collect("r") == []
    assert not letters()
    mailbox.post("r", Letter("a", 2, b"x"))
    assert letters()


def test_whoever_waits_is_told_of_the_usual_entry_and_of_no_other(opener: Opener) -> None:
    one, other = opener(), opener()
    write(one, 1)
    assert one.meeting.wait("r", 1, 1, 0.0) is None
    with Together() as together:
        together.call(one.meeting.wait, "r", 1, 1, PATIENCE_S)
        write(other, 2)
        other.meeting.tell("r", 2, True, None)
        assert together.wait() == [True]
    assert one.meeting.wait("r", 2, 1, 0.01) is None
    assert opener().meeting.wait("r", 1, 1, PATIENCE_S) is True, "it is true for ever"


def test_whoever_waits_is_told_of_another_entry_and_not_what_it_is(opener: Opener) -> None:
    one, other = opener(), opener()
    write(one, 1)
    with Together() as together:
        together.call(one.meeting.wait, "r", 1, 1, PATIENCE_S)
        write(other, 2)
        other.meeting.tell("r", 2, False, 1)
        assert together.wait() == [False]
    other.meeting.tell("r", 3, False, None)
    assert one.meeting.wait("r", 2, 2, 0.01) is None, "nobody knew whom to tell"
    with Together() as together:
        together.call(one.meeting.wait, "r", 2, 2, PATIENCE_S)
        other.meeting.tell("r", 3, False, 2)
        assert together.wait() == [False]


def test_an_entry_that_was_told_is_followed_in_one_trip() -> None:
    """The journal need not look for the end of the run."""
    rack = Rack()
    one, other = KeyValueJournal(MemoryKeyValue(rack)), KeyValueJournal(MemoryKeyValue(rack))
    write(other, 1, 2)
    assert one.read("r", 1, 1) == [b"entry 1"]
    other.meeting.tell("r", 2, True, None)
    assert one.meeting.wait("r", 1, 1, PATIENCE_S) is True
    write(other, 3)
    assert one._known["r"] == 2
    assert one.meeting.arrive("r", "door", 1, b"", 9, 3, True).entry == b"entry 3"
    assert one._known["r"] == 3


def test_what_nobody_waits_for_any_more_is_removed() -> None:
    rack = Rack()
    journal = KeyValueJournal(MemoryKeyValue(rack))
    pulse = KeyValuePulse(MemoryKeyValue(rack))
    turned = 1
    write(journal, 1)
    for turn in range(1, 40):
        n = turn + 1
        for _ in range(3):
            journal.meeting.arrive("r", "door", turn, b"", 3, n - 1, True)
        assert len(pulse.arrivals("r", "door", turn)) == 3
        write(journal, n)
        usual = turn % 7 != 0
        journal.meeting.tell("r", n, usual, turned)
        turned = turned if usual else n
    hints = sorted(key.removeprefix("quoracy/run/r/") for key in rack.values if "/entry/" not in key)
    kept = [key for key in hints if key.partition("/")[0] in ("usual", "turned", "tally")]
    assert kept == ["tally/door/notes/38", "tally/door/notes/39", "turned/29", "usual/39", "usual/40"]


# -- a server that dies, is silent, or forgets ---------------------------------------------------------------------


def test_a_server_that_dies_while_somebody_waits_is_told() -> None:
    with tcpstore_server() as server:
        journal = open_journal(server.url(), timeout_s=SHORT_S)
        with Together() as together:
            together.call(_failure, journal)
            server.kill()
            assert together.wait() == [Unreachable]
        journal.close()


def _failure(journal: KeyValueJournal) -> type[Exception]:
    try:
        journal.meeting.wait("r", 1, 1, PATIENCE_S)
    except Exception as error:
        return type(error)
    raise AssertionError("a dead server has let somebody go on")


def test_a_silent_server_lets_nobody_wait_for_longer_than_wanted() -> None:
    with tcpstore_server() as server:
        journal = open_journal(server.url(), timeout_s=SHORT_S)
        assert journal.meeting.wait("r", 1, 1, 0.0) is None
        began = monotonic()
        with stopped(server):
            assert journal.meeting.wait("r", 1, 1, 0.1) is None
        assert monotonic() - began < BOUND_S
        journal.meeting.tell("r", 2, True, None)
        assert journal.meeting.wait("r", 1, 1, PATIENCE_S) is True
        journal.close()


def test_an_empty_server_at_the_same_address_lets_nobody_go_on() -> None:
    with tcpstore_server() as server:
        url = server.url()
        journal = open_journal(url)
        assert journal.meeting.wait("r", 1, 1, 0.0) is None
        server.kill()
    with tcpstore_server(server.port):
        fresh = open_journal(url)
        fresh.meeting.tell("r", 2, True, None)
        with pytest.raises(StoreLost):
            journal.meeting.wait("r", 1, 1, PATIENCE_S)
        fresh.close()
        journal.close()


def test_a_handle_that_is_closed_ends_the_wait(server: Server) -> None:
    journal = open_journal(server.url())
    with Together() as together:
        together.call(_failure, journal)
        while not journal._session.store._busy:  # type: ignore[attr-defined]
            pass
        journal.close()
        assert together.wait() == [ValueError]
