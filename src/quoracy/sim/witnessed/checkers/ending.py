"""Nobody waits for ever: when the faults stop, the run is finished within ``ENDS_S``, and every member has heard of it.

The time is the sum of what may have to run out: a host's takeover, a member's time-out, a round with its witnesses, a
cooldown, a warm-up, the operator's next look; and then the steps that are left, which a roll-back may have made all of
them.

Nor does it go round in circles: it takes a round for each step since the checkpoint that was stored when the faults
stopped, and ``MORE_ROUNDS`` at most for what was under way. Rounds without any result are counted apart, and there are
``EMPTY_ROUNDS`` of them at most: where members are slow and rounds are short, some are nobody's fault.
"""

from __future__ import annotations

from typing import Any

from quoracy.core.witnessed.events import RoundSealed
from quoracy.core.witnessed.state import Phase
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.checkers.base import Over, WitnessedChecker
from quoracy.sim.witnessed.history import Course

ENDS_S = 60
MORE_ROUNDS = 8
EMPTY_ROUNDS = 8


class Ended(WitnessedChecker):
    name = "ending"

    def __init__(self) -> None:
        self._entries = 0
        self._calm_after = 0
        """The last entry before the faults stopped."""
        self._stored = 0
        """The step of the checkpoint that was stored then, and is there."""
        self._rounds = 0
        """That were sealed since, with or without any of their results..."""
        self._empty = 0
        """...and those in which nobody committed to anything."""

    def durable(self, n: int, _payload: bytes) -> None:
        self._entries = n

    def faults_stopped(self, _workers: list[Any]) -> None:
        self._calm_after = self._entries

    def walked(self, course: Course, happened: Happened) -> None:
        if happened.entry <= self._calm_after:
            _, self._stored = course.stored
            return
        self._stored = min(self._stored, course.stored[1])  # it was none, and the one before counts
        if isinstance(event := happened.event, RoundSealed):
            round_ = course.rounds.get((event.epoch, event.round))
            empty = round_ is None or not round_.results
            self._empty += empty
            self._rounds += not empty

    def judge(self, course: Course, over: Over) -> None:
        folded = course.folded
        if folded.state is not Phase.FINISHED:
            states = {member.id: member.state.value for member in folded.members.values()}
            where = f"epoch {folded.epoch}, round {folded.number}, step {folded.step}, {folded.state.value}, {states}"
            self.fail(f"not finished {ENDS_S} s after the faults stopped: {where}")
        total = course.config.total_steps
        if folded.stopping is None and folded.step != total:
            self.fail(f"finished with step {folded.step} of {total}")
        left = total - self._stored
        if self._rounds > left + MORE_ROUNDS:
            self.fail(f"{self._rounds} rounds after the faults stopped, for the {left} steps that were left")
        if self._empty > EMPTY_ROUNDS:
            self.fail(f"{self._empty} rounds without any result after the faults stopped")
        for process in over.workers:
            if not process.ended():
                self.fail(f"{process.name} does not know that the run is over: {process.logic.standing}")
