"""Whole arrays as the file of tensors that they would be, without writing one: for those who only send it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from blake3 import blake3

from quoracy.learn.dtypes import Numbers, narrow
from quoracy.learn.header import Layout, Spec, build
from quoracy.learn.tensors import CHUNK_BYTES, bytes_of, code_of


class Packed:
    """The same bytes as those that ``save`` writes. The arrays are looked at whenever pieces are asked for, so they
    must not change before the last of them was."""

    def __init__(self, arrays: Mapping[str, Numbers], codes: Mapping[str, str] | None = None) -> None:
        """``codes``: names whose float32 numbers are stored as a type that numpy does not have, such as BF16. Raises
        BadTensors."""
        named = codes or {}
        layout: Layout = {
            name: (named.get(name) or code_of(name, array), array.shape) for name, array in arrays.items()
        }
        self._header, self._specs = build(layout)
        self._flat = {spec.name: _flat(arrays[spec.name], spec) for spec in self._specs}
        self.size_bytes = self._specs[-1].end if self._specs else len(self._header)
        hasher = blake3()
        for piece in self.pieces():
            hasher.update(piece)
        self.digest: str = hasher.hexdigest()

    def pieces(self, begin: int = 0) -> Iterator[memoryview]:
        """All bytes from ``begin`` on, a few million at a time."""
        if begin < len(self._header):
            yield memoryview(self._header)[begin:]
        for spec in self._specs:
            if spec.end > begin and spec.size:
                yield from self._of(spec, max(0, begin - spec.begin))

    def _of(self, spec: Spec, begin: int) -> Iterator[memoryview]:
        flat, skip = self._flat[spec.name], begin % spec.dtype.number_bytes
        for start in range(begin // spec.dtype.number_bytes, spec.size, CHUNK_BYTES):
            stored = np.ascontiguousarray(narrow(flat[start : start + CHUNK_BYTES], spec.dtype))
            yield bytes_of(stored)[skip:]
            skip = 0


def _flat(array: Numbers, spec: Spec) -> Numbers:
    flat = array.reshape(-1)
    if spec.dtype.parts > 1:
        flat = np.ascontiguousarray(flat, spec.dtype.stored).view(spec.dtype.number)
    return flat
