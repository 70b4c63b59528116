"""Files that are not ours, or not there, or from the future."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest

from quoracy.core.errors import ConfigError, JournalCorrupt, JournalNewer
from quoracy.stores import SqliteJournal


def test_a_newer_schema_is_refused_and_both_versions_are_named(closed, tmp_path):
    shutil.copytree(closed, tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy" / "journal.db")) as connection:
        connection.execute("PRAGMA user_version=7")
    with pytest.raises(JournalNewer, match=r"version 7.*up to 1"):
        SqliteJournal(tmp_path / "copy")


def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = (tmp_path / "journal.db").read_bytes()
    with pytest.raises(ConfigError, match="another program"):
        SqliteJournal(tmp_path)
    assert (tmp_path / "journal.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"hello", b"x" * 10_000], ids=["empty", "short", "text"])
def test_a_file_that_is_no_database_is_refused(tmp_path, content):
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalCorrupt, match=r"journal\.db"):
        SqliteJournal(tmp_path)
    assert (tmp_path / "journal.db").read_bytes() == content


def test_a_log_without_its_database_is_not_used_for_a_new_one(crashed, tmp_path):
    shutil.copytree(crashed, tmp_path / "copy")
    (tmp_path / "copy" / "journal.db").unlink()
    with pytest.raises(JournalCorrupt, match="missing"):
        SqliteJournal(tmp_path / "copy")


def test_segments_without_their_database_are_not_overlooked(closed, tmp_path):
    shutil.copytree(closed, tmp_path / "copy")
    (tmp_path / "copy" / "journal.db").unlink()
    with pytest.raises(JournalCorrupt, match="segments"):
        SqliteJournal(tmp_path / "copy")


def test_nothing_is_created_where_no_journal_is_expected(tmp_path):
    for how in ({"create": False}, {"read_only": True}):
        with pytest.raises(ConfigError, match=r"no journal\.db"):
            SqliteJournal(tmp_path / "nowhere", **how)
    assert list(tmp_path.iterdir()) == []
