"""Floats of eight bits, which numpy does not have: all 256 of each kind in a table.

Read through the table, they are exact as float32. Written, a number becomes the nearest of them, of two equally near
the one whose last bit is 0. What is too large becomes infinite, or no number where the kind knows no infinity: nothing
is quietly made smaller.

``E4M3`` has four bits of exponent and three of fraction, ``E5M2`` five and two. ``FNUZ``: finite, no negative zero.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
SIGN: Final = 0x80


class Kind(msgspec.Struct, frozen=True):
    exponent_bits: int
    fraction_bits: int
    bias: int
    largest: int
    """The code of the largest number; those above it, up to the sign, are infinity and what is no number."""
    above: int
    """What stands for a number that is too large."""
    no_number: int
    one_zero: bool
    """The code of a negative zero is taken."""


KINDS: Final = {
    "F8_E5M2": Kind(5, 2, 15, largest=0x7B, above=0x7C, no_number=0x7F, one_zero=False),
    "F8_E4M3": Kind(4, 3, 7, largest=0x7E, above=0x7F, no_number=0x7F, one_zero=False),
    "F8_E4M3FNUZ": Kind(4, 3, 8, largest=0x7F, above=SIGN, no_number=SIGN, one_zero=True),
    "F8_E5M2FNUZ": Kind(5, 2, 16, largest=0x7F, above=SIGN, no_number=SIGN, one_zero=True),
}


def _magnitude(kind: Kind, code: int) -> float:
    """Of a code without its sign. Beyond the largest as if the kind went on."""
    exponent, fraction = code >> kind.fraction_bits, code & ((1 << kind.fraction_bits) - 1)
    whole = fraction / (1 << kind.fraction_bits)
    lowest: float = 2.0 ** (1 - kind.bias)
    return lowest * whole if exponent == 0 else lowest * 2.0 ** (exponent - 1) * (1 + whole)


def _values(kind: Kind) -> NDArray[np.float32]:
    """By code."""
    values = np.full(256, np.nan, np.float32)
    for code in range(kind.largest + 1):
        values[code] = _magnitude(kind, code)
        values[code | SIGN] = -values[code]
    if kind.above not in (kind.no_number, SIGN):
        values[kind.above], values[kind.above | SIGN] = np.inf, -np.inf
    if kind.one_zero:
        values[SIGN] = np.nan
    return values


def _limits(kind: Kind) -> NDArray[np.float64]:
    """Above the n-th of these a number is rounded to code n + 1 or more. The middle between two codes goes to the even
    one: where that is the upper one, the limit is the last number before the middle."""
    codes = [_magnitude(kind, code) for code in range(kind.largest + 2)]
    middles = [(low + high) / 2 for low, high in pairwise(codes)]
    return np.array([middle if code % 2 == 0 else np.nextafter(middle, 0) for code, middle in enumerate(middles)])


VALUES: Final = {code: _values(kind) for code, kind in KINDS.items()}
LIMITS: Final = {code: _limits(kind) for code, kind in KINDS.items()}


def decode(stored: Numbers, code: str, out: Numbers) -> None:
    np.take(VALUES[code], stored, out=out, mode="clip")


def encode(worked: Numbers, code: str) -> Numbers:
    kind = KINDS[code]
    found: Numbers = np.searchsorted(LIMITS[code], np.abs(worked).astype(np.float64)).astype(np.uint8)
    found[found > kind.largest] = kind.above
    if not kind.one_zero:
        found |= np.where(np.signbit(worked), np.uint8(SIGN), np.uint8(0))
    else:
        found[np.signbit(worked) & (found > 0)] |= SIGN
    found[np.isnan(worked)] = kind.no_number
    return found


def is_finite(stored: Numbers, code: str) -> bool:
    return bool(np.isfinite(VALUES[code][stored]).all())
