"""What the journal does by itself: checkpoints, page sharing, noticing other handles, letting go."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from threading import active_count
from threading import enumerate as threads
from time import process_time

import pytest

from quoracy.ports import Append, Beat, Saved
from quoracy.stores import SqliteJournal, SqlitePulse


def test_the_log_stays_bounded_while_appending(tmp_path):
    limit = 256 * 1024
    with closing(SqliteJournal(tmp_path, checkpoint_bytes=limit)) as journal:
        for n in range(1, 601):
            journal.append([Append("r", n, bytes(4000))])
        assert (tmp_path / "journal.db-wal").stat().st_size < 8 * limit, "fifty times that was written"
        assert len(journal.read("r", 1)) == 600


def test_a_checkpoint_moves_everything_into_the_file(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal:
        journal.append([Append("r", 1, b"needle in the journal")])
        assert b"needle" not in (tmp_path / "journal.db").read_bytes()
        assert journal.checkpoint() is True
        assert b"needle" in (tmp_path / "journal.db").read_bytes()


def test_closing_leaves_one_file_and_no_thread(tmp_path):
    before = active_count()
    with closing(SqliteJournal(tmp_path, checkpoint_bytes=1)) as journal:
        journal.append([Append("r", 1, b"one")])
        journal.watch("r", 0, 1)
        assert "quoracy-checkpoint" in {thread.name for thread in threads()}
    assert active_count() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.db", "maintenance.lock"]


def test_only_pages_that_are_not_there_yet_are_written(tmp_path):
    def writes():
        return journal._database._writer.total_changes

    with closing(SqliteJournal(tmp_path)) as journal:
        journal.append([Append("r", n, b"x") for n in (1, 2, 3)])
        pages = {b"digest %d" % i: b"page %d" % i for i in range(100)}
        journal.save_snapshot("r", Saved(1, b"root", pages))
        before = writes()
        del pages[b"digest 7"]
        pages[b"digest new"] = b"new"
        journal.save_snapshot("r", Saved(2, b"root", pages))
        assert writes() - before == 4, "one page in, one out, the snapshot's row, the run's row"
        assert journal.load_snapshot("r") == Saved(2, b"root", pages)


def test_pages_of_a_snapshot_that_never_counted_do_no_harm(tmp_path, monkeypatch):
    with closing(SqliteJournal(tmp_path)) as journal:
        journal.append([Append("r", n, b"x") for n in (1, 2, 3)])
        journal.save_snapshot("r", Saved(1, b"root 1", {b"a": b"A"}))
        monkeypatch.setattr("quoracy.stores.sqlite.snapshots.Snapshots._make_it_count", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            journal.save_snapshot("r", Saved(2, b"root 2", {b"a": b"A", b"b": b"B"}))
        monkeypatch.undo()
        assert journal.load_snapshot("r") == Saved(1, b"root 1", {b"a": b"A"})
        journal.save_snapshot("r", Saved(3, b"root 3", {b"c": b"C"}))
        assert journal.load_snapshot("r") == Saved(3, b"root 3", {b"c": b"C"})
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        assert connection.execute("SELECT count(*) FROM pages").fetchone() == (1,)


def test_a_run_that_was_rolled_back_was_never_there(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal, closing(SqliteJournal(tmp_path)) as other:
        with pytest.raises(ValueError, match="entry"):
            journal.append([Append("ghost", 1, b"x"), Append("ghost", 2, b"")])
        other.append([Append("real", 1, b"real")])
        assert journal.runs() == other.runs() == ["real"]
        journal.append([Append("ghost", 1, b"now")])
        assert other.read("ghost", 1) == [b"now"]
        assert other.read("real", 1) == [b"real"]


def test_a_hundred_thousand_events_are_read_in_well_under_a_second(tmp_path):
    entries = 3400  # of thirty events of about a hundred bytes
    with closing(SqliteJournal(tmp_path)) as journal:
        for first in range(1, entries, 100):
            journal.append([Append("r", n, bytes(3000)) for n in range(first, first + 100)])
    began = process_time()  # of this process: others may have the core in between
    with closing(SqliteJournal(tmp_path)) as journal:
        n = 0
        while more := journal.read("r", n + 1):
            n += len(more)
    assert n == entries
    assert process_time() - began < 0.8


def test_beats_do_not_touch_the_journal(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal, closing(SqlitePulse(tmp_path)) as pulse:
        journal.append([Append("r", 1, b"one")])
        before = (tmp_path / "journal.db-wal").read_bytes()
        for seq in range(100):
            pulse.beat("r", "a", Beat(seq))
        assert (tmp_path / "journal.db-wal").read_bytes() == before
        assert pulse.beats("r") == {"a": Beat(99)}


def test_a_read_only_journal_changes_no_file(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal:
        journal.append([Append("r", 1, b"one")])
    before = (tmp_path / "journal.db").read_bytes()
    with closing(SqliteJournal(tmp_path, read_only=True)) as journal:
        assert journal.read("r", 1) == [b"one"]
        with pytest.raises(Exception, match="readonly"):
            journal.append([Append("r", 2, b"two")])
    assert (tmp_path / "journal.db").read_bytes() == before
