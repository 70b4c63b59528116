"""A superseded participant changes nothing: once a newer life of an id is in the journal, no command of an older one
is, and nothing is said of an older one."""

from __future__ import annotations

from quoracy.core.federated.events import ParticipantJoined
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.federated.history import Course


class Newest(Checker):
    name = "newest"

    def finish(self, ending: Ending) -> None:
        course = Course()
        for n, cause, event in course.walk(ending.journal, ending.run):
            if isinstance(event, ParticipantJoined):
                if event.supersedes != course.newest.get(event.member, 0):
                    self.fail(f"entry {n}: {event.member} follows life {event.supersedes}: {course.newest}")
            elif cause is not None and cause.incarnation < course.newest.get(cause.member, 0):
                self.fail(f"entry {n}: {event} of life {cause.incarnation} of {cause.member}")
            elif getattr(event, "incarnation", None) not in (None, course.newest.get(getattr(event, "member", ""))):
                self.fail(f"entry {n}: {event} is about a life that is over")
