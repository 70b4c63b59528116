"""Who is a witness in a round, and who trains which batches: drawn from what everybody is shown.

Pure, and the same for coordinator and members: the machine calls ``draw`` when a round begins, every member calls it
with the ``RoundShown`` it got, and nobody has to be told. All draws come from the round's own seed, 16 bytes that are
taken from the journal's entry when the round begins, so that nobody can know them earlier.

The roster is drawn into an order, and the round's batches are dealt in that order, each member's in one piece. Who is
twice as fast gets twice as many: the shares are those of the largest remainder, in whole numbers. Whoever trains has at
least one; with fewer batches than members the first in the order train. Assignment i belongs to the i-th of the order.

Kept here: the quorum is the rounded-up share of the *elected* witnesses, in exact arithmetic; a witness that is lost
stays elected, so that a quorum cannot shrink.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

import msgspec

from quoracy.core.dice import Dice
from quoracy.core.witnessed.views import RoundShown

FIRST_ATTEMPT: Final = 1
FASTEST: Final = 1000
"""Speeds are whole numbers from 1 to this, relative to the fastest."""

Ranges = tuple[tuple[int, int], ...]
"""Of batches: first, and one past the last."""


class Assignment(msgspec.Struct, frozen=True, array_like=True):
    index: int
    attempt: int
    """1, and one more whenever it went to another member."""
    member: str
    batches: Ranges


class Committee(msgspec.Struct, frozen=True):
    witnesses: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    """By index. At most one for each of the roster, when the round begins."""

    def of(self, member: str) -> list[Assignment]:
        """What this member is to train."""
        return [assignment for assignment in self.assignments if assignment.member == member]


def draw(run: str, shown: RoundShown) -> Committee:
    """The same for everybody who was shown the same."""
    drawn = _drawn(
        run, shown.epoch, shown.round, shown.seed, shown.roster, shown.speeds, shown.batches, shown.witness_nodes
    )  # fmt: skip
    if not shown.moved:
        return drawn
    assignments = list(drawn.assignments)
    for index, attempt, member in shown.moved:
        assignments[index] = Assignment(index, attempt, member, assignments[index].batches)
    return Committee(drawn.witnesses, tuple(assignments))


@lru_cache(4)
def _drawn(
    run: str, epoch: int, round_: int, seed: bytes, roster: tuple[str, ...], speeds: tuple[int, ...], batches: Ranges,
    witness_nodes: int,
) -> Committee:  # fmt: skip
    """A round is shown several times; this is drawn once."""
    order = Dice(run, "train", epoch, round_, seed).shuffle(range(len(roster)))
    few = witness_nodes or len(roster)
    elected = Dice(run, "witness", epoch, round_, seed).sample(roster, min(few, len(roster)))
    total = count(batches)
    order = order[:total]
    sizes = dealt(total, [speeds[place] for place in order])
    pieces = zip(order, split(batches, sizes), strict=True)
    assignments = (Assignment(i, FIRST_ATTEMPT, roster[place], piece) for i, (place, piece) in enumerate(pieces))
    return Committee(tuple(elected), tuple(assignments))


@lru_cache(64)
def quorum(share: Fraction, elected: int) -> int:
    """How many of the elected witnesses have to hold a result: exact, and never none. Asked with every signal."""
    return max(1, ceil(share * elected))


def dealt(total: int, speeds: Sequence[int]) -> list[int]:
    """So many batches for each, in proportion to the speeds, at least one for each. There are no fewer batches than
    speeds."""
    whole = sum(speeds)
    if not whole:
        return []
    sizes = [total * speed // whole for speed in speeds]
    by_remainder = sorted(range(len(speeds)), key=lambda i: (-(total * speeds[i] % whole), i))
    for i in by_remainder[: total - sum(sizes)]:
        sizes[i] += 1
    for i in [i for i, size in enumerate(sizes) if size == 0]:
        richest = max(range(len(sizes)), key=lambda j: (sizes[j], -j))
        sizes[richest] -= 1
        sizes[i] = 1
    return sizes


def count(batches: Iterable[tuple[int, int]]) -> int:
    return sum(end - first for first, end in batches)


def split(batches: Iterable[tuple[int, int]], sizes: Iterable[int]) -> list[Ranges]:
    """The batches in pieces of these sizes, in their order."""
    pieces: list[Ranges] = []
    left = [(first, end) for first, end in reversed(tuple(batches)) if end > first]
    for size in sizes:
        piece: list[tuple[int, int]] = []
        while size > 0:
            first, end = left.pop()
            taken = min(size, end - first)
            piece.append((first, first + taken))
            size -= taken
            if first + taken < end:
                left.append((first + taken, end))
        pieces.append(tuple(piece))
    return pieces


def relative(paces: Sequence[int]) -> tuple[int, ...]:
    """Speeds from paces in any unit, 0 for those nobody has timed yet: they get the median of the others."""
    known = sorted(pace for pace in paces if pace > 0)
    if not known:
        return (FASTEST,) * len(paces)
    median, fastest = known[len(known) // 2], known[-1]
    return tuple(max(1, (pace or median) * FASTEST // fastest) for pace in paces)
