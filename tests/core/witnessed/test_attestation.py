"""Attestations: bitmaps are exact, filters are as small as their rate allows, and neither lets a lie through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.codec import digest
from quoracy.core.errors import Refusal
from quoracy.core.witnessed.attestation import (
    BLOOM,
    Scheme,
    bitmap,
    bloom,
    hashes,
    most_bits,
    positions,
    read_bitmap,
    read_bloom,
    salt_of,
    size_bytes,
)
from quoracy.core.witnessed.events import MAX_MEMBERS, MAX_RESULTS

SALT = salt_of(0, 0, bytes(16), "a")


def digests(number: int, mark: str = "") -> list[bytes]:
    return [digest(f"{mark} {i}".encode()) for i in range(number)]


@given(st.integers(0, 300), st.data())
def test_a_bitmap_says_exactly_what_was_put_in(known: int, given_: st.DataObject) -> None:
    held = given_.draw(st.sets(st.integers(0, known - 1))) if known else set()
    written = bitmap(held, known)
    assert len(written) == (known + 7) // 8
    mask = read_bitmap(written, known)
    assert isinstance(mask, int)
    assert set(positions(mask)) == held
    assert positions(mask) == sorted(held)


def test_bits_are_numbered_from_the_least_significant_of_the_first_byte() -> None:
    assert bitmap([0, 9], 10) == bytes([1, 2])


@pytest.mark.parametrize(("held", "known"), [(b"", 1), (b"\0\0", 8), (b"\0", 9), (b"\0", 0)])
def test_a_bitmap_of_the_wrong_length_is_refused(held: bytes, known: int) -> None:
    refusal = read_bitmap(held, known)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, "bytes" in refusal.why) == ("malformed", True)


def test_a_bitmap_that_claims_results_that_do_not_exist_is_refused() -> None:
    assert read_bitmap(b"\x07", 3) == 7
    refusal = read_bitmap(b"\x0f", 3)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "malformed"


def test_a_bitmap_is_smaller_than_any_filter() -> None:
    for known in (1, 8, 100, 1000):
        assert len(bitmap(range(known), known)) < size_bytes(known, 0.5) + 1


@pytest.mark.parametrize(("rate", "k"), [(0.5, 1), (0.25, 2), (0.1, 4), (0.01, 7), (0.001, 10), (0.000001, 20)])
def test_a_filter_is_sized_from_the_number_of_results_for_its_rate(rate: float, k: int) -> None:
    assert hashes(rate) == k
    for known in (1, 10, 300, MAX_MEMBERS):
        bits = 8 * size_bytes(known, rate)
        exact = known * k * 1.4426950408889634
        assert exact <= bits < exact * 1.0001 + 9
    assert size_bytes(MAX_MEMBERS, rate) <= MAX_RESULTS
    assert size_bytes(0, rate) == 0


@pytest.mark.parametrize(("known", "rate"), [(8, 0.1), (64, 0.01), (256, 0.01), (256, 0.1)])
def test_filters_claim_too_much_no_more_often_than_their_rate(known: int, rate: float) -> None:
    """Measured over 20,000 foreign digests and many salts; four standard deviations above the rate, and not so far
    below it that the filter would be too large."""
    tried = wrong = 0
    for round_ in range(20_000 // known):
        mine = digests(known, f"mine {round_}")
        foreign = digests(known, f"foreign {round_}")
        salt = salt_of(0, round_, bytes(16), "a")
        written = bloom(range(known), mine, salt, rate)
        # The filter holds all of mine; read as if the list were the foreign ones, whatever it claims is by chance.
        claimed = read_bloom(written, foreign, salt, rate)
        assert isinstance(claimed, int)
        tried += known
        wrong += claimed.bit_count()
    spread = (rate * (1 - rate) / tried) ** 0.5
    assert wrong / tried < rate + 4 * spread
    assert wrong / tried > rate / 4


@given(st.integers(1, 60), st.data())
def test_a_filter_never_denies_what_was_put_in(known: int, given_: st.DataObject) -> None:
    held = given_.draw(st.sets(st.integers(0, known - 1)))
    scheme = Scheme(BLOOM, 0.01)
    written = scheme.write(held, digests(known), SALT)
    mask = scheme.read(written, digests(known), SALT)
    assert isinstance(mask, int)
    assert held <= set(positions(mask))


def test_a_saturated_filter_is_refused_and_no_honest_one_ever_is() -> None:
    """The peer that this guards against took 1,024 ones as an attestation of everything."""
    for known in (1, 2, 3, 5, 16, 100, 256):
        size = size_bytes(known, 0.01)
        refusal = read_bloom(b"\xff" * size, digests(known), SALT, 0.01)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "saturated"
        for salt in range(60):
            mine = salt_of(0, salt, bytes(16), "w")
            assert isinstance(
                read_bloom(bloom(range(known), digests(known), mine, 0.01), digests(known), mine, 0.01), int
            )


def test_a_filter_with_one_bit_more_than_may_be_is_refused() -> None:
    known, rate = 64, 0.01
    most = most_bits(known, rate)
    full = (1 << most) - 1
    size = size_bytes(known, rate)
    assert isinstance(read_bloom(full.to_bytes(size, "little"), digests(known), SALT, rate), int)
    more = (full << 1 | 1).to_bytes(size, "little")
    refusal = read_bloom(more, digests(known), SALT, rate)
    assert isinstance(refusal, Refusal)
    assert f"{most + 1} of the filter's {8 * size} bits" in refusal.why


def test_a_filter_of_the_wrong_size_is_refused() -> None:
    refusal = read_bloom(b"\0", digests(64), SALT, 0.01)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "malformed"


def test_filters_are_salted_by_round_and_witness() -> None:
    """What one filter claims by chance, another does not."""
    salts = {
        salt_of(0, 0, bytes(16), "a"), salt_of(1, 0, bytes(16), "a"), salt_of(0, 1, bytes(16), "a"),
        salt_of(0, 0, bytes(15) + b"\1", "a"), salt_of(0, 0, bytes(16), "b"),
    }  # fmt: skip
    assert len(salts) == 5
    written = {bloom(range(8), digests(8), salt, 0.01) for salt in salts}
    assert len(written) == 5
    mine, others = salt_of(0, 0, bytes(16), "a"), salt_of(0, 0, bytes(16), "b")
    copied = read_bloom(bloom(range(100), digests(100), mine, 0.01), digests(100), others, 0.01)
    assert isinstance(copied, int)
    assert copied.bit_count() < 10  # another's filter attests next to nothing


def test_filters_are_the_same_for_ever() -> None:
    """Recorded: members of other versions and languages make the same."""
    assert SALT.hex()[:16] == "bcb74c885d7fb0c2"
    assert bloom([0, 2], digests(4), SALT, 0.01).hex() == "803600490036"
