"""Weights as named numpy arrays: from a file into memory, and back into a file that is fit to be offered.

What is read is mapped privately: a trainer may change the arrays in place, and the file stays what its digest says.
What is written is looked at first, since whoever offers an unfit update is told so late, and by a coordinator that may
not want to hear from it again.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from quorate.learn.dtypes import CODES, DTYPES, widen
from quorate.learn.header import BadTensors, Layout, difference
from quorate.learn.tensors import TensorFile, save
from quorate.sdk.errors import UnfitUpdate

Weights = dict[str, NDArray[Any]]


class Loaded(msgspec.Struct, frozen=True):
    arrays: Weights
    layout: Layout
    """As the file has it: numpy knows no BF16, which is float32 among the arrays."""

    @property
    def bf16(self) -> frozenset[str]:
        return frozenset(name for name, (code, _) in self.layout.items() if code == "BF16")


def load(path: Path) -> Loaded:
    """Raises BadTensors for anything that is not a whole file of tensors: a pickle, first of all."""
    with TensorFile(path) as file:
        if not file.specs:
            return Loaded({}, {})
        with path.open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        arrays: Weights = {}
        for spec in file.specs:
            flat: NDArray[Any] = np.frombuffer(mapped, spec.dtype.stored, spec.size, spec.begin)
            if spec.dtype.code == "BF16":
                whole = np.empty(spec.size, "<f4")
                widen(flat, spec.dtype, whole)
                flat = whole
            arrays[spec.name] = flat.reshape(spec.shape)
        return Loaded(arrays, file.layout)


def write(path: Path, arrays: Mapping[str, Any], like: Loaded | None, bf16: frozenset[str], check: bool) -> str:
    """Write what is to be offered, and return its digest. ``like``: the weights it was trained from. ``bf16``: names
    that are stored so where there are none. Raises UnfitUpdate, naming the tensor."""
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    short = frozenset(like.bf16 if like is not None else bf16) & plain.keys()
    if check:
        _check(plain, like, short)
    try:
        return save(path, plain, bf16=short, sync=True)
    except BadTensors as error:
        path.unlink(missing_ok=True)
        raise UnfitUpdate(str(error), "return arrays of numbers") from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _plain(name: Any, array: Any) -> NDArray[Any]:
    if not isinstance(name, str) or not name:
        raise UnfitUpdate(f"a tensor is called {name!r}", "names are texts, and not empty")
    if not isinstance(array, np.ndarray | np.generic):
        why = f"tensor {name!r} is a {type(array).__module__}.{type(array).__qualname__}"
        raise UnfitUpdate(why, "return numpy arrays, or give participate your torch module with model=")
    return np.asarray(array)


def _check(arrays: Weights, like: Loaded | None, bf16: frozenset[str]) -> None:
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in CODES:
            why = f"tensor {name!r} of shape {array.shape} is of {array.dtype}, which has no place in a file"
            raise UnfitUpdate(why, f"convert it to one of: {', '.join(DTYPES)}")
        if array.dtype.kind == "f" and not bool(np.isfinite(array).all()):
            count = int(array.size - np.count_nonzero(np.isfinite(array)))
            why = f"tensor {name!r} of shape {array.shape} holds {count} numbers that are infinite or none"
            raise UnfitUpdate(why, "a smaller learning rate, or clipping; check=False offers it all the same")
    if like is None:
        return
    made = {name: ("BF16" if name in bf16 else CODES[a.dtype.newbyteorder("<")], a.shape) for name, a in arrays.items()}
    found = difference(made, like.layout)
    if found:
        fix = "return the tensors that train was given, with their names, shapes and types"
        raise UnfitUpdate(found, f"{fix}; check=False offers it all the same")
