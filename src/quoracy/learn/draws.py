"""Draws that every machine repeats: orders and fractions from a seed.

Only the raw 64-bit numbers of a bit generator are promised to stay the same from one numpy to the next; what a
``Generator`` makes of them is not. Two participants with different versions must cut the same samples the same way, so
everything here is made of raw numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from quoracy.core.errors import ConfigError

PARTITION: Final = 1
TRAIN: Final = 2
INITIAL: Final = 3
"""What a draw is for. It goes first into the seed, so that one number given for all three is not one stream."""


def raw(count: int, *seed: int) -> npt.NDArray[np.uint64]:
    """``count`` numbers of 64 random bits. ``seed``: what the draw is for, and then whatever tells it from others."""
    for part in seed:
        if part < 0:
            raise ConfigError("seed", part, "a whole number, 0 or greater")
    return np.asarray(np.random.PCG64(seed).random_raw(count), dtype=np.uint64)


def order(count: int, *seed: int) -> npt.NDArray[np.int64]:
    """The numbers below ``count``, shuffled."""
    return np.argsort(raw(count, *seed), kind="stable").astype(np.int64, copy=False)


def fractions(count: int, *seed: int) -> npt.NDArray[np.float32]:
    """At least 0, less than 1, each a multiple of 2 ** -24: exact in single precision."""
    return ((raw(count, *seed) >> np.uint64(40)).astype(np.float32)) * np.float32(2.0**-24)
