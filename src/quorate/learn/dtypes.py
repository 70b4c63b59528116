"""The types of numbers in a file of tensors, and what they become while one calculates with them.

Half-size floats are calculated with as float32; BF16, which numpy does not have, is its upper half. Integers and truth
values are calculated with as float64, which holds them exactly up to 2**53.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]


class Dtype(msgspec.Struct, frozen=True):
    code: str
    """As a header names it."""
    stored: str
    """What numpy calls the bytes in the file. Little-endian, whatever the machine is."""
    works_as: str
    """What is calculated with."""
    floating: bool
    size_bytes: int


DTYPES: Final = {
    dtype.code: dtype
    for dtype in (
        Dtype("BOOL", "|b1", "<f8", False, 1),
        Dtype("U8", "|u1", "<f8", False, 1),
        Dtype("I8", "|i1", "<f8", False, 1),
        Dtype("I16", "<i2", "<f8", False, 2),
        Dtype("U16", "<u2", "<f8", False, 2),
        Dtype("F16", "<f2", "<f4", True, 2),
        Dtype("BF16", "<u2", "<f4", True, 2),
        Dtype("I32", "<i4", "<f8", False, 4),
        Dtype("U32", "<u4", "<f8", False, 4),
        Dtype("F32", "<f4", "<f4", True, 4),
        Dtype("F64", "<f8", "<f8", True, 8),
        Dtype("I64", "<i8", "<f8", False, 8),
        Dtype("U64", "<u8", "<f8", False, 8),
    )
}
"""In the order in which the safetensors library sorts them, smaller before larger."""
CODES: Final = {np.dtype(dtype.stored): code for code, dtype in DTYPES.items() if code != "BF16"}
RANKS: Final = {code: rank for rank, code in enumerate(DTYPES)}


def widen(stored: Numbers, dtype: Dtype, out: Numbers) -> None:
    """Stored numbers as those that are calculated with."""
    if dtype.code == "BF16":
        bits = out.view("<u4")
        np.copyto(bits, stored)
        np.left_shift(bits, 16, out=bits)
    elif dtype.code == "BOOL":
        np.not_equal(stored.view("|u1"), 0, out=out)
    else:
        np.copyto(out, stored)


def narrow(worked: Numbers, dtype: Dtype) -> Numbers:
    """The other way, to the nearest, ties to even. Integers are rounded and kept within what their type can hold;
    a truth value is the majority's, and false if there is none."""
    if dtype.code == "BF16":
        return _to_bf16(worked)
    target = np.dtype(dtype.stored)
    if dtype.floating or worked.dtype == target:
        return worked.astype(target, copy=False)
    whole = np.rint(worked)
    if dtype.code == "BOOL":
        return np.asarray(whole > 0)
    bounds = np.iinfo(target)
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
    return not dtype.floating or bool(np.isfinite(stored).all())


def _to_bf16(worked: Numbers) -> Numbers:
    bits = worked.astype("<f4", copy=False).view("<u4")
    odd = np.right_shift(bits, 16) & 1
    rounded: Numbers = np.right_shift(bits + odd + np.uint32(0x7FFF), 16).astype("<u2")
    nan = np.isnan(worked)
    if nan.any():
        rounded[nan] = (np.right_shift(bits[nan], 16) | 0x40).astype("<u2")
    return rounded
