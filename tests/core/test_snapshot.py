"""Snapshots: pages named by what they hold, so that only what changed is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.codec import digest, encode
from quoracy.core.errors import JournalCorrupt, JournalNewer
from quoracy.core.snapshot import FORMAT, ROWS_PER_PAGE, Root, Section, Snapshot, pack, unpack

ROWS = [[i, "x" * (i % 7)] for i in range(3 * ROWS_PER_PAGE + 5)]


def whole(snapshot: Snapshot) -> dict[str, object]:
    return unpack("demo", snapshot.n, snapshot.root, snapshot.pages)


def flipped(payload: bytes, bit: int) -> bytes:
    changed = bytearray(payload)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.one_of(
            st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=600),
            st.dictionaries(st.text(max_size=3), st.integers(0, 99), max_size=4),
            st.integers(0, 5),
        ),
        max_size=5,
    )
)
def test_what_was_packed_is_unpacked(sections: dict[str, object]) -> None:
    assert whole(pack("demo", 7, sections)) == sections


def test_rows_are_written_in_pages_and_a_last_one_for_the_rest() -> None:
    assert len(pack("demo", 1, {"table": ROWS}).pages) == 4
    assert len(pack("demo", 1, {"table": ROWS[: 2 * ROWS_PER_PAGE]}).pages) == 2
    assert len(pack("demo", 1, {"table": []}).pages) == 0


@pytest.mark.parametrize("row", [0, ROWS_PER_PAGE - 1, ROWS_PER_PAGE, 2 * ROWS_PER_PAGE + 3, len(ROWS) - 1])
def test_one_changed_row_changes_one_page_and_the_root(row: int) -> None:
    before = pack("demo", 1, {"table": ROWS, "other": {"a": 1}})
    rows = [list(r) for r in ROWS]
    rows[row][1] = "changed"
    after = pack("demo", 2, {"table": rows, "other": {"a": 1}})
    assert len(after.pages.keys() - before.pages.keys()) == 1
    assert len(before.pages.keys() - after.pages.keys()) == 1
    assert before.digest() != after.digest()


def test_the_digest_of_the_root_is_the_digest_of_everything() -> None:
    base = pack("demo", 1, {"a": [1, 2], "b": {"x": 1}})
    assert base.digest() == digest(base.root)
    assert base.digest() == pack("demo", 1, {"a": [1, 2], "b": {"x": 1}}).digest()
    others = [
        pack("demo", 2, {"a": [1, 2], "b": {"x": 1}}),
        pack("omed", 1, {"a": [1, 2], "b": {"x": 1}}),
        pack("demo", 1, {"a": [2, 1], "b": {"x": 1}}),
        pack("demo", 1, {"a": [1, 2], "b": {"x": 2}}),
        pack("demo", 1, {"a": [1, 2], "c": {"x": 1}}),
    ]
    assert len({base.digest(), *(other.digest() for other in others)}) == 6


def test_the_order_of_a_table_is_part_of_the_state() -> None:
    assert pack("demo", 1, {"a": [{"x": 1, "y": 2}]}).digest() != pack("demo", 1, {"a": [{"y": 2, "x": 1}]}).digest()


def test_a_missing_page_is_named_with_its_section() -> None:
    snapshot = pack("demo", 9, {"table": ROWS, "other": 5})
    gone = digest(encode(5))
    pages = {name: page for name, page in snapshot.pages.items() if name != gone}
    with pytest.raises(JournalCorrupt, match=rf"entry 9 .* section 'other': page {gone.hex()[:12]} is missing"):
        unpack("demo", 9, snapshot.root, pages)


@given(st.data())
def test_a_damaged_page_is_named_with_its_section(data: st.DataObject) -> None:
    snapshot = pack("demo", 9, {"table": ROWS, "other": 5})
    name = data.draw(st.sampled_from(sorted(snapshot.pages)))
    bit = data.draw(st.integers(0, len(snapshot.pages[name]) * 8 - 1))
    pages = snapshot.pages | {name: flipped(snapshot.pages[name], bit)}
    with pytest.raises(JournalCorrupt, match=rf"section '\w+': page {name.hex()[:12]} has other bytes"):
        unpack("demo", 9, snapshot.root, pages)


def test_no_bit_of_a_root_can_flip_unseen() -> None:
    """Each is refused by name, or at least gives another digest and loses no row."""
    snapshot = pack("demo", 9, {"table": ROWS, "empty": [], "other": 5, "more": {"a": 1}})
    rows = sum(len(section) for section in whole(snapshot).values() if isinstance(section, list))
    for bit in range(len(snapshot.root) * 8):
        root = flipped(snapshot.root, bit)
        assert Snapshot(9, root, snapshot.pages).digest() != snapshot.digest()
        try:
            sections = unpack("demo", 9, root, snapshot.pages)
        except (JournalCorrupt, JournalNewer):
            continue
        assert sum(len(section) for section in sections.values() if isinstance(section, list)) == rows


def test_a_section_of_one_page_that_names_none_or_two_is_refused() -> None:
    page = encode(5)
    for names in ([], [digest(page), digest(page)]):
        root = encode(Root(FORMAT, "demo", 9, {"other": Section(False, names)}))
        with pytest.raises(JournalCorrupt, match="'other' is one page and names"):
            unpack("demo", 9, root, {digest(page): page})


@pytest.mark.parametrize(("run", "n"), [("other", 9), ("demo", 8)])
def test_a_snapshot_of_another_run_or_entry_is_refused(run: str, n: int) -> None:
    snapshot = pack("demo", 9, {"a": 1})
    with pytest.raises(JournalCorrupt, match="belongs to entry 9 of run 'demo'"):
        unpack(run, n, snapshot.root, snapshot.pages)


def test_a_snapshot_of_a_newer_format_names_both_versions() -> None:
    root = encode(Root(FORMAT + 1, "demo", 9, {}))
    with pytest.raises(JournalNewer, match=f"format {FORMAT + 1}, this Quoracy reads up to {FORMAT}"):
        unpack("demo", 9, root, {})


def test_a_snapshot_of_a_format_that_never_was_is_corrupt() -> None:
    with pytest.raises(JournalCorrupt, match="format 0 does not exist"):
        unpack("demo", 9, encode(Root(0, "demo", 9, {})), {})


def test_bytes_that_are_no_root_are_corrupt() -> None:
    for junk in (b"", b"\xc1", b"\x94\x01\xa1\xff", encode([1, 2, 3])):
        with pytest.raises(JournalCorrupt, match="the snapshot's root: cannot be decoded"):
            unpack("demo", 9, junk, {})
