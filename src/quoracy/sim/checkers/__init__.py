"""The promises, one file each.

barriers     a generation is released once, and never early
durability   nothing acknowledged is lost
answers      every command is answered, once, and a repeat gets the same answer
folds        the fold is identical on every host
lives        a superseded incarnation changes nothing
orders       an order reaches the life it was given to, and no other
progress     when the faults stop, the run moves on within a stated time
heartbeats   nobody is declared dead whose heartbeats could reach the host; whoever is, learns it
views        what is read is never older than what was read before, and the newest comes
unread       what waits for somebody who does not read is bounded
"""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.events import Arrive, HeartbeatSeen
from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.core.host import Host
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Told
from quoracy.sim.checkers.answers import Answers
from quoracy.sim.checkers.barriers import Barriers
from quoracy.sim.checkers.base import Checker, Ending, Violation
from quoracy.sim.checkers.durability import Durability
from quoracy.sim.checkers.folds import Folds
from quoracy.sim.checkers.lives import Lives
from quoracy.sim.checkers.orders import Orders
from quoracy.sim.checkers.progress import Progress
from quoracy.sim.checkers.unread import Unread
from quoracy.sim.checkers.views import Views
from quoracy.sim.streams import End


class Checkers:
    """All of them, told everything."""

    def __init__(self, checkers: list[Checker]) -> None:
        self._all = checkers

    def add(self, checker: Checker) -> None:
        """Asked before the others."""
        self._all.insert(0, checker)

    def attempted(self, process: str, cause: Cause) -> None:
        for checker in self._all:
            checker.attempted(process, cause)

    def answered(self, process: str, cause: Cause, answer: Accepted | Refusal) -> None:
        for checker in self._all:
            checker.answered(process, cause, answer)

    def greeted(self, process: str) -> None:
        for checker in self._all:
            checker.greeted(process)

    def heard(self, process: str, member: str, incarnation: int) -> None:
        for checker in self._all:
            checker.heard(process, member, incarnation)

    def arrived(self, process: str, arrive: Arrive) -> None:
        for checker in self._all:
            checker.arrived(process, arrive)

    def passed(self, process: str, member: str, incarnation: int, passage: Passage) -> None:
        for checker in self._all:
            checker.passed(process, member, incarnation, passage)

    def aborted(self, process: str, member: str, incarnation: int, passage: Passage) -> None:
        for checker in self._all:
            checker.aborted(process, member, incarnation, passage)

    def told(self, process: str, passage: Passage) -> None:
        for checker in self._all:
            checker.told(process, passage)

    def ordered(self, process: str, member: str, incarnation: int, seen: HeartbeatSeen) -> None:
        for checker in self._all:
            checker.ordered(process, member, incarnation, seen)

    def shown(self, process: str, end: End, told: Told) -> None:
        for checker in self._all:
            checker.shown(process, end, told)

    def unsent(self, connection: str, unsent_bytes: int, views: int) -> None:
        for checker in self._all:
            checker.unsent(connection, unsent_bytes, views)

    def durable(self, n: int, payload: bytes) -> None:
        for checker in self._all:
            checker.durable(n, payload)

    def folded(self, host: str, state: Host) -> None:
        for checker in self._all:
            checker.folded(host, state)

    def host_stopped(self, host: str, code: str, why: str) -> None:
        for checker in self._all:
            checker.host_stopped(host, code, why)

    def faults_stopped(self, workers: list[Any]) -> None:
        for checker in self._all:
            checker.faults_stopped(workers)

    def finish(self, ending: Ending) -> None:
        for checker in self._all:
            checker.finish(ending)


def cluster_checkers() -> Checkers:
    return Checkers([Barriers(), Durability(), Answers(), Folds(), Lives(), Orders(), Progress(), Views(), Unread(4)])


__all__ = ["Checker", "Checkers", "Ending", "Violation", "cluster_checkers"]
