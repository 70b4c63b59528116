"""Segments: damage in their files, and crashes while they are made and deleted."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.damage import damaged, everything, often, same_or_named

from quoracy.core.errors import EntriesGone, JournalBusy, JournalCorrupt
from quoracy.ports import Append, Appended, Saved
from quoracy.stores import SqliteJournal
from quoracy.stores.durable import Lock
from quoracy.stores.segment import scan
from quoracy.stores.sqlite.archive import Archive, directory_name
from quoracy.testing.journal_reads import ODD_NAMES


@often
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_segment_is_named_or_harmless(closed, tmp_path, place, bit):
    name = next(closed.rglob("*.qseg")).relative_to(closed)

    def flip(content):
        content[int(place * len(content))] ^= 1 << bit

    same_or_named(damaged(closed, tmp_path / "copy", name, flip), everything(closed))


@settings(often, max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True))
def test_a_truncated_segment_is_named_or_only_lost_its_end(closed, tmp_path, place):
    name = next(closed.rglob("*.qseg")).relative_to(closed)

    def cut(content):
        del content[int(place * len(content)) :]

    same_or_named(damaged(closed, tmp_path / "copy", name, cut), everything(closed))


def test_entries_before_the_damage_of_a_segment_can_be_read(closed, tmp_path):
    name = next(closed.glob("segments/alpha/*.qseg")).relative_to(closed)
    fifth = everything(closed)["alpha"][1][1]

    def flip(content):
        content[content.index(fifth)] ^= 1

    directory = damaged(closed, tmp_path / "copy", name, flip)
    with closing(SqliteJournal(directory)) as journal:
        assert journal.read("alpha", 4, 1) == everything(closed)["alpha"][1][:1]
        with pytest.raises(JournalCorrupt) as caught:
            journal.read("alpha", 4)
        assert (caught.value.entry, caught.value.where) == (5, str(name))


def test_a_missing_segment_file_is_named(closed, tmp_path):
    shutil.copytree(closed, tmp_path / "copy")
    next((tmp_path / "copy").glob("segments/alpha/*.qseg")).unlink()
    with pytest.raises(JournalCorrupt, match=r"missing"):
        everything(tmp_path / "copy")


def test_another_runs_segment_under_this_runs_name_is_named(closed, tmp_path):
    shutil.copytree(closed, tmp_path / "copy")
    mine = next((tmp_path / "copy").glob("segments/alpha/*.qseg"))
    shutil.copy(next((tmp_path / "copy").glob("segments/beta/*.qseg")), mine)
    with pytest.raises(JournalCorrupt, match="'beta'"):
        everything(tmp_path / "copy")


class Crash(Exception):
    """The process dies here, as far as the journal can tell."""


def crashing(*_):
    raise Crash


@pytest.fixture
def filled(tmp_path):
    """A journal of 30 entries, all of which may be archived."""
    with closing(SqliteJournal(tmp_path / "journal")) as journal:
        journal.append([Append("r", n, b"%d" % n * n) for n in range(1, 31)])
        journal.save_snapshot("r", Saved(30, b"root", {}))
    return tmp_path / "journal"


def files(directory):
    return sorted(file.name for file in directory.rglob("*.qseg*"))


def numbers(directory):
    with closing(SqliteJournal(directory)) as journal:
        payloads = journal.read("r", 1)
    assert payloads == [b"%d" % n * n for n in range(1, len(payloads) + 1)]
    return len(payloads)


def test_a_crash_between_the_file_and_its_row_loses_nothing(filled, monkeypatch):
    with closing(SqliteJournal(filled)) as journal:
        monkeypatch.setattr("quoracy.stores.sqlite.segments.put_segment", crashing)
        with pytest.raises(Crash):
            journal.compact("r", 10)
        monkeypatch.undo()
        assert files(filled) == ["000000000001-000000000010.qseg"]
    assert numbers(filled) == 30
    with closing(SqliteJournal(filled)) as journal:
        assert journal.segments("r") == []
        assert journal.compact("r", 20).last == 20
    assert files(filled) == ["000000000001-000000000020.qseg"], "what nobody names is swept"
    assert numbers(filled) == 30


def test_a_crash_while_the_file_is_written_loses_nothing(filled, monkeypatch):
    with closing(SqliteJournal(filled)) as journal:
        monkeypatch.setattr("quoracy.stores.durable.Path.replace", crashing)
        monkeypatch.setattr("quoracy.stores.durable.Path.unlink", crashing)  # nobody is left to tidy up
        with pytest.raises(Crash):
            journal.compact("r", 10)
        monkeypatch.undo()
        assert files(filled) == ["000000000001-000000000010.qseg.new"]
        assert journal.compact("r", 20).last == 20
    assert files(filled) == ["000000000001-000000000020.qseg"]
    assert numbers(filled) == 30


def test_a_crash_between_the_row_and_the_deletion_of_a_file_leaves_it_gone(filled, monkeypatch):
    with closing(SqliteJournal(filled)) as journal:
        journal.compact("r", 10)
        monkeypatch.setattr(Archive, "remove", crashing)
        with pytest.raises(Crash):
            journal.compact("r", 20, keep_segments=1)
        monkeypatch.undo()
    assert len(files(filled)) == 2
    with closing(SqliteJournal(filled)) as journal:
        with pytest.raises(EntriesGone):
            journal.read("r", 10)
        journal.compact("r", 30)
        assert files(filled) == ["000000000011-000000000020.qseg", "000000000021-000000000030.qseg"]


def test_segments_are_plain_files_in_the_export_format(filled):
    with closing(SqliteJournal(filled)) as journal:
        sealed = journal.compact("r", 10)
    found = scan((filled / sealed.name).read_bytes())
    assert (found.run, found.sealed, found.damage) == ("r", True, None)
    assert [record.n for record in found.records] == list(range(1, 11))
    assert sealed.size_bytes == (filled / sealed.name).stat().st_size


def test_only_one_process_compacts_at_a_time(filled):
    with closing(SqliteJournal(filled, busy_timeout_s=0.05)) as journal, Lock(filled / "maintenance.lock").hold(1):
        with pytest.raises(JournalBusy, match="maintenance"):
            journal.compact("r", 10)
        assert journal.append([Append("r", 31, b"31" * 31)]) == [Appended(31)]


def test_names_on_disk_differ_where_runs_differ_and_stay_inside():
    names = [directory_name(run) for run in ODD_NAMES]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert "/" not in name
        assert name.strip(".") == name
        assert len(name.encode()) <= 64
    assert directory_name("run-7") == "run-7"
