"""A rule of the user's own, found by its name, and watched: whatever goes wrong in it is told with its name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from quoracy.learn.rules.base import CannotAggregate, Row, Rule, Slice

T = TypeVar("T")


class Own(Rule):
    """Stands before the user's rule and does what that does."""

    def __init__(self, of: str, settings: Mapping[str, Any]) -> None:
        self.of = of
        kind = _find(of)
        self.rule: Rule = self._watched("__init__", lambda: kind(**settings))
        self.surveys = self.rule.surveys  # type: ignore[misc]
        self.keeps = self.rule.keeps  # type: ignore[misc]

    def begins(self) -> Mapping[str, float]:
        return self._watched("begins", self.rule.begins)

    def survey(self, piece: Slice) -> None:
        self._watched("survey", lambda: self.rule.survey(piece))

    def decide(self) -> Sequence[int] | None:
        shown = self._watched("decide", self.rule.decide)
        return None if shown is None else self._watched("decide", lambda: [operator.index(place) for place in shown])

    def merge(self, piece: Slice) -> Row:
        return self._fitting("merge", piece, self._watched("merge", lambda: self.rule.merge(piece)))

    def merge_whole(self, piece: Slice) -> Row:
        merged = self._watched("merge_whole", lambda: self.rule.merge_whole(piece))
        return self._fitting("merge_whole", piece, merged, exact=True)

    def _watched(self, where: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:
            raise CannotAggregate(f"{self.of}.{where} raised {type(error).__name__}: {error}") from error

    def _fitting(self, where: str, piece: Slice, merged: Any, exact: bool = False) -> Row:
        shape = piece.previous.shape
        if not isinstance(merged, np.ndarray) or merged.shape != shape or merged.dtype.kind not in "fiub":
            what = f"{merged.dtype}{merged.shape}" if isinstance(merged, np.ndarray) else type(merged).__name__
            raise CannotAggregate(f"{self.of}.{where} returned {what}, wanted are numbers of shape {shape}")
        for kept, numbers in piece.state.items():
            if np.shape(numbers) != shape:
                raise CannotAggregate(
                    f"{self.of}.{where} left {kept!r} in another shape than {shape}: change it in place"
                )
        kept = "fiu" if exact else "f"
        return merged if merged.dtype.kind in kept else merged.astype(np.float64)


def _find(of: str) -> type[Rule]:
    module, _, name = of.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        raise CannotAggregate(f"{of} cannot be had: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Rule)):
        raise CannotAggregate(f"{of} is not a class derived from quoracy.learn.Rule")
    return found
