"""Which samples a batch is: the same for everybody, whoever is asked to train it.

Batches are numbered over the whole run. Batch b covers the positions from b * batch_size on of an endless sequence: all
samples in one order, then all in another, and so on. An order follows from the run's seed and from how often the
samples were gone through before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quoracy.core.codec import encode
from quoracy.core.errors import ConfigError
from quoracy.learn.draws import order

PASSES_KEPT: Final = 2
"""A round spans the end of one pass and the beginning of the next."""

Ranges = tuple[tuple[int, int], ...]
"""First, and one past the last."""


def ids_of(ranges: Iterable[tuple[int, int]]) -> list[int]:
    return list(chain.from_iterable(range(first, end) for first, end in ranges))


def count_of(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(end - first for first, end in ranges)


def ranges_of(batch_ids: Iterable[int]) -> Ranges:
    """The same in ranges, in the order in which they were given."""
    found: list[tuple[int, int]] = []
    for number in batch_ids:
        if found and found[-1][1] == number:
            found[-1] = found[-1][0], number + 1
        else:
            found.append((number, number + 1))
    return tuple(found)


@lru_cache(PASSES_KEPT)
def permutation(seed: int, number: int, count: int) -> NDArray[np.int64]:
    """The order of pass ``number`` over ``count`` samples."""
    key = blake2b(encode((seed, number, count)), digest_size=16, person=b"quoracy.samples").digest()
    found = order(count, int.from_bytes(key, "big"))
    found.flags.writeable = False
    return found


def rows(batch_ids: Sequence[int], batch_size: int, count: int, seed: int) -> NDArray[np.int64]:
    """Which of ``count`` samples these batches are, batch after batch."""
    if batch_size < 1:
        raise ConfigError("batch_size", batch_size, "at least 1")
    if count < 1:
        raise ConfigError("samples", count, "at least one is needed to train on")
    if min(batch_ids, default=0) < 0:
        raise ConfigError("batch", min(batch_ids), "batches are numbered from 0 on")
    starts = np.array(batch_ids, dtype=np.int64) * batch_size
    positions = (starts[:, None] + np.arange(batch_size, dtype=np.int64)).reshape(-1)
    passes, places = np.divmod(positions, count)
    found = np.empty_like(places)
    for number in np.unique(passes):
        chosen = passes == number
        found[chosen] = permutation(seed, int(number), count)[places[chosen]]
    return found
