"""What a rule is: something that makes one slice of a model out of the same slice of every update.

A rule never sees a whole model, so that models of any size fit. One that has to compare whole updates before it can
decide says ``surveys = True`` and is shown every slice once before the merging begins. A rule of your own is a class
like this:

    class Midrange(Rule):
        def merge(self, piece):
            return (piece.rows.min(axis=0) + piece.rows.max(axis=0)) / 2

It is given as ``rule = "own"`` with ``of = "module:Midrange"``, and ``settings`` are the arguments it is made with. The
same input must give the same bytes on every machine: use what numpy does number by number, in a fixed order. Sums by
BLAS (``@``, ``dot``) and ``sum`` along a row come out a little different on another processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from quoracy.core.errors import ProtocolError

Rows = NDArray[np.floating[Any]]
Row = NDArray[np.floating[Any]]
Weights = NDArray[np.float64]
Places = NDArray[np.intp]
TOGETHER: Final = 4
"""Products added in float32 before they go into a sum in float64."""


class CannotAggregate(ProtocolError):
    """These updates do not make a model under this rule. The text says why."""


class Slice:
    """The same few thousand numbers of everything. They are float32, or float64 for F64; whole numbers are int64, or
    uint64 for U64. A complex number is two, its real and its imaginary part."""

    def __init__(self, views: Sequence[Row], weights: Weights, previous: Row, state: dict[str, Row]) -> None:
        self.views = views
        """View i is what update i has, in the order of the participants' ids. Not to be changed: it may be the file."""
        self.weights = weights
        """The samples that each update was trained on."""
        self.previous = previous
        """What the model had when the round began. Not to be changed either."""
        self.state = state
        """What the rule keeps, by the names in ``keeps``: change it in place."""

    @cached_property
    def rows(self) -> Rows:
        """The views as one matrix, a copy that is yours to change."""
        return np.stack(self.views)

    @cached_property
    def agreed(self) -> Places | None:
        """The places at which all updates have the same number; None: there are none. Updates that were trained differ
        almost everywhere, so that the first two of them tell nearly all."""
        first, *others = self.views
        if not others:
            return np.arange(len(first))
        same = first == others[0]
        if not same.any():
            return None
        places = np.flatnonzero(same)
        for view in others[1:]:
            if len(places) * 8 > len(first):
                places = places[(view == first)[places]]
            elif len(places):
                places = places[view[places] == first[places]]
            else:
                return None
        return places if len(places) else None

    def as_floats(self) -> Slice:
        """Whole numbers as float64, which holds them exactly up to 2 ** 53."""
        views = [view.astype(np.float64) for view in self.views]
        return Slice(views, self.weights, self.previous.astype(np.float64), self.state)


class Rule:
    """One way to make one model of many updates. An object lives for one round."""

    surveys: ClassVar[bool] = False
    """Whether ``survey`` and ``decide`` are called before the first ``merge``."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """Names of what the rule remembers from round to round: so many more numbers per number of the model."""

    def begins(self) -> Mapping[str, float]:
        """What is in the state before the first round, by name; 0 if nothing is said."""
        return {}

    def survey(self, piece: Slice) -> None:
        """A look at a slice. Only floating tensors are shown, unless there are none."""

    def decide(self) -> Sequence[int] | None:
        """Everything has been shown. The answer is the places of the updates that ``merge`` gets, or None for all."""
        return None

    def merge(self, piece: Slice) -> Row:
        """The new numbers, as float32 or float64. They are rounded to the tensor's own type."""
        raise NotImplementedError

    def merge_whole(self, piece: Slice) -> Row:
        """The same for integers and truth values: counters and tables, not weights. A rule that remembers nothing
        merges them as all others, as float64; momentum would make no sense of them, so that other rules take the mean.
        What comes back is rounded, ties to even. Rules that must be exact have one of their own, as those here do."""
        floats = piece.as_floats()
        return weighted_mean(floats) if self.keeps else self.merge(floats)


def weighted_mean(piece: Slice) -> Row:
    """In float64 and in the order of the updates, divided once at the end. Where all agree, what they agree on."""
    whole = _positive(piece.weights)
    if _all_agree(piece):
        return piece.views[0].astype(np.float64)
    total: Row = np.zeros(len(piece.previous))
    part = np.empty_like(total)
    for view, weight in zip(piece.views, piece.weights.tolist(), strict=True):
        np.copyto(part, view)
        part *= weight
        total += part
    total /= whole
    return as_agreed(piece, total)


def fast_weighted_mean(piece: Slice) -> Row:
    """The same, of float32 and in two thirds of the time: a few products at a time are added in float32, those sums in
    float64, so that the error does not grow with the number of updates: at most seven units in the last place of the
    largest number, and in practice below three."""
    if piece.previous.dtype != np.float32:
        return weighted_mean(piece)
    _positive(piece.weights)
    if _all_agree(piece):
        return piece.views[0].copy()
    shares = (piece.weights / piece.weights.max()).astype(np.float32)
    total: Row = np.zeros(len(piece.previous))
    few, part = np.empty(len(total), np.float32), np.empty(len(total), np.float32)
    for place, (view, weight) in enumerate(zip(piece.views, shares, strict=True)):
        if place % TOGETHER == 0:
            if place:
                total += few
            np.multiply(view, weight, out=few)
        else:
            np.multiply(view, weight, out=part)
            few += part
    total += few
    total /= reduce(add, shares.tolist())  # not sum, which rounds in another way from Python 3.12 on
    return as_agreed(piece, total)


def as_agreed(piece: Slice, merged: Row) -> Row:
    """``merged``, in place, with the very number where all updates have one. A sum that is divided again may come out
    one unit beside it, and a layer that nobody trains would drift from round to round; also a zero keeps its sign."""
    if piece.agreed is not None:
        merged[piece.agreed] = piece.views[0][piece.agreed]
    return merged


def moved(previous: Row, step: Row) -> Row:
    """The numbers after this step. Where it is 0 they are what they were, also a zero with a sign."""
    numbers: Row = previous + step
    np.copyto(numbers, previous, where=step == 0)
    return numbers


def _all_agree(piece: Slice) -> bool:
    return piece.agreed is not None and len(piece.agreed) == len(piece.previous)


def _positive(weights: Weights) -> float:
    whole = float(weights.sum())
    if not whole > 0:
        raise CannotAggregate("the updates were trained on 0 samples in all: there is nothing to weight them by")
    return whole


def mean(rows: Sequence[Row]) -> Row:
    """Of all rows alike, in float64 and in their order."""
    total = np.zeros(len(rows[0]))
    for row in rows:
        total += row
    total /= len(rows)
    return total
