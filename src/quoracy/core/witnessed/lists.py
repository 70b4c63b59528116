"""The journaled lists of results, round by round, as far as they were shown to a member.

What is sealed is shown to those in step as positions in the round's list, which they have: that keeps it small. Who
lacks the list cannot read it, and asks for the whole.
"""

from __future__ import annotations

import msgspec

from quoracy.core.witnessed.views import Result, ResultsShown, SealedShown


class Lists:
    def __init__(self) -> None:
        self._lists: dict[tuple[int, int], ResultsShown] = {}

    def learn(self, shown: ResultsShown) -> None:
        """A list only grows."""
        known = self._lists.get((shown.epoch, shown.round))
        if known is None or len(known.results) < len(shown.results):
            based = tuple(result if result.base else _on(result, shown.base) for result in shown.results)
            self._lists[shown.epoch, shown.round] = msgspec.structs.replace(shown, results=based)

    def of(self, epoch: int, round_: int) -> tuple[Result, ...] | None:
        """None: it was not shown."""
        known = self._lists.get((epoch, round_))
        return None if known is None else known.results

    def salt(self, epoch: int, round_: int) -> bytes:
        known = self._lists.get((epoch, round_))
        return b"" if known is None else known.salt

    def whole(self, shown: SealedShown) -> SealedShown | None:
        """With its results, in the order in which they are applied; None if they are not known here."""
        results = shown.results
        if len(results) < len(shown.positions):
            listed = self.of(shown.epoch, shown.round) or ()
            if max(shown.positions) >= len(listed):
                return None
            results = tuple(listed[position] for position in shown.positions)
        return msgspec.structs.replace(shown, results=_based(results, shown.model))

    def forget_before(self, epoch: int, round_: int) -> None:
        for key in [key for key in self._lists if key < (epoch, round_)]:
            del self._lists[key]


def _based(results: tuple[Result, ...], model: bytes) -> tuple[Result, ...]:
    return tuple(result if result.base == model else _on(result, model) for result in results)


def _on(result: Result, base: bytes) -> Result:
    return Result(result.assignment, result.attempt, result.member, result.digest, result.size_bytes, base)
