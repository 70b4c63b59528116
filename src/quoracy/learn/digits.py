"""1,797 handwritten digits of 8 x 8 pixels: small enough to come with the package, and real.

What they are and whose: ``digits.txt`` beside this file.
"""

from __future__ import annotations

import gzip
from importlib import resources
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

FEATURES: Final = 64
CLASSES: Final = 10
DARKEST: Final = 16
"""A pixel counts the dark ones of a 4 x 4 block."""
EVERY: Final = 5
"""Of each digit one in so many is held out, all along the file: it goes from writer to writer, so both parts have some
of each hand."""

Part = Literal["train", "test"]


def labels(part: Part) -> npt.NDArray[np.int64]:
    """Which digit each of them is: 1,442 to train on, 355 held out."""
    return _rows(part)[:, FEATURES].astype(np.int64)


def load(
    part: Part, rows: npt.NDArray[np.int64] | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Pixels from 0 to 1, one digit a row, and which digit it is. ``rows``: only these, in this order."""
    chosen = _rows(part) if rows is None else _rows(part)[rows]
    return chosen[:, :FEATURES].astype(np.float32) / np.float32(DARKEST), chosen[:, FEATURES].astype(np.int64)


def _rows(part: Part) -> npt.NDArray[np.uint8]:
    packed = resources.files("quoracy.learn").joinpath("digits.gz").read_bytes()
    rows = np.frombuffer(gzip.decompress(packed), dtype=np.uint8).reshape(-1, FEATURES + 1)
    held_out = np.zeros(len(rows), dtype=np.bool_)
    for digit in range(CLASSES):
        held_out[np.flatnonzero(rows[:, FEATURES] == digit)[EVERY - 1 :: EVERY]] = True
    chosen: npt.NDArray[np.uint8] = rows[held_out if part == "test" else ~held_out]
    return chosen
