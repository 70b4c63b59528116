"""In what pieces files are looked through, so that any number of models of any size fit into little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

ALONE: Final = 32_768
"""Numbers at once of any one file, and of what is calculated from them: a quarter of a megabyte of float64."""
IN_CACHE: Final = 524_288
"""Numbers at once, of all files together: two megabytes of float32, about what a core's own cache holds."""
WORTH_READING: Final = 8192
"""Fewer numbers of each file at once, and asking for them takes longer than getting them."""


def width(files: int, model_bytes: int) -> int:
    """How many numbers of each of so many files are looked at together. For few files what the cache holds; for many
    more than that, up to half a model in all. A megabyte is taken in any case."""
    wanted = max(IN_CACHE // files, WORTH_READING)
    room = max(model_bytes // 2, 1024 * 1024) // (4 * files)
    return max(1, min(wanted, room, ALONE))


def pieces(size: int, step: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each piece of so many numbers."""
    for start in range(0, size, step):
        yield start, min(start + step, size)
