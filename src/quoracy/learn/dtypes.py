"""The types of numbers in a file of tensors, and what they become while one calculates with them.

Floats of 16 and 8 bits are calculated with as float32; of those, numpy does not have BF16, which is the upper half of a
float32, nor any of eight bits, which are looked up in tables. A complex number is two numbers. Whole numbers and truth
values are whole numbers of 64 bits, and exact; only a rule that knows nothing of them gets them as float64.

Not here: types of four and six bits, and F8_E8M0. They are codes and scales of blocks of numbers that mean something
only together, so that the mean of two of them is none of anything.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from quoracy.learn import float8

Numbers = NDArray[Any]


class Dtype(msgspec.Struct, frozen=True):
    code: str
    """As a header names it."""
    stored: str
    """What numpy calls the bytes of an element in the file. Little-endian, whatever the machine is."""
    works_as: str
    """What its numbers are calculated with."""
    floating: bool
    size_bytes: int
    """Of an element."""
    parts: int = 1
    """Numbers in an element."""
    in_numpy: bool = True
    """Else it is float32 wherever somebody gets an array of it."""

    @property
    def number(self) -> str:
        """What numpy calls the bytes of a number."""
        return self.stored if self.parts == 1 else self.works_as

    @property
    def number_bytes(self) -> int:
        return self.size_bytes // self.parts

    @property
    def counts_as(self) -> str:
        """For whole numbers: that in which they are exact."""
        return "<u8" if self.code == "U64" else "<i8"


DTYPES: Final = {
    dtype.code: dtype
    for dtype in (
        Dtype("BOOL", "|b1", "<f8", False, 1),
        Dtype("U8", "|u1", "<f8", False, 1),
        Dtype("I8", "|i1", "<f8", False, 1),
        Dtype("F8_E5M2", "|u1", "<f4", True, 1, in_numpy=False),
        Dtype("F8_E4M3", "|u1", "<f4", True, 1, in_numpy=False),
        Dtype("F8_E4M3FNUZ", "|u1", "<f4", True, 1, in_numpy=False),
        Dtype("F8_E5M2FNUZ", "|u1", "<f4", True, 1, in_numpy=False),
        Dtype("I16", "<i2", "<f8", False, 2),
        Dtype("U16", "<u2", "<f8", False, 2),
        Dtype("F16", "<f2", "<f4", True, 2),
        Dtype("BF16", "<u2", "<f4", True, 2, in_numpy=False),
        Dtype("I32", "<i4", "<f8", False, 4),
        Dtype("U32", "<u4", "<f8", False, 4),
        Dtype("F32", "<f4", "<f4", True, 4),
        Dtype("C64", "<c8", "<f4", True, 8, parts=2),
        Dtype("F64", "<f8", "<f8", True, 8),
        Dtype("I64", "<i8", "<f8", False, 8),
        Dtype("U64", "<u8", "<f8", False, 8),
    )
}
"""In the order in which the safetensors library sorts them, smaller before larger."""
CODES: Final = {np.dtype(dtype.stored): code for code, dtype in DTYPES.items() if dtype.in_numpy}
RANKS: Final = {code: rank for rank, code in enumerate(DTYPES)}


def widen(stored: Numbers, dtype: Dtype, out: Numbers) -> None:
    """Stored numbers as those that are calculated with."""
    if dtype.code == "BF16":
        bits = out.view("<u4")
        np.copyto(bits, stored)
        np.left_shift(bits, 16, out=bits)
    elif dtype.code in float8.KINDS:
        float8.decode(stored, dtype.code, out)
    elif dtype.code == "BOOL":
        np.not_equal(stored.view("|u1"), 0, out=out)
    else:
        np.copyto(out, stored)


def narrow(worked: Numbers, dtype: Dtype) -> Numbers:
    """The other way, to the nearest, ties to even. Integers are rounded and kept within what their type can hold;
    a truth value is the majority's, and false if there is none."""
    if dtype.code == "BF16":
        return _to_bf16(worked)
    if dtype.code in float8.KINDS:
        return float8.encode(worked, dtype.code)
    target = np.dtype(dtype.number)
    if dtype.floating or worked.dtype == target:
        return worked.astype(target, copy=False)
    whole = worked if worked.dtype.kind in "iu" else np.rint(worked)
    return np.asarray(whole > 0) if dtype.code == "BOOL" else _within(whole, target)


def _within(whole: Numbers, target: np.dtype[Any]) -> Numbers:
    bounds = np.iinfo(target)
    if whole.dtype.kind in "iu":
        own = np.iinfo(whole.dtype)
        return whole.clip(max(bounds.min, own.min), min(bounds.max, own.max)).astype(target)
    # The largest of 64 bits has no float64: the next above it does, and would wrap around.
    too_large, too_small = whole >= float(bounds.max), whole <= float(bounds.min)
    narrowed = np.where(too_large | too_small, 0.0, whole).astype(target)
    narrowed[too_large] = bounds.max
    narrowed[too_small] = bounds.min
    return narrowed


def is_finite(stored: Numbers, dtype: Dtype) -> bool:
    """Whether there is no infinity and no NaN among numbers as they are stored."""
    if dtype.code == "BF16":
        return not bool(((stored & 0x7F80) == 0x7F80).any())
    if dtype.code in float8.KINDS:
        return float8.is_finite(stored, dtype.code)
    return not dtype.floating or bool(np.isfinite(stored).all())


def _to_bf16(worked: Numbers) -> Numbers:
    bits = worked.astype("<f4", copy=False).view("<u4")
    odd = np.right_shift(bits, 16) & 1
    rounded: Numbers = np.right_shift(bits + odd + np.uint32(0x7FFF), 16).astype("<u2")
    nan = np.isnan(worked)
    if nan.any():
        rounded[nan] = (np.right_shift(bits[nan], 16) | 0x40).astype("<u2")
    return rounded
