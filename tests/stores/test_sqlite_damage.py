"""Damage anywhere in the database is named, or does not matter; wrong bytes are never returned."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.damage import build, damaged, everything, often, same_or_named

from quoracy.core.errors import JournalCorrupt
from quoracy.ports import Append
from quoracy.stores import SqliteJournal


@often
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), in_head=st.booleans())
def test_a_flipped_bit_in_the_database_is_named_or_harmless(closed, tmp_path, place, bit, in_head):
    def flip(content):
        offset = int(place * len(content))
        if in_head:  # most bytes are payload; the heads of pages are where the structure is
            offset = offset // 4096 * 4096 + offset % 64
        content[offset] ^= 1 << bit

    same_or_named(damaged(closed, tmp_path / "copy", "journal.db", flip), everything(closed))


@often
@given(place=st.floats(0, 1, exclude_max=True), noise=st.binary(min_size=1, max_size=100))
def test_overwritten_bytes_in_the_database_are_named_or_harmless(closed, tmp_path, place, noise):
    def overwrite(content):
        offset = int(place * len(content))
        content[offset : offset + len(noise)] = noise[: len(content) - offset]

    same_or_named(damaged(closed, tmp_path / "copy", "journal.db", overwrite), everything(closed))


@settings(often, max_examples=60)
@given(place=st.floats(0, 1, exclude_max=True))
def test_a_truncated_database_is_named_or_only_lost_what_is_not_used(closed, tmp_path, place):
    def cut(content):
        del content[int(place * len(content)) :]

    same_or_named(damaged(closed, tmp_path / "copy", "journal.db", cut), everything(closed))


def test_a_database_that_lost_its_last_pages_is_named(closed, tmp_path):
    size = (closed / "journal.db").stat().st_size
    for offset in range(0, size, 4096):

        def cut(content, offset=offset):
            del content[offset:]

        with pytest.raises(JournalCorrupt):
            everything(damaged(closed, tmp_path / "copy", "journal.db", cut))


def test_a_page_that_was_lost_is_named_or_harmless(closed, tmp_path):
    good = everything(closed)
    size = (closed / "journal.db").stat().st_size
    for offset in range(0, size, 4096):

        def wipe(content, offset=offset):
            content[offset : offset + 4096] = bytes(4096)

        same_or_named(damaged(closed, tmp_path / "copy", "journal.db", wipe), good)


def test_a_head_that_was_not_written_does_not_hide_entries(closed, tmp_path):
    """The disk kept an older version of the page that says where the runs end."""
    with closing(build(tmp_path / "old")) as journal:
        journal.checkpoint()
        older = (tmp_path / "old" / "journal.db").read_bytes()
        journal.append([Append("alpha", journal.last("alpha") + 1, b"more")])
    with closing(sqlite3.connect(tmp_path / "old" / "journal.db")) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()

    def revert(content):
        content[(page - 1) * 4096 : page * 4096] = older[(page - 1) * 4096 : page * 4096]

    with pytest.raises(JournalCorrupt, match="but there is more"):
        everything(damaged(tmp_path / "old", tmp_path / "copy", "journal.db", revert))


@pytest.mark.parametrize("n", [8, 10, 13])
def test_a_damaged_payload_is_named_with_its_entry_and_its_place_in_the_file(closed, tmp_path, n):
    payload = everything(closed)["beta"][1][n - 4]

    def flip_first(content):
        content[content.index(payload[:40]) + 5] ^= 1

    directory = damaged(closed, tmp_path / "copy", "journal.db", flip_first)
    with closing(SqliteJournal(directory)) as journal:
        with pytest.raises(JournalCorrupt) as caught:
            journal.read("beta", 7)
        assert (caught.value.run, caught.value.entry, caught.value.where) == ("beta", n, "journal.db")
        place = (closed / "journal.db").read_bytes().index(payload[:40]) - 16
        assert caught.value.offset == place
        assert len(journal.read("beta", 7, n - 7)) == n - 7
        assert len(journal.read("alpha", 7)) == 7


def test_damage_to_the_structure_is_named_with_what_sqlite_says(closed, tmp_path):
    with closing(sqlite3.connect(closed / "journal.db")) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()

    def spoil(content):
        content[(page - 1) * 4096] = 77

    directory = damaged(closed, tmp_path / "copy", "journal.db", spoil)
    with (
        closing(SqliteJournal(directory)) as journal,
        pytest.raises(JournalCorrupt, match=f"Page {page}|page {page}") as caught,
    ):
        journal.read("alpha", 8)
    assert caught.value.offset == (page - 1) * 4096
    assert caught.value.entry == 8
