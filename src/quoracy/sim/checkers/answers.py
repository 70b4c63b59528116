"""Every command is answered, once, and a repeat gets the same answer.

Joins are commands too, but a refused one leaves nothing behind: a stranger who is told no and asks again may be let in.
The refusals that only say *ask otherwise* (a gap, an answer long forgotten, a life that is over, a connection that has
not shown who it is) are no decisions.
"""

from __future__ import annotations

from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted, Cause
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.checkers.journal import read

NO_DECISION = frozenset(
    {"sequence_gap", "answer_forgotten", "superseded", "unknown_member", "overloaded", "not_serving", "bad_token"}
)


class Answers(Checker):
    name = "answers"

    def __init__(self) -> None:
        self._answers: dict[Cause, Accepted | Refusal] = {}

    def answered(self, _process: str, cause: Cause, answer: Accepted | Refusal) -> None:
        if cause.seq == 0 or (isinstance(answer, Refusal) and answer.code in NO_DECISION):
            return
        first = self._answers.setdefault(cause, answer)
        if first != answer:
            self.fail(f"command {cause} was answered {first}, and then {answer}")

    def finish(self, ending: Ending) -> None:
        decided: set[tuple[str, int, int]] = set()
        for n, cause, event in read(ending.journal, ending.run):
            if cause is None:
                continue
            key = (cause.member, cause.incarnation, cause.seq)
            if key in decided:
                self.fail(f"entry {n} decides command {key} again: {event}")
            decided.add(key)
        for worker in ending.workers:
            cause = worker.overdue_command()
            if cause is not None:
                self.fail(f"{worker.name} was never answered on {cause}")
