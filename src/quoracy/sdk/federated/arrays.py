"""Weights as named numpy arrays: from a file into memory, and back into bytes that are fit to be offered.

What is read is mapped privately: a trainer may change the arrays in place, and the file stays what its digest says.
What is offered is looked at first, since whoever offers an unfit update is told so late, and by a coordinator that may
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

from quoracy.learn.dtypes import CODES, DTYPES, Dtype, narrow, widen
from quoracy.learn.header import BadTensors, Layout, difference
from quoracy.learn.packed import Packed
from quoracy.learn.tensors import TensorFile, whole
from quoracy.sdk.client.errors import UnfitUpdate

Weights = dict[str, NDArray[Any]]


class Loaded(msgspec.Struct, frozen=True):
    arrays: Weights
    layout: Layout
    """As the file has it: types that numpy does not have, such as BF16, are float32 among the arrays."""

    @property
    def codes(self) -> dict[str, str]:
        """Of those."""
        return {name: code for name, (code, _) in self.layout.items() if not DTYPES[code].in_numpy}


def load(path: Path) -> Loaded:
    """Raises BadTensors for anything that is not a whole file of tensors: a pickle, first of all."""
    with TensorFile(path) as file:
        if not file.specs:
            return Loaded({}, {})
        with path.open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        return Loaded({spec.name: whole(mapped, spec) for spec in file.specs}, file.layout)


def pack(arrays: Mapping[str, Any], like: Loaded | None, codes: Mapping[str, str], check: bool) -> Packed:
    """What is to be offered. ``like``: the weights it was trained from. ``codes``: what the numbers of some are stored
    as where there are none. Raises UnfitUpdate, naming the tensor."""
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    wanted = like.codes if like is not None else codes
    short = {name: code for name, code in wanted.items() if name in plain and plain[name].dtype.kind == "f"}
    if check:
        _check(plain, like, short)
    try:
        return Packed(plain, short)
    except BadTensors as error:
        raise UnfitUpdate(str(error), "return arrays of numbers") from None


def _plain(name: Any, array: Any) -> NDArray[Any]:
    if not isinstance(name, str) or not name:
        raise UnfitUpdate(f"a tensor is called {name!r}", "names are texts, and not empty")
    if not isinstance(array, np.ndarray | np.generic):
        why = f"tensor {name!r} is a {type(array).__module__}.{type(array).__qualname__}"
        raise UnfitUpdate(why, "return numpy arrays, or give participate your torch module with model=")
    return np.asarray(array)


def _too_large(array: NDArray[Any], dtype: Dtype) -> int:
    """How many numbers become infinite, or none, where they are stored as this."""
    back = np.empty(array.size, np.float32)
    widen(narrow(array.reshape(-1), dtype), dtype, back)
    return int(back.size - np.count_nonzero(np.isfinite(back)))


def _check(arrays: Weights, like: Loaded | None, codes: Mapping[str, str]) -> None:
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in CODES:
            why = f"tensor {name!r} of shape {array.shape} is of {array.dtype}, which has no place in a file"
            raise UnfitUpdate(why, f"convert it to one of: {', '.join(DTYPES)}")
        if array.dtype.kind in "fc" and not bool(np.isfinite(array).all()):
            count = int(array.size - np.count_nonzero(np.isfinite(array)))
            why = f"tensor {name!r} of shape {array.shape} holds {count} numbers that are infinite or none"
            raise UnfitUpdate(why, "a smaller learning rate, or clipping; check=False offers it all the same")
        if name in codes and (count := _too_large(array, DTYPES[codes[name]])):
            why = f"tensor {name!r} of shape {array.shape} holds {count} numbers that are too large for {codes[name]}"
            raise UnfitUpdate(why, "clip them, or store the tensor as a wider type; check=False offers it all the same")
    if like is None:
        return
    made = {name: (codes.get(name) or CODES[a.dtype.newbyteorder("<")], a.shape) for name, a in arrays.items()}
    found = difference(made, like.layout)
    if found:
        fix = "return the tensors that train was given, with their names, shapes and types"
        raise UnfitUpdate(found, f"{fix}; check=False offers it all the same")
