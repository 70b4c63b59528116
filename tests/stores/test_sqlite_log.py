"""Damage in the write-ahead log is told from a commit that was torn by a crash."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.damage import RUNS, damaged, everything, often

from quoracy.core.errors import JournalCorrupt
from quoracy.stores import SqliteJournal
from quoracy.stores.sqlite.wal import Log


@settings(often, max_examples=80)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), in_head=st.booleans())
def test_a_flipped_bit_in_the_log_of_a_crashed_process_is_named(crashed, tmp_path, place, bit, in_head):
    log = Log((crashed / "journal.db-wal").read_bytes())
    last_commit = log.frame([i for i in range(log.count) if log.frame(i).commits][-2] + 1).offset
    offset = int(place * last_commit)
    if in_head:
        offset = max(offset - 32, 0) // 4120 * 4120 + offset % 56

    def flip(content):
        content[offset] ^= 1 << bit

    directory = damaged(crashed, tmp_path / "copy", "journal.db-wal", flip)
    with pytest.raises(JournalCorrupt, match="cannot be reached"):
        everything(directory)
    assert (directory / "journal.db-wal").exists(), "the evidence must stay"


def test_damage_in_the_last_commit_of_the_log_is_taken_for_a_torn_one(crashed, tmp_path):
    def flip(content):
        content[-100] ^= 1

    found = everything(damaged(crashed, tmp_path / "copy", "journal.db-wal", flip))
    good = everything(damaged(crashed, tmp_path / "good", "journal.db-wal", lambda content: None))
    assert found["alpha"] == good["alpha"]
    assert found["beta"][1] == good["beta"][1][:-1]


@settings(often, max_examples=60)
@given(sectors=st.sets(st.integers(0, 30)), stale=st.booleans())
def test_a_torn_last_commit_is_no_damage(crashed, tmp_path, sectors, stale):
    """Power was lost while the last commit was written: any of its sectors may be missing."""
    log = Log((crashed / "journal.db-wal").read_bytes())
    last_commit = log.frame([i for i in range(log.count) if log.frame(i).commits][-2] + 1).offset

    def tear(content):
        for sector in sectors:
            offset = last_commit // 512 * 512 + sector * 512
            end = min(offset + 512, len(content))
            start = max(offset, last_commit)
            if start < end:
                older = content[start - 4120 * 3 : end - 4120 * 3]
                content[start:end] = older if stale else bytes(end - start)

    found = everything(damaged(crashed, tmp_path / "copy", "journal.db-wal", tear))
    assert len(found["beta"][1]) in (9, 10)


def test_a_damaged_log_can_be_read_up_to_the_damage(crashed, tmp_path):
    log = Log((crashed / "journal.db-wal").read_bytes())

    def flip(content):
        content[log.frame(log.count * 2 // 3).offset + 100] ^= 1

    directory = damaged(crashed, tmp_path / "copy", "journal.db-wal", flip)
    before = (directory / "journal.db-wal").read_bytes()
    with closing(SqliteJournal(directory, create=False, read_only=True)) as journal:
        last = journal.last(RUNS[1])
        assert 0 < last < 13
        assert len(journal.read(RUNS[1], 1)) == last
        with pytest.raises(JournalCorrupt) as caught:
            journal.read(RUNS[1], last + 1)
    assert (caught.value.entry, caught.value.where) == (last + 1, "journal.db-wal")
    assert caught.value.offset == log.frame(log.count * 2 // 3).offset
    assert (directory / "journal.db-wal").read_bytes() == before
