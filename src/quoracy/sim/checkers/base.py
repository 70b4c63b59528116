"""What a checker is told, and how it says that something is wrong.

Checkers watch from outside. They see what processes did and were told, and what became durable; they see nothing of
the state of a host but its digest. Each keeps one promise of Quoracy.
"""

from __future__ import annotations

from typing import Any

from quoracy.core.cluster.events import Arrive, HeartbeatSeen
from quoracy.core.cluster.views import Passage
from quoracy.core.errors import Refusal
from quoracy.core.host import Host
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Told
from quoracy.sim.streams import End


class Violation(AssertionError):
    """A promise was broken."""

    def __init__(self, checker: str, what: str) -> None:
        super().__init__(f"{checker}: {what}")
        self.checker = checker
        self.what = what


class Ending:
    """What is known when a life is over: the journal, and who should have got somewhere."""

    def __init__(self, journal: list[bytes], workers: list[Any], run: str) -> None:
        self.journal = journal
        self.workers = workers
        """Those alive at the end."""
        self.run = run


class Checker:
    name = "checker"

    def fail(self, what: str) -> None:
        raise Violation(self.name, what)

    def attempted(self, _process: str, cause: Cause) -> None:
        """A command was sent, or sent again."""

    def answered(self, _process: str, cause: Cause, answer: Accepted | Refusal) -> None:
        """A process received this answer, perhaps not for the first time."""

    def greeted(self, _process: str) -> None:
        """A process said hello: all its views will be sent again."""

    def heard(self, _process: str, member: str, incarnation: int) -> None:
        """A heartbeat that this process sent was taken in, as one of that incarnation."""

    def arrived(self, _process: str, arrive: Arrive) -> None:
        """A process really stands at a barrier, from now on."""

    def passed(self, _process: str, member: str, incarnation: int, passage: Passage) -> None:
        """A process was let through."""

    def aborted(self, _process: str, member: str, incarnation: int, passage: Passage) -> None:
        """A process was told that the barrier at which it stands will not open."""

    def told(self, _process: str, passage: Passage) -> None:
        """A process received this, whether it is news or not."""

    def ordered(self, _process: str, member: str, incarnation: int, seen: HeartbeatSeen) -> None:
        """A process was given an order."""

    def shown(self, _process: str, end: End, told: Told) -> None:
        """A process that uses the SDK has read this view, at that end of a connection."""

    def unsent(self, _connection: str, unsent_bytes: int, views: int) -> None:
        """A host has said something; so many bytes have not left yet, and so many views wait behind them."""

    def durable(self, n: int, payload: bytes) -> None:
        """The store has this entry for good."""

    def folded(self, _host: str, state: Host) -> None:
        """A host handled something; its run may have moved on."""

    def host_stopped(self, _host: str, code: str, why: str) -> None:
        """A host gave up."""

    def faults_stopped(self, workers: list[Any]) -> None:
        """From now on nothing goes wrong any more."""

    def finish(self, ending: Ending) -> None:
        """The life is over."""
