"""What a checker of witnessed rounds is told beside what every checker is told.

The journal is walked once for all of them, with one model of the run beside it.
"""

from __future__ import annotations

from typing import Any

from quoracy.core.witnessed.committee import Committee
from quoracy.core.witnessed.facts import Apply
from quoracy.core.witnessed.views import RoundShown
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.history import Course


class Over(Ending):
    """And everybody who ever was there."""

    def __init__(self, journal: list[bytes], workers: list[Any], run: str, processes: list[Any]) -> None:
        super().__init__(journal, workers, run)
        self.processes = processes

    def honest(self, member: str) -> bool:
        """Whether no process of this name ever lied."""
        return not any(process.lied for process in self.processes if process.member == member)


class WitnessedChecker(Checker):
    def drew(self, process: str, shown: RoundShown, drawn: Committee) -> None:
        """A process worked out who does what in a round."""

    def applied(self, process: str, apply: Apply, model: bytes, rotten: bool) -> None:
        """A process has a new model. ``rotten``: a bit fell over in its memory."""

    def walked(self, course: Course, happened: Happened) -> None:
        """An event of the journal, when the model of the run has taken it in."""

    def judge(self, course: Course, over: Over) -> None:
        """The journal is at its end."""
