"""Nothing acknowledged is lost: whatever anyone was told is in the journal, for good, where it was said to be."""

from __future__ import annotations

from quoracy.core.errors import Refusal
from quoracy.core.journal import CommandRefused
from quoracy.core.members import Accepted, Cause
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.checkers.journal import read


class Durability(Checker):
    name = "durability"

    def __init__(self) -> None:
        self._told: dict[tuple[str, int, int], set[int]] = {}
        self._entries: dict[int, bytes] = {}

    def answered(self, _process: str, cause: Cause, answer: Accepted | Refusal) -> None:
        if isinstance(answer, Accepted):
            # A join is known by its nonce: repeated under another number, it is still the one that began this life.
            supersedes = cause.incarnation if cause.seq else (answer.result or {})["incarnation"] - 1
            self._told.setdefault((cause.member, supersedes, cause.seq), set()).add(answer.entry)

    def durable(self, n: int, payload: bytes) -> None:
        if self._entries.setdefault(n, payload) != payload:
            self.fail(f"entry {n} was replaced")

    def finish(self, ending: Ending) -> None:
        for n, payload in self._entries.items():
            if n > len(ending.journal) or ending.journal[n - 1] != payload:
                self.fail(f"entry {n} was durable and is gone")
        there: dict[tuple[str, int, int], int] = {}
        for n, cause, event in read(ending.journal, ending.run):
            if cause is not None and not isinstance(event, CommandRefused):
                there[cause.member, cause.incarnation, cause.seq] = n
        for cause_key, entries in self._told.items():
            if entries != {there.get(cause_key)}:
                self.fail(
                    f"command {cause_key} was acknowledged in {entries}; the journal has it in {there.get(cause_key)}"
                )
