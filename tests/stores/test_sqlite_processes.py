"""Several real processes on one journal: they race, they watch each other, they are killed."""

from __future__ import annotations

import os
from contextlib import closing, suppress

import pytest
from tests.stores.process import running
from tests.stores.programs import payload_of

from quoracy.core.errors import EntriesGone
from quoracy.stores import SqliteJournal


def test_of_racing_processes_exactly_one_wins_each_entry(tmp_path):
    rounds = 40
    with (
        running("contend", tmp_path, "a", rounds) as a,
        running("contend", tmp_path, "b", rounds) as b,
        running("contend", tmp_path, "c", rounds) as c,
    ):
        racers = (a, b, c)
        assert [racer.line() for racer in racers] == ["ready"] * 3
        for racer in racers:
            racer.tell()
        told = [racer.rest() for racer in racers]
    with closing(SqliteJournal(tmp_path)) as journal:
        there = [payload.decode() for payload in journal.read("r", 1)]
    assert len(there) == rounds
    assert told == [there] * 3


def test_racing_processes_lose_no_entry_that_was_acknowledged(tmp_path):
    count = 60
    with running("race", tmp_path, "a", count) as a, running("race", tmp_path, "b", count) as b:
        assert (a.line(), b.line()) == ("ready", "ready")
        a.tell()
        b.tell()
        said = {"a": a.rest(), "b": b.rest()}
    with closing(SqliteJournal(tmp_path)) as journal:
        there = journal.read("r", 1)
    assert len(there) == 2 * count
    for me, lines in said.items():
        for line in lines:
            _, n, i = line.split()
            assert there[int(n) - 1] == f"{me}:{i}".encode()


def test_a_watch_sees_what_another_process_appends(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal, running("append_on_demand", tmp_path) as other:
        assert other.line() == "ready"
        for n in range(1, 6):
            other.tell(str(n))
            assert journal.watch("r", n - 1, 30) == n
            assert journal.read("r", n) == [payload_of(n)]
            assert other.line() == f"appended {n}"


def test_every_acknowledged_entry_is_there_after_kill_9(tmp_path):
    acknowledged, saved = 0, 0
    for life in range(8):
        with running("append_for_ever", tmp_path) as process:
            begins = int(process.line().removeprefix("begin "))
            assert begins >= acknowledged
            for _ in range(15 + 23 * life):
                word, _, rest = process.line().partition(" ")
                if word == "saved":
                    saved = int(rest)
                elif word != "compacted":
                    acknowledged = int(word)
            process.kill()
            for line in process.popen.stdout:  # said before the end, but not read yet
                acknowledged = int(line) if line.strip().isdigit() and line.endswith("\n") else acknowledged
        with closing(SqliteJournal(tmp_path)) as journal:
            there = journal.read("r", 1, 10_000)
            assert len(there) >= acknowledged
            assert there == [payload_of(n) for n in range(1, len(there) + 1)]
            snapshot = journal.load_snapshot("r")
            assert snapshot is None or (snapshot.n >= saved and snapshot.root == payload_of(snapshot.n))
    assert acknowledged > 300
    assert saved > 0


def test_the_lock_is_free_as_soon_as_its_holder_is_dead(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal:
        with running("hold_lock", tmp_path) as holder:
            assert holder.line() == "locked True"
            assert journal.try_lock() is False
            assert journal.lock_holder() == str(holder.popen.pid)
            holder.kill()
            assert journal.try_lock() is True
        assert journal.try_lock() is True
        with closing(SqliteJournal(tmp_path)) as second:
            assert second.try_lock() is False
            journal.close()
            assert second.try_lock() is True


def test_a_forked_child_does_not_keep_its_dead_parents_lock(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal, running("hold_lock_and_fork", tmp_path) as holder:
        assert holder.line() == "locked True"
        child = int(holder.line().removeprefix("child "))
        assert journal.try_lock() is False
        holder.kill()
        assert journal.try_lock() is True
        with suppress(ProcessLookupError):
            os.kill(child, 9)


def test_two_processes_may_compact_and_append_at_once(tmp_path):
    with running("append_for_ever", tmp_path) as other:
        other.line()
        with closing(SqliteJournal(tmp_path)) as journal:
            gone = 1
            while gone < 100:
                snapshot = journal.load_snapshot("r")
                if snapshot is not None:
                    journal.compact("r", snapshot.n, keep_segments=1)
                with pytest.raises(EntriesGone) if gone > 1 else suppress(EntriesGone):
                    journal.read("r", 1)
                gone = next((s.first for s in journal.segments("r") if s.present), 1)
                entries = journal.read("r", gone, 50)
                assert entries == [payload_of(n) for n in range(gone, gone + len(entries))]
                while not other.line().startswith("saved"):
                    assert other.popen.poll() is None
