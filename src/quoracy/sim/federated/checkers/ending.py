"""No round hangs: when the faults stop, the run is finished within ``ENDS_S``, and every participant has heard of it.

The time is the sum of what may have to run out: a host's takeover, a participant's time-out, the window of a round, the
standby before a pause, the operator's next look; and then the rounds that are left.
"""

from __future__ import annotations

from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.federated.history import Course

ENDS_S = 60


class Ended(Checker):
    name = "ending"

    def finish(self, ending: Ending) -> None:
        course = Course()
        for _ in course.walk(ending.journal, ending.run):
            pass
        if course.phase != "finished":
            where = f"round {course.number}, {course.phase}, here {sorted(course.here)}, {course.places}"
            self.fail(f"not finished {ENDS_S} s after the faults stopped: {where}")
        if len(course.closed) != course.set("rounds"):
            self.fail(f"finished after {len(course.closed)} rounds of {course.set('rounds')}")
        for participant in ending.workers:
            if not participant.ended():
                self.fail(f"{participant.name} does not know that the run is over: {participant.logic.standing}")
