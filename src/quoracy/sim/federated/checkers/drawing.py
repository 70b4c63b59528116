"""Who trains was drawn: every update that is taken in belongs to a place that the seed gave to its sender.

The draws are made once more along the journal, by ``history``, which fails where a ticket is not the one drawn. A round
never closes with fewer updates than it needs.
"""

from __future__ import annotations

from quoracy.core.federated.events import RoundClosed
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.federated.history import Course


class Drawing(Checker):
    name = "drawing"

    def finish(self, ending: Ending) -> None:
        course = Course(self.fail)
        for n, _, event in course.walk(ending.journal, ending.run):
            if isinstance(event, RoundClosed):
                admitted = sum(place.fate == "admitted" for place in course.places.values())
                needed = min(course.set("count_min") or course.target, course.set("count_max") or course.target)
                if admitted < (1 if course.number < 0 else needed):
                    self.fail(f"entry {n} closes round {course.number} with {admitted} updates, and it needs {needed}")
