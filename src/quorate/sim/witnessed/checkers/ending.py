"""Nobody waits for ever: when the faults stop, the run is finished within ``ENDS_S``, and every member has heard of it.

The time is the sum of what may have to run out: a host's takeover, a member's time-out, a round with its witnesses, a
cooldown, a warm-up, the operator's next look; and then the steps that are left, which a roll-back may have made all of
them.
"""

from __future__ import annotations

from quorate.core.witnessed.state import Phase
from quorate.sim.witnessed.checkers.base import Over, WitnessedChecker
from quorate.sim.witnessed.history import Course

ENDS_S = 60


class Ended(WitnessedChecker):
    name = "ending"

    def judge(self, course: Course, over: Over) -> None:
        folded = course.folded
        if folded.state is not Phase.FINISHED:
            states = {member.id: member.state.value for member in folded.members.values()}
            where = f"epoch {folded.epoch}, round {folded.number}, step {folded.step}, {folded.state.value}, {states}"
            self.fail(f"not finished {ENDS_S} s after the faults stopped: {where}")
        total = course.config.total_steps
        if folded.stopping is None and folded.step != total:
            self.fail(f"finished with step {folded.step} of {total}")
        for process in over.workers:
            if not process.ended():
                self.fail(f"{process.name} does not know that the run is over: {process.logic.standing}")
