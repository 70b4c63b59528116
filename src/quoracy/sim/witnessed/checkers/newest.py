"""A superseded member changes nothing: once a newer life of an id is in the journal, no command of an older one is, and
nothing is said of an older one."""

from __future__ import annotations

from quoracy.core.journal import CommandRefused
from quoracy.core.witnessed.events import MemberJoined
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.checkers.base import WitnessedChecker
from quoracy.sim.witnessed.history import Course


class Newest(WitnessedChecker):
    name = "newest"

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def walked(self, _course: Course, happened: Happened) -> None:
        n, cause, event = happened
        if isinstance(event, MemberJoined):
            if event.supersedes != self._newest.get(event.member, 0):
                self.fail(f"entry {n}: {event.member} follows life {event.supersedes}: {self._newest}")
            self._newest[event.member] = event.supersedes + 1
        elif cause is not None and cause.incarnation < self._newest.get(cause.member, 0):
            self.fail(f"entry {n}: {event} of life {cause.incarnation} of {cause.member}")
        elif not isinstance(event, CommandRefused):
            member, life = getattr(event, "member", ""), getattr(event, "incarnation", None)
            if life is not None and life != self._newest.get(member):
                self.fail(f"entry {n}: {event} is about a life that is over")
