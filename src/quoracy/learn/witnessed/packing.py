"""Named arrays as the bytes of a safetensors file, in memory: the same arrays give the same bytes.

Small enough to be sent whole: results and batches of samples. Models are not; they travel tensor by tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoracy.learn.dtypes import CODES, DTYPES
from quoracy.learn.header import MAX_HEADER_BYTES, BadTensors, Layout, build, kind_of, parse

Array = NDArray[Any]


def code_of(name: str, array: Array) -> str:
    """What a header calls the type. Raises BadTensors for what has no place in a file."""
    code = CODES.get(array.dtype.newbyteorder("<"))
    if code is None:
        known = ", ".join(DTYPES)
        raise BadTensors(f"tensor {name!r} is of {array.dtype}, which has no place in a file; one of: {known}")
    return code


def stored(array: Array) -> Array:
    """The array as its bytes are hashed and sent: in C order, little-endian. Itself if it is so already."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


def layout_of_arrays(arrays: Mapping[str, Array]) -> Layout:
    return {name: (code_of(name, array), array.shape) for name, array in arrays.items()}


def pack(arrays: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    header, specs = build(layout_of_arrays(arrays), metadata)
    return b"".join((header, *(stored(arrays[spec.name]).tobytes() for spec in specs)))


def unpack(blob: bytes | memoryview) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays that look into the blob, not to be changed, and the metadata. Raises BadTensors with what is wrong."""
    whole = memoryview(blob).cast("B")
    length = int.from_bytes(whole[:8], "little")
    if len(whole) < 10 or not 2 <= length <= min(len(whole) - 8, MAX_HEADER_BYTES):
        kind = kind_of(bytes(whole[:16]))
        raise BadTensors(f"this is {kind or 'no file of tensors'}; send safetensors")
    specs, metadata = parse(bytes(whole[8 : 8 + length]), len(whole))
    arrays: dict[str, Array] = {}
    for spec in specs:
        stored_as = np.dtype(spec.dtype.stored)
        if CODES.get(stored_as) != spec.dtype.code:
            raise BadTensors(f"tensor {spec.name!r} is of {spec.dtype.code}, which numpy does not have; send float32")
        count = math.prod(spec.shape)
        flat = np.frombuffer(whole, stored_as, count, spec.begin) if count else np.empty(0)
        arrays[spec.name] = flat.astype(stored_as, copy=False).reshape(spec.shape)
        arrays[spec.name].flags.writeable = False
    return arrays, metadata
