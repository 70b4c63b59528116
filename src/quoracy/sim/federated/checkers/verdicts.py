"""What a participant is told of its update is what the journal says."""

from __future__ import annotations

from quoracy.core.federated.state import Verdict
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.federated.history import Course


class Verdicts(Checker):
    name = "verdicts"

    def __init__(self) -> None:
        self._told: list[tuple[str, str, Verdict]] = []

    def judged(self, process: str, member: str, verdict: Verdict) -> None:
        self._told.append((process, member, verdict))

    def finish(self, ending: Ending) -> None:
        course = Course()
        for _ in course.walk(ending.journal, ending.run):
            pass
        fates = {(u.member, u.round, u.ticket): u.fate for u in course.updates}
        for process, member, verdict in self._told:
            fate = fates.get((member, verdict.round, verdict.ticket), "dropped")
            if verdict.admitted != (fate == "admitted"):
                self.fail(f"{process} was told {verdict}, and the journal says {fate}")
            if not verdict.admitted and not verdict.why:
                self.fail(f"{process} was told no without a reason: {verdict}")
