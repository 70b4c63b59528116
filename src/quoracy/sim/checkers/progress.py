"""When the faults stop, the run moves on: within ``MOVES_ON_S`` every worker that is alive passes barriers again.

The time is the sum of what may have to run out: a host's takeover, a worker's time-out, a barrier's deadline, and the
messages that were already under way.
"""

from __future__ import annotations

from typing import Any

from quoracy.sim.checkers.base import Checker, Ending

MOVES_ON_S = 14
GENERATIONS = 3


class Progress(Checker):
    name = "progress"

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def faults_stopped(self, workers: list[Any]) -> None:
        self._before = {worker.name: worker.passed for worker in workers}

    def finish(self, ending: Ending) -> None:
        if not ending.workers:
            self.fail("nobody is left")
        for worker in ending.workers:
            passed = worker.passed - self._before.get(worker.name, 0)
            if passed < GENERATIONS:
                self.fail(f"{worker.name} passed {passed} barriers in the {MOVES_ON_S} s since the faults stopped")
