"""What can still be found in a damaged journal."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores.damage import RUNS, SIZES, damaged, everything

from quoracy.ports import Append
from quoracy.stores import SqliteJournal
from quoracy.stores.sqlite.leaves import leaf_rows
from quoracy.stores.sqlite.salvage import Salvage
from quoracy.stores.sqlite.wal import Log

PAGE = 4096


def found(directory):
    """Every entry that a salvage finds, by run."""
    with closing(Salvage(directory, lambda payload: None)) as salvage:
        return {
            name: [salvage.entry(name, n) for n in range(4, run.last + 1)] for name, run in sorted(salvage.runs.items())
        }


def wanted(directory):
    return {run: everything(directory)[run][1] for run in RUNS}


def test_rows_are_read_from_pages_as_sqlite_reads_them(tmp_path):
    sizes = [*range(1, 60), *range(3900, 4200, 7), *range(8000, 8400, 13), 100_000, 512 * 1024]
    with closing(SqliteJournal(tmp_path)) as journal:
        journal.append([Append("r", n, bytes([n]) * size) for n, size in enumerate(sizes, 1)])
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        rows = {row[0]: row[1:] for row in connection.execute("SELECT place, seal, payload FROM entries")}
    read = {
        key: tuple(columns[1:]) for key, columns in leaf_rows((tmp_path / "journal.db").read_bytes()) if key in rows
    }
    assert read == rows


def test_a_whole_journal_is_found_whole(closed):
    assert found(closed) == wanted(closed)


def test_a_crashed_journal_is_found_whole_and_left_alone(crashed, tmp_path):
    shutil.copytree(crashed, tmp_path / "copy")
    before = {file.name: file.read_bytes() for file in (tmp_path / "copy").iterdir() if file.is_file()}
    there = found(tmp_path / "copy")
    assert {file.name: file.read_bytes() for file in (tmp_path / "copy").iterdir() if file.is_file()} == before
    assert there == wanted(tmp_path / "copy")


def test_the_log_is_played_as_sqlite_plays_it(crashed, tmp_path):
    shutil.copytree(crashed, tmp_path / "copy")
    pages = Log((tmp_path / "copy" / "journal.db-wal").read_bytes()).salvaged()
    SqliteJournal(tmp_path / "copy").close()
    content = (tmp_path / "copy" / "journal.db").read_bytes()
    for number, page in pages.items():
        if number > 1:  # the first page holds counters that change with every opening
            assert content[(number - 1) * PAGE : number * PAGE] == page


@pytest.mark.parametrize("table", ["entries", "runs", "segments", "snapshots", "sqlite_master"])
def test_entries_are_found_without_the_tree_that_leads_to_them(closed, tmp_path, table):
    with closing(sqlite3.connect(closed / "journal.db")) as connection:
        rows = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    page = rows[0] if rows else 1

    def wipe(content):
        content[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)

    directory = damaged(closed, tmp_path / "copy", "journal.db", wipe)
    names = {payload: run for run in RUNS for payload in wanted(closed)[run]}
    with closing(Salvage(directory, names.get)) as salvage:
        for run in RUNS:
            assert [salvage.entry(run, n) for n in range(4, len(SIZES) + 2)] == wanted(closed)[run]


def test_damaged_entries_are_not_found(closed, tmp_path):
    payload = wanted(closed)["beta"][6]

    def flip(content):
        while (at := content.find(payload[:100])) >= 0:
            content[at] ^= 1

    there = found(damaged(closed, tmp_path / "copy", "journal.db", flip))
    assert there["beta"][6] is None
    assert there["beta"][7:] == wanted(closed)["beta"][7:]


def test_a_salvage_leaves_nothing_behind(closed, tmp_path):
    shutil.copytree(closed, tmp_path / "copy")
    before = sorted(path.name for path in Path(tmp_path / "copy").iterdir())
    found(tmp_path / "copy")
    assert sorted(path.name for path in Path(tmp_path / "copy").iterdir()) == before
