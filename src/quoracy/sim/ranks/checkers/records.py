"""One record per attempt: all who go on with it see the same, and are named in it."""

from __future__ import annotations

from quoracy.core.codec import encode
from quoracy.core.ranks.part import Turn
from quoracy.sim.ranks.checkers.base import Checker, Life, Record


class Records(Checker):
    name = "records"

    def __init__(self, attempt: int) -> None:
        self._adopted: dict[int, bytes] = {}
        self._deciders: dict[int, str] = {}
        self._attempts = attempt

    def began(self, process: str, life: Life, turn: Turn) -> None:
        seen = encode((turn.number, turn.members, _outcome(turn)))
        if self._adopted.setdefault(turn.attempt, seen) != seen:
            self.fail(f"{process} adopts another record for attempt {turn.attempt - 1} than others did")
        if turn.before is not None and turn.before.decider not in ("", self._deciders.get(turn.before.attempt)):
            self.fail(f"{process} reads that {turn.before.decider} has decided attempt {turn.before.attempt}")
        if life[0] not in turn.members or turn.members[turn.index] != life[0]:
            self.fail(f"{process} begins attempt {turn.attempt} without being named in it")
        if turn.attempt > self._attempts + 1:
            self.fail(f"{process} begins attempt {turn.attempt}, and {self._attempts} are decided")

    def decided(self, record: Record) -> None:
        if record.attempt != self._attempts + 1:
            self.fail(f"entry {record.n} decides attempt {record.attempt} after {self._attempts}")
        self._attempts = record.attempt
        self._deciders[record.attempt] = record.event.decider


def _outcome(turn: Turn) -> tuple[object, ...] | None:
    """What a rank goes on by: who decided, and how long that took, is told to those who have read the record."""
    before = turn.before
    if before is None:
        return None
    return before.attempt, before.number, before.outcome, before.members, before.against, before.gone, before.came
