"""The file format of segments and exports, on plain bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import JournalNewer
from quoracy.stores.seal import seal
from quoracy.stores.segment import (
    FORMAT,
    RECORD_BYTES,
    encode_end,
    encode_header,
    encode_record,
    encode_segment,
    scan,
)

PAYLOADS = [b"one", b"", b"three" * 100, bytes(300), b"\xff" * 70]
HEADER = encode_header("run")
WHOLE = encode_segment("run", 5, PAYLOADS)


@given(run=st.text(min_size=1, max_size=60), first=st.integers(1, 2**40), payloads=st.lists(st.binary(max_size=200)))
def test_what_is_encoded_comes_back(run, first, payloads):
    found = scan(encode_segment(run, first, payloads) if payloads else encode_header(run) + encode_end(0))
    assert (found.run, found.damage, found.sealed) == (run, None, True)
    assert [(record.n, record.payload) for record in found.records] == list(enumerate(payloads, first))


def test_offsets_say_where_each_record_begins():
    found = scan(WHOLE)
    for record in found.records:
        assert WHOLE[record.offset :].startswith(encode_record(record.n, record.payload))


def test_a_log_without_an_end_is_whole_but_not_sealed():
    found = scan(HEADER + encode_record(1, b"a") + encode_record(2, b"b"))
    assert (len(found.records), found.damage, found.sealed) == (2, None, False)


def test_a_file_that_ends_too_early_is_torn_or_not_sealed_and_all_before_is_good():
    ends = [len(HEADER)] + [record.offset + RECORD_BYTES + len(record.payload) for record in scan(WHOLE).records]
    for size in range(len(WHOLE)):
        found = scan(WHOLE[:size])
        assert found.sealed is False
        assert len(found.records) == max(sum(end <= size for end in ends) - 1, 0)
        assert [record.payload for record in found.records] == PAYLOADS[: len(found.records)]
        if found.damage is None:
            assert size in ends
        else:
            assert found.damage.torn
            assert found.damage.offset == max((end for end in ends if end <= size), default=0)


@given(offset=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_damage_at_the_record_it_is_in_and_never_torn(offset, bit):
    content = bytearray(WHOLE)
    content[offset] ^= 1 << bit
    found = scan(bytes(content))
    records = scan(WHOLE).records
    hit = [record for record in records if record.offset <= offset]
    assert found.damage is not None
    assert found.damage.torn is False
    assert [record.payload for record in found.records] == PAYLOADS[: len(found.records)]
    if offset < len(HEADER):
        assert (found.damage.entry, found.damage.offset, found.run) == (0, 0, "")
    elif offset < records[-1].offset + RECORD_BYTES + len(PAYLOADS[-1]):
        in_first_head = hit[-1].n == 5 and offset < hit[-1].offset + 16
        assert (found.damage.entry, found.damage.offset) == (0 if in_first_head else hit[-1].n, hit[-1].offset)
    else:
        assert found.damage.entry == 10


@pytest.mark.parametrize(
    ("numbers", "damaged"),
    [((1, 2, 2), 3), ((1, 3), 2), ((2, 1), 3), ((1, 2, 4), 3), ((7, 8, 9, 8), 10)],
    ids=["duplicate", "missing", "backwards", "gap", "again"],
)
def test_numbers_that_do_not_grow_by_one_are_damage(numbers, damaged):
    found = scan(HEADER + b"".join(encode_record(n, b"%d" % n) for n in numbers))
    assert found.damage is not None
    assert (found.damage.entry, found.damage.torn) == (damaged, False)
    assert "stands where" in found.damage.what


def test_an_end_that_names_another_entry_is_damage():
    found = scan(HEADER + encode_record(1, b"a") + encode_end(2))
    assert found.damage is not None
    assert "does not name entry 1" in found.damage.what


def test_bytes_behind_the_end_are_damage():
    found = scan(WHOLE + b"x")
    assert found.damage is not None
    assert (found.damage.offset, found.damage.torn) == (len(WHOLE), False)


@pytest.mark.parametrize("content", [b"hello, world, this is text", b"\x89PNG\r\n\x1a\n" + bytes(50), bytes(64)])
def test_another_file_is_not_taken_for_a_segment(content):
    found = scan(content)
    assert found.damage is not None
    assert "not a segment" in found.damage.what


def test_nothing_at_all_is_a_torn_header():
    found = scan(b"")
    assert found.damage is not None
    assert found.damage.torn


def test_a_newer_format_is_refused_and_both_versions_are_named(monkeypatch):
    monkeypatch.setattr("quoracy.stores.segment.FORMAT", FORMAT + 1)
    newer = encode_header("run")
    monkeypatch.undo()
    with pytest.raises(JournalNewer, match=rf"format {FORMAT + 1}.*up to {FORMAT}"):
        scan(newer)


def test_the_first_format_is_read_for_ever():
    """Written by the first release; if this fails, old archives cannot be read any more."""
    old = bytes.fromhex(
        "89515345470d0a1a00010003a822d70572756ec80dd9a024946c5a7bd27f317c1f70ee"
        "000000000000000100000003dfbcbe6594d3c9db3137dc4d6b231ae89278036e6f6e65"
        "000000000000000200000003981cc4b5d33b6735cbc34e692691d1ed622b7c3374776f"
        "000000000000000000000008750e4e5d2ccf40974c06449802dc61d242a605340000000000000002"
    )
    found = scan(old)
    assert (found.run, found.sealed, found.damage) == ("run", True, None)
    assert [(record.n, record.payload) for record in found.records] == [(1, b"one"), (2, b"two")]
    assert encode_segment("run", 1, [b"one", b"two"]) == old


@given(st.lists(st.one_of(st.integers(0, 300), st.binary(max_size=3)), max_size=3), st.data())
def test_different_fields_have_different_seals(fields, more):
    others = more.draw(st.lists(st.one_of(st.integers(0, 300), st.binary(max_size=3)), max_size=3))
    assert (seal(b"kind", *fields) == seal(b"kind", *others)) == (fields == others)
