"""The disk is full, fails to sync, or belongs to somebody else for too long."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores.process import running
from tests.stores.programs import payload_of

from quoracy.core.errors import JournalBroken, JournalBusy, JournalFull
from quoracy.ports import Append, Appended, Letter
from quoracy.stores import SqliteJournal, SqliteMailbox


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    """The library that makes the disk fail: see shim.c."""
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def failing_disk(shim, tmp_path):
    """The environment of a process whose disk can be made to fail, by files in the directory ``faults``."""
    faults = tmp_path / "faults"
    faults.mkdir()
    return {"LD_PRELOAD": str(shim), "QUORACY_FAULTS": str(faults)}


def said_with(fault, directory, environment):
    with running("fail", directory, fault, **environment) as process:
        return process.rest()


def entries(directory):
    with closing(SqliteJournal(directory, create=False)) as journal:
        return journal.read("r", 1)


def test_every_append_is_synced_before_it_is_acknowledged(tmp_path, failing_disk):
    log = tmp_path / "faults" / "log"
    log.touch()
    with running("append_and_log", tmp_path / "journal", **failing_disk) as process:
        process.rest()
    turns = log.read_text().split("append\n")[1:]
    assert len(turns) == 5
    for turn in turns:
        assert turn.startswith("synced\n")
        assert "synced\nacknowledged\n" in turn


def test_a_full_disk_writes_nothing_and_the_journal_goes_on_when_there_is_room(tmp_path, failing_disk):
    said = said_with("full", tmp_path / "journal", failing_disk)
    assert said == [
        "before [Appended(n=1)]",
        "during JournalFull",
        "during JournalFull",
        "after [Appended(n=2)]",
        "last 2",
    ]
    assert entries(tmp_path / "journal") == [payload_of(1), payload_of(3)]


def test_after_a_failed_sync_of_the_log_the_process_never_writes_again(tmp_path, failing_disk):
    said = said_with("fsync-wal", tmp_path / "journal", failing_disk)
    assert said == [
        "before [Appended(n=1)]",
        "during JournalBroken",
        "during JournalBroken",
        "after JournalBroken",
        "last 1",
    ]
    there = entries(tmp_path / "journal")
    assert there in ([payload_of(1)], [payload_of(1), payload_of(2)])


def test_after_a_failed_write_to_the_log_the_process_never_writes_again(tmp_path, failing_disk):
    said = said_with("write-wal", tmp_path / "journal", failing_disk)
    assert said == [
        "before [Appended(n=1)]",
        "during JournalBroken",
        "during JournalBroken",
        "after JournalBroken",
        "last 1",
    ]
    assert entries(tmp_path / "journal") == [payload_of(1)]


def test_after_a_failed_checkpoint_nothing_is_written_and_the_log_is_kept(tmp_path, failing_disk):
    """A second attempt might succeed without the bytes being there; so closing must not checkpoint either."""
    said = said_with("fsync-db", tmp_path / "journal", failing_disk)
    assert said == [
        "before [Appended(n=1)]",
        "checkpoint False",
        "during JournalBroken",
        "during JournalBroken",
        "after JournalBroken",
        "last 1",
    ]
    assert (tmp_path / "journal" / "journal.db-wal").stat().st_size > 0
    assert entries(tmp_path / "journal") == [payload_of(1)]
    assert not (tmp_path / "journal" / "journal.db-wal").exists()


def test_a_segment_that_cannot_be_synced_replaces_nothing(tmp_path, failing_disk):
    said = said_with("fsync-seg", tmp_path / "journal", failing_disk)
    assert said[:2] == ["before [Appended(n=1)]", "compact JournalBroken"]
    assert said[2:] == ["during JournalBroken", "during JournalBroken", "after JournalBroken", "last 1"]
    assert entries(tmp_path / "journal") == [payload_of(1)]
    with closing(SqliteJournal(tmp_path / "journal")) as journal:
        assert journal.segments("r") == []
        assert journal.compact("r", 1).last == 1
    assert [file.name for file in (tmp_path / "journal").rglob("*.qseg*")] == ["000000000001-000000000001.qseg"]


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal:
        journal.append([Append("r", 1, b"one")])
        writer = journal._database._writer
        writer.execute("PRAGMA max_page_count=1")  # becomes the number of pages there are
        with pytest.raises(JournalFull):
            journal.append([Append("r", 2, b"two"), Append("r", 3, bytes(500_000))])
        assert journal.last("r") == 1
        writer.execute("PRAGMA max_page_count=1000000")
        assert journal.append([Append("r", 2, b"zwei")]) == [Appended(2)]
        assert journal.read("r", 1) == [b"one", b"zwei"]


def test_a_writer_that_stays_too_long_makes_the_others_busy(tmp_path):
    with closing(SqliteJournal(tmp_path, busy_timeout_s=0.05)) as journal:
        journal.append([Append("r", 1, b"one")])
        with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(JournalBusy, match=r"holds it for more than 0\.05 s"):
                journal.append([Append("r", 2, b"two")])
            assert journal.read("r", 1) == [b"one"]
            other.execute("ROLLBACK")
        assert journal.append([Append("r", 2, b"two")]) == [Appended(2)]


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JournalBroken, match="file/journal"):
        SqliteJournal(tmp_path / "file" / "journal")


def test_journal_and_mailbox_share_a_file_without_harm(tmp_path):
    with closing(SqliteJournal(tmp_path)) as journal, closing(SqliteMailbox(tmp_path)) as mailbox:
        for n in range(1, 51):
            assert journal.append([Append("r", n, b"%d" % n)]) == [Appended(n)]
            assert mailbox.post("r", Letter("a", n, b"%d" % n))
        assert len(journal.read("r", 1)) == len(mailbox.collect("r")) == 50
