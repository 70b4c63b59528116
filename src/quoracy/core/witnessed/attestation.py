"""How a member says which results of a round it holds, in few bytes: a bitmap, or a Bloom filter on request.

Both are over the first ``known`` results of the round's journaled list, in its order. A *bitmap* is exact: bit i of
byte i // 8, least significant first. A *Bloom filter* holds the results' digests; it never denies what its maker put
in, and claims something else with a probability that its size bounds.

Theory of the filter: with k hash functions and m >= n * k / ln 2 bits, n digests set at most half of the bits in the
mean, so that a foreign digest finds all its k bits set with a probability of 2 ** -k. k is the smallest number for
which that is within the stated rate. Sizes are computed in whole numbers, so that everybody gets the same. The hash
functions are keyed with a salt of the witness' id and of what was drawn when the last result of the list was taken in:
what one filter claims by chance, another does not, and nobody can look for a result that the filters will claim, since
it has to be committed to before there is a salt.

A filter with many more bits set than honest digests set would claim nearly everything. It is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from math import isqrt
from typing import Final

import msgspec

from quoracy.core.codec import encode
from quoracy.core.errors import Refusal

BITMAP: Final = "bitmap"
BLOOM: Final = "bloom"
SALT_BYTES: Final = 32
_PER_LN2: Final = (14427, 10000)
"""1 / ln 2, from above."""


class Scheme(msgspec.Struct, frozen=True):
    """How the attestations of a run are written."""

    style: str = BITMAP
    false_positives: float = 0.01

    def write(self, held: Iterable[int], digests: Sequence[bytes], salt: bytes) -> bytes:
        """Of the results with these digests, those at the positions ``held``."""
        if self.style == BITMAP:
            return bitmap(held, len(digests))
        return bloom(held, digests, salt, self.false_positives)

    def read(self, held: bytes, digests: Sequence[bytes], salt: bytes) -> int | Refusal:
        """As a whole number with bit i set for result i."""
        if self.style == BITMAP:
            return read_bitmap(held, len(digests))
        return read_bloom(held, digests, salt, self.false_positives)


def salt_of(epoch: int, round_: int, drawn: bytes, member: str) -> bytes:
    """Of one member's filter over one list. ``drawn``: shown with the list."""
    named = encode((epoch, round_, drawn, member))
    return blake2b(named, digest_size=SALT_BYTES, person=b"quoracy.bloom").digest()


# -- bitmaps -------------------------------------------------------------------------------------------------------


def bitmap(held: Iterable[int], known: int) -> bytes:
    mask = 0
    for position in held:
        mask |= 1 << position
    return mask.to_bytes((known + 7) // 8, "little")


def read_bitmap(held: bytes, known: int) -> int | Refusal:
    if len(held) != (known + 7) // 8:
        why = f"held has {len(held)} bytes, for {known} results it has {(known + 7) // 8}"
        return Refusal("malformed", why, "send one bit for each result")
    mask = int.from_bytes(held, "little")
    if mask >> known:
        why = f"held has bits set beyond the {known} results that known says"
        return Refusal("malformed", why, "leave the rest of the last byte empty")
    return mask


def positions(mask: int) -> list[int]:
    """Of the bits that are set."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


# -- Bloom filters ---------------------------------------------------------------------------------------------------


@lru_cache(8)
def hashes(false_positives: float) -> int:
    """How many hash functions keep claims by chance within the rate."""
    rate, k = Fraction(false_positives), 1
    while Fraction(1, 2**k) > rate:
        k += 1
    return k


def size_bytes(known: int, false_positives: float) -> int:
    """Of a filter for so many results."""
    times, per = _PER_LN2
    bits = -(-known * hashes(false_positives) * times // per)
    return (bits + 7) // 8


def most_bits(known: int, false_positives: float) -> int:
    """More are never set by so many digests, or hardly ever: half of all in the mean, with four times the spread."""
    bits = 8 * size_bytes(known, false_positives)
    return min(known * hashes(false_positives), bits // 2 + 2 * isqrt(bits) + 2)


def bloom(held: Iterable[int], digests: Sequence[bytes], salt: bytes, false_positives: float) -> bytes:
    size = size_bytes(len(digests), false_positives)
    k = hashes(false_positives)
    mask = 0
    for position in held:
        mask |= _bits(digests[position], salt, k, 8 * size)
    return mask.to_bytes(size, "little")


def read_bloom(held: bytes, digests: Sequence[bytes], salt: bytes, false_positives: float) -> int | Refusal:
    known, size = len(digests), size_bytes(len(digests), false_positives)
    if len(held) != size:
        why = f"held has {len(held)} bytes, a filter for {known} results has {size}"
        return Refusal("malformed", why, f"size it for bloom_false_positives = {false_positives:g}")
    mask = int.from_bytes(held, "little")
    most = most_bits(known, false_positives)
    if mask.bit_count() > most:
        why = f"{mask.bit_count()} of the filter's {8 * size} bits are set; {known} results set at most {most}"
        return Refusal("saturated", why, "put in only what you hold")
    k = hashes(false_positives)
    claimed = 0
    for position, digest in enumerate(digests):
        wanted = _bits(digest, salt, k, 8 * size)
        if mask & wanted == wanted:
            claimed |= 1 << position
    return claimed


def _bits(digest: bytes, salt: bytes, k: int, bits: int) -> int:
    """The digest's bits: k places, by two hashes as Kirsch and Mitzenmacher have shown to be enough."""
    hashed = blake2b(digest, digest_size=16, key=salt).digest()
    first, step = int.from_bytes(hashed[:8], "big"), int.from_bytes(hashed[8:], "big") | 1
    mask = 0
    for i in range(k):
        mask |= 1 << ((first + i * step) % bits)
    return mask
