"""The account of batches: nothing is trained twice into the model, and nothing is lost without a word.

Batches are numbered 0, 1, 2... over the whole run. Kept here: every number below ``next_batch`` is exactly one of

- *applied*: in the model, once;
- *open*: in the round that is under way;
- *waiting*: was given out and did not come to count; goes first in the next round;
- *skipped*, with a reason.

What was applied is remembered by number, in layers: since the last stored checkpoint, and for each checkpoint that is
remembered what it has beyond the one before it. A roll-back returns a layer to the waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from quoracy.core.witnessed.committee import Ranges, count

SKIPS_KEPT: Final = 256
"""Skipped ranges that are named in the state; the journal has them all."""


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Batches that were tried equally often."""

    first: int
    end: int
    tries: int = 0


class Skip(msgspec.Struct, frozen=True, array_like=True):
    first: int
    end: int
    reason: str


class Account(msgspec.Struct, array_like=True):
    next_batch: int = 0
    waiting: list[Span] = []
    """In order."""
    applied: list[tuple[int, int]] = []
    """Since the last stored checkpoint; merged and in order."""
    layers: list[list[tuple[int, int]]] = []
    """Of each stored checkpoint that is remembered, oldest first: what it has beyond the one before."""
    skipped: list[Skip] = []
    """The newest of them."""
    reasons: dict[str, int] = {}
    """How many were skipped, and why."""
    trained: int = 0
    """Batches of all results that were committed, also of those that did not come to count."""
    moved: int = 0
    """Given to another member within a round."""
    returned: int = 0
    """By roll-backs."""
    again: int = 0
    """Given out once more in a later round, because they did not come to count in an earlier one."""

    @property
    def stored(self) -> int:
        """How many are in the last stored checkpoint."""
        return sum(count(layer) for layer in self.layers)

    @property
    def applied_in_all(self) -> int:
        return self.stored + count(self.applied)

    @property
    def waiting_in_all(self) -> int:
        return sum(span.end - span.first for span in self.waiting)

    @property
    def skipped_in_all(self) -> int:
        return sum(self.reasons.values())

    def take(self, wanted: int) -> list[Span]:
        """The next round's: those that wait first, then new ones."""
        taken: list[Span] = []
        while wanted > 0 and self.waiting:
            span = self.waiting.pop(0)
            size = min(wanted, span.end - span.first)
            self.again += size
            taken.append(Span(span.first, span.first + size, span.tries))
            if span.first + size < span.end:
                self.waiting.insert(0, Span(span.first + size, span.end, span.tries))
            wanted -= size
        if wanted > 0:
            taken.append(Span(self.next_batch, self.next_batch + wanted))
            self.next_batch += wanted
        return taken

    def wait(self, spans: Iterable[Span]) -> None:
        """They go first in the next round."""
        self.waiting = joined([*self.waiting, *spans])

    def retry(self, spans: Iterable[Span], attempts_max: int) -> None:
        """What did not come to count: again, unless it failed too often."""
        again: list[Span] = []
        for span in spans:
            if span.tries >= attempts_max:
                self.leave_out(((span.first, span.end),), f"failed {attempts_max} times")
            else:
                again.append(span)
        self.wait(again)

    def leave_out(self, batches: Ranges, reason: str) -> None:
        for first, end in batches:
            self.skipped.append(Skip(first, end, reason))
            self.reasons[reason] = self.reasons.get(reason, 0) + end - first
        del self.skipped[:-SKIPS_KEPT]

    def apply(self, batches: Iterable[tuple[int, int]]) -> None:
        self.applied = merged([*self.applied, *batches])

    def void(self, batches: Ranges) -> None:
        """Was to be applied, and nobody can: as if it had not been sealed."""
        for first, end in batches:
            self.applied = [part for span in self.applied for part in _without(span, first, end)]
        self.wait(Span(first, end) for first, end in batches)

    def keep(self) -> None:
        """A checkpoint that has all of them is stored."""
        self.layers.append(self.applied)
        self.applied = []

    def forget(self, place: int) -> None:
        """The checkpoint at this place is not remembered any more: what it has belongs to the next one."""
        layer = self.layers.pop(place)
        self.layers[place] = merged([*layer, *self.layers[place]])

    def give_up(self) -> None:
        """The last stored checkpoint is none: back to the one before."""
        self.roll_back()
        self.applied = self.layers.pop()
        self.roll_back()

    def roll_back(self) -> None:
        """To the last stored checkpoint."""
        self.returned += count(self.applied)
        self.wait(Span(first, end) for first, end in self.applied)
        self.applied = []

    def close(self, reason: str) -> None:
        """No round comes any more."""
        self.leave_out(tuple((span.first, span.end) for span in self.waiting), reason)
        self.waiting = []


def cut(spans: Iterable[Span], batches: Ranges) -> list[Span]:
    """Those parts of the spans that are these batches."""
    found = []
    for span in spans:
        for first, end in batches:
            if (low := max(first, span.first)) < (high := min(end, span.end)):
                found.append(Span(low, high, span.tries))
    return found


def tried(spans: Iterable[Span], more: int) -> list[Span]:
    return [Span(span.first, span.end, span.tries + more) for span in spans]


def joined(spans: Iterable[Span]) -> list[Span]:
    """In order; neighbours that were tried equally often are one."""
    result: list[Span] = []
    for span in sorted(spans, key=_first):
        last = result[-1] if result else None
        if last is not None and last.end == span.first and last.tries == span.tries:
            result[-1] = Span(last.first, span.end, span.tries)
        else:
            result.append(span)
    return result


def merged(batches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(span.first, span.end) for span in joined(Span(first, end) for first, end in batches)]


def _first(span: Span) -> int:
    return span.first


def _without(span: tuple[int, int], first: int, end: int) -> list[tuple[int, int]]:
    low, high = span
    return [(a, b) for a, b in ((low, min(high, first)), (max(low, end), high)) if a < b]
