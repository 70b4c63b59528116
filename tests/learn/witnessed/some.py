"""Models, results and what they are about, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoracy.learn.header import Layout
from quoracy.learn.witnessed.results import About
from quoracy.learn.witnessed.trainer import Result, Weights

BASE = bytes(range(32))
ABOUT = About("run", 3, 4, 5, 1, "m5", ((10, 12), (20, 21)), BASE, 24)
SHAPES: dict[str, tuple[int, ...]] = {"a": (7, 5), "b": (3,), "c": (1,), "e": (), "deep/d": (40, 1000)}
LAYOUT: Layout = {name: ("F32", shape) for name, shape in SHAPES.items()}


def numbers(seed: int, *shape: int) -> NDArray[Any]:
    """Of all sizes, some of them 0, from raw bits: the same with every numpy."""
    count = int(np.prod(shape))
    raw = np.random.PCG64(seed).random_raw(2 * count)
    plain = (raw[:count] >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    scale = np.ldexp(np.float32(1), -(raw[count:] % np.uint64(30)).astype(np.int32)).astype(np.float32)
    found: NDArray[Any] = plain * scale * (raw[:count] % np.uint64(11) != 0)
    return found.reshape(shape)


def weights(seed: int = 1) -> Weights:
    return {name: numbers(seed + place, *shape) for place, (name, shape) in enumerate(SHAPES.items())}


def result(seed: int = 100, samples: int = 24) -> Result:
    return Result(weights(seed), samples, loss=0.5 + seed)


def same(one: Weights, other: Weights) -> bool:
    """Bit for bit, names, types and shapes among them."""
    if one.keys() != other.keys():
        return False
    return all(
        (one[name].dtype, one[name].shape, one[name].tobytes()) == (array.dtype, array.shape, array.tobytes())
        for name, array in other.items()
    )


def turned(arrays: Weights) -> Weights:
    """The same arrays, in another order and column after column."""
    return {name: np.array(array, order="F") for name, array in reversed(arrays.items())}


def half_precision() -> bytes:
    """A file with two numbers in BF16, by hand."""
    header = b'{"h":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + bytes(4)
