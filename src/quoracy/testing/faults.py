"""A journal whose replies get lost, for testing whoever appends to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from quoracy.core.errors import OutcomeUnknown
from quoracy.ports import Append, Conflict, Journal, Outcome, Saved, Segment


class LostReply:
    """Passes everything on; after ``lose_next`` one append ends in ``OutcomeUnknown``.

    ``after`` means that the write happened and only the reply was lost, ``before`` that the request was. Whoever
    appends cannot tell the two apart, and must not have to.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._lose: Literal["before", "after"] | None = None

    def lose_next(self, when: Literal["before", "after"]) -> None:
        self._lose = when

    def append(self, wishes: Sequence[Append]) -> list[Outcome]:
        lose, self._lose = self._lose, None
        if lose == "before":
            raise OutcomeUnknown("the request was lost")
        outcomes = self.journal.append(wishes)
        if lose == "after":
            raise OutcomeUnknown("the reply was lost")
        return outcomes

    def runs(self) -> list[str]:
        return self.journal.runs()

    def last(self, run: str) -> int:
        return self.journal.last(run)

    def read(self, run: str, first: int, limit: int = 1000) -> list[bytes]:
        return self.journal.read(run, first, limit)

    def watch(self, run: str, after: int, timeout_s: float) -> int:
        return self.journal.watch(run, after, timeout_s)

    def save_snapshot(self, run: str, snapshot: Saved) -> None:
        self.journal.save_snapshot(run, snapshot)

    def load_snapshot(self, run: str) -> Saved | None:
        return self.journal.load_snapshot(run)

    def compact(self, run: str, upto: int, keep_segments: int | None = None) -> Segment | None:
        return self.journal.compact(run, upto, keep_segments)

    def segments(self, run: str) -> list[Segment]:
        return self.journal.segments(run)

    def close(self) -> None:
        self.journal.close()


def append_surely(journal: Journal, wish: Append) -> bool:
    """Append although replies may get lost; True if this wish is the entry now. The payload must hold a nonce, so that
    equal bytes mean the same wish: that is how the doubt is resolved, here and in every host."""
    while True:
        try:
            (outcome,) = journal.append([wish])
        except OutcomeUnknown:
            found = journal.read(wish.run, wish.n, 1)
            if found:
                return found[0] == wish.payload
        else:
            return not isinstance(outcome, Conflict) or outcome.payload == wish.payload
