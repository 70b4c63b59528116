"""One set of samples, cut into the partitions that participants hold. Every sample is in exactly one of them.

    iid          shuffled, and cut into equal parts
    classes:N    equal parts with N classes in each: sorted by class, cut into N shards per part, and dealt, as in
                 McMahan and others, "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017).
                 There a shard may reach over into the next class, and a part may get two shards of one class; here
                 every part has N classes exactly
    volume:B     shuffled, and cut unequally: each part is B times as large as the one before

With 100 parts of Fashion-MNIST these are the tasks known as ``100p_IID_balanced``, ``100p_02cpp`` (``classes:2``) and
``100p_b1_020`` (``volume:1.02``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from quoracy.core.errors import ConfigError
from quoracy.learn.draws import PARTITION, order

Rows = npt.NDArray[np.int64]

WRITE: Final = 'write "iid", "classes:N" (N whole, at least 1) or "volume:B" (B at least 1, such as 1.02)'


class Iid(NamedTuple):
    def cut(self, labels: npt.NDArray[Any], parts: int, seed: int) -> list[Rows]:
        return _consecutive(order(len(labels), PARTITION, seed), shares(len(labels), [1.0] * parts))

    def __str__(self) -> str:
        return "iid"


class Classes(NamedTuple):
    per_part: int

    def cut(self, labels: npt.NDArray[Any], parts: int, seed: int) -> list[Rows]:
        shuffled = order(len(labels), PARTITION, seed)
        names, sizes = np.unique(labels, return_counts=True)
        self._check(parts, len(names))
        counts = _shards(sizes.tolist(), parts, parts * self.per_part)
        hands = _deal(counts, parts, self.per_part, seed)
        shards = [
            _consecutive(shuffled[labels[shuffled] == name], shares(int(size), [1.0] * count))
            for name, size, count in zip(names, sizes, counts, strict=True)
        ]
        return [np.sort(np.concatenate([shards[name].pop() for name in hand])) for hand in hands]

    def _check(self, parts: int, known: int) -> None:
        if self.per_part > known:
            raise ConfigError("partition", str(self), f"there are {known} classes: at most classes:{known}")
        if parts * self.per_part < known:
            fix = f"{parts} parts have no room for {known} classes: at least classes:{math.ceil(known / parts)}"
            raise ConfigError("partition", str(self), f"{fix}, or {math.ceil(known / self.per_part)} parts")

    def __str__(self) -> str:
        return f"classes:{self.per_part}"


class Volume(NamedTuple):
    growth: float

    def cut(self, labels: npt.NDArray[Any], parts: int, seed: int) -> list[Rows]:
        # Powers of the last part, so that the largest weight is 1 and none overflows.
        sizes = shares(len(labels), [self.growth ** (i - parts + 1) for i in range(parts)])
        if 0 in sizes:
            empty = f"{sizes.count(0)} of {parts} parts would get none of {len(labels)} samples"
            raise ConfigError("partition", str(self), f"{empty}: a smaller B, or fewer parts")
        return _consecutive(order(len(labels), PARTITION, seed), sizes)

    def __str__(self) -> str:
        return f"volume:{self.growth}"


Partition = Iid | Classes | Volume


def parse_partition(text: str) -> Partition:
    """What the settings say, as something that can cut."""
    if text == "iid":
        return Iid()
    if (found := re.fullmatch(r"classes:([1-9][0-9]{0,8})", text)) is not None:
        return Classes(int(found[1]))
    if (found := re.fullmatch(r"volume:([0-9]{1,9}(?:\.[0-9]{1,9})?)", text)) is not None and float(found[1]) >= 1:
        return Volume(float(found[1]))
    raise ConfigError("partition", text, WRITE)


def partitions(how: Partition | str, labels: npt.NDArray[Any], parts: int, seed: int) -> list[Rows]:
    """The rows of each part, ascending. The same for the same arguments, on every machine."""
    if not 1 <= parts <= len(labels):
        raise ConfigError("parts", parts, f"from 1 to the number of samples, {len(labels)}")
    cutter = parse_partition(how) if isinstance(how, str) else how
    return cutter.cut(labels, parts, seed)


def shares(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers in proportion to the weights, with the sum ``total``: rounded down, and what is left goes to the
    largest remainders, the first of equal ones first."""
    whole = math.fsum(weights)
    exact = [total * weight / whole for weight in weights]
    sizes = [math.floor(each) for each in exact]
    left = total - sum(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: (sizes[i] - exact[i], i))[:left]:
        sizes[i] += 1
    return sizes


def _consecutive(rows: Rows, sizes: Sequence[int]) -> list[Rows]:
    ends = np.cumsum(sizes)
    return [np.sort(rows[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _shards(sizes: Sequence[int], parts: int, total: int) -> list[int]:
    """How many shards each class is cut into: in proportion to its samples, at least one, at most one per part and one
    per sample."""
    most = [min(parts, size) for size in sizes]
    if sum(most) < total:
        fix = f"{total} shards cannot be cut from {sum(sizes)} samples: fewer parts, or fewer classes in each"
        raise ConfigError("parts", parts, fix)
    counts = [min(max(1, share), top) for share, top in zip(shares(total, sizes), most, strict=True)]
    while (off := total - sum(counts)) != 0:
        # One shard at a time, from the class with the smallest shards or to the one with the largest that may.
        per_shard = [size / count for size, count in zip(sizes, counts, strict=True)]
        able = [i for i, count in enumerate(counts) if (count < most[i] if off > 0 else count > 1)]
        chosen = max(able, key=lambda i: per_shard[i] if off > 0 else -per_shard[i])
        counts[chosen] += 1 if off > 0 else -1
    return counts


def _deal(counts: Sequence[int], parts: int, per_part: int, seed: int) -> list[list[int]]:
    """Which classes each part gets. A part takes those with the most shards left, lots decide between equals: whatever
    is taken first, the last part still finds ``per_part`` different ones."""
    left = list(counts)
    hands = []
    for part in range(parts):
        lots = order(len(left), PARTITION, seed, part + 1).tolist()
        hand = sorted(range(len(left)), key=lambda name: (-left[name], lots[name]))[:per_part]
        for name in hand:
            left[name] -= 1
        hands.append(hand)
    shuffled = order(parts, PARTITION, seed, 0, 1).tolist()
    return [hands[i] for i in shuffled]
