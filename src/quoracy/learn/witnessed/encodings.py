"""How the numbers of a result travel: all of them, the largest, or each in one byte.

Encoding is done by one member, decoding by all, so decoding alone must give the same bits everywhere: it copies, widens
and multiplies once. Encoding is deterministic as well: the same numbers give the same bytes.

An encoding may *carry state*: keep what it left out and add it to the next result. Nobody else can compute such a
result again. None of these does; each result follows from its gradient alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from quoracy.core.errors import ConfigError
from quoracy.learn.header import Layout

Array = NDArray[Any]
Parts = dict[str, Array]

LARGEST: Final = 127
"""Of a signed byte, in both directions: -128 has no counterpart, and is not used."""
MAX_SCALE: Final = np.nextafter(np.finfo(np.float32).max / np.float32(LARGEST), np.float32(0))
"""With the next above it, the largest byte would be infinite."""


class Encoding(Protocol):
    name: ClassVar[str]
    carries_state: ClassVar[bool]

    def layout(self, name: str, shape: tuple[int, ...]) -> Layout:
        """What one float32 tensor becomes in a file."""

    def encode(self, name: str, numbers: Array) -> Parts:
        """From finite float32."""

    def decode(self, name: str, shape: tuple[int, ...], parts: Mapping[str, Array]) -> Array:
        """Float32 of this shape, from parts of the layout above. Raises ValueError for parts that mean nothing."""


class Plain:
    """All numbers, as float32."""

    name: ClassVar[str] = "plain"
    carries_state: ClassVar[bool] = False

    def layout(self, name: str, shape: tuple[int, ...]) -> Layout:
        return {name: ("F32", shape)}

    def encode(self, name: str, numbers: Array) -> Parts:
        return {name: numbers}

    def decode(self, name: str, shape: tuple[int, ...], parts: Mapping[str, Array]) -> Array:
        return parts[name].reshape(shape)


class TopK:
    """Of each tensor a share of its numbers: those farthest from 0, and of equals the first. The others count as 0."""

    name: ClassVar[str] = "topk"
    carries_state: ClassVar[bool] = False

    def __init__(self, fraction: float) -> None:
        if not 0 < fraction <= 1:
            raise ConfigError("hyper.topk", fraction, "above 0 and at most 1: the share of numbers that is sent")
        self.fraction = fraction

    def kept(self, size: int) -> int:
        """At least one of every tensor."""
        return min(size, max(1, math.ceil(size * self.fraction)))

    def layout(self, name: str, shape: tuple[int, ...]) -> Layout:
        size = math.prod(shape)
        kept = self.kept(size)
        return {f"{name}/index": (_index_code(size), (kept,)), f"{name}/value": ("F32", (kept,))}

    def encode(self, name: str, numbers: Array) -> Parts:
        flat = numbers.reshape(-1)
        index = _largest(np.abs(flat), self.kept(flat.size))
        wide = np.uint32 if _index_code(flat.size) == "U32" else np.uint64
        return {f"{name}/index": index.astype(wide), f"{name}/value": flat[index]}

    def decode(self, name: str, shape: tuple[int, ...], parts: Mapping[str, Array]) -> Array:
        index, value = parts[f"{name}/index"], parts[f"{name}/value"]
        size = math.prod(shape)
        if index.size and (int(index[-1]) >= size or not bool((index[1:] > index[:-1]).all())):
            raise ValueError(f"tensor '{name}/index' does not rise from each number to the next, up to {size - 1}")
        whole = np.zeros(size, np.float32)
        whole[index] = value
        return whole.reshape(shape)


class Int8:
    """Each number as a whole one from -127 to 127, times the scale of its block."""

    name: ClassVar[str] = "int8"
    carries_state: ClassVar[bool] = False

    def __init__(self, block: int) -> None:
        if not 0 <= block <= 2**31:
            raise ConfigError("hyper.block", block, "so many numbers share a scale: 1 or more, or 0 for a whole tensor")
        self.block = block

    def _width(self, size: int) -> int:
        return max(min(self.block or size, size), 1)

    def layout(self, name: str, shape: tuple[int, ...]) -> Layout:
        size = math.prod(shape)
        blocks = -(-size // self._width(size))
        return {f"{name}/int8": ("I8", (size,)), f"{name}/scale": ("F32", (blocks,))}

    def encode(self, name: str, numbers: Array) -> Parts:
        flat = numbers.reshape(-1)
        width = self._width(flat.size)
        starts = np.arange(0, flat.size, width)
        largest = np.maximum.reduceat(np.abs(flat), starts) if flat.size else flat
        scale = np.minimum(largest / np.float32(LARGEST), MAX_SCALE).astype(np.float32)
        # Numbers so small that their scale is 0, or too coarse a one, become 0 or are cut off at the largest byte.
        by = np.repeat(np.where(scale > 0, scale, np.float32(1)), width)[: flat.size]
        whole = np.clip(np.rint(flat / by), -LARGEST, LARGEST).astype(np.int8)
        return {f"{name}/int8": whole, f"{name}/scale": scale}

    def decode(self, name: str, shape: tuple[int, ...], parts: Mapping[str, Array]) -> Array:
        whole, scale = parts[f"{name}/int8"], parts[f"{name}/scale"]
        if bool((scale < 0).any()):
            raise ValueError(f"tensor '{name}/scale' holds a number below 0")
        by = np.repeat(scale, self._width(whole.size))[: whole.size]
        # What is not finite is found by whoever asked, who knows whose it is.
        with np.errstate(over="ignore", invalid="ignore"):
            decoded: Array = np.multiply(whole.astype(np.float32), by).reshape(shape)
        return decoded


def encoding_of(hyper: Mapping[str, Any]) -> Encoding:
    """As the run's hyper-parameters name it: ``encoding``, and ``topk`` or ``block`` for those that have a choice."""
    name = hyper.get("encoding", Plain.name)
    if name == Plain.name:
        return Plain()
    if name == TopK.name:
        return TopK(_number(hyper, "topk", 0.1))
    if name == Int8.name:
        block = _number(hyper, "block", 256)
        if block != int(block):
            raise ConfigError("hyper.block", block, "a whole number")
        return Int8(int(block))
    raise ConfigError("hyper.encoding", name, f"one of: {Plain.name}, {TopK.name}, {Int8.name}")


def _number(hyper: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = hyper.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"hyper.{name}", value, f"a number, such as {otherwise}")
    return float(value)


def _largest(sizes: Array, kept: int) -> NDArray[np.int64]:
    """Where the ``kept`` largest are, in rising order; of equals the first. Takes no time for a full sort."""
    if kept >= sizes.size:
        return np.arange(sizes.size)
    least = np.partition(sizes, sizes.size - kept)[sizes.size - kept]
    above = np.flatnonzero(sizes > least)
    equal = np.flatnonzero(sizes == least)[: kept - above.size]
    return np.sort(np.concatenate((above, equal)))


def _index_code(size: int) -> str:
    return "U32" if size <= 2**32 else "U64"
