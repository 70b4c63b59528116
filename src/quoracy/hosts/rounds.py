"""What there is to measure in a run of the kind ``federated``: who is there, and how the rounds went.

What a round measured is known when it is over, in the journal. It is put into the history once, with the time at which
the round was done, so that a curve over rounds survives the restart of a server; one that was away for a while adds
what it finds. Adding a point twice would count it twice: the newest round that is in the history already is looked up
first.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from quoracy.core.federated.collect import Collector
from quoracy.core.federated.state import Over, Task
from quoracy.hosts.fleet import METRIC, Look
from quoracy.hosts.metrics import Commits
from quoracy.ports import Point

EVALUATION: Final = "evaluation."
"""What the coordinator's own evaluation said stands behind this, what participants measured behind METRIC."""
ROUND: Final = "round"
MAX_NAMES: Final = 64


class Measured(msgspec.Struct):
    """A look, and the rounds that have come to their end since the one before."""

    look: Look
    over: list[Over]


class RoundsEye:
    """Looks at one run, again and again."""

    def __init__(self, run: str, known: int = -1) -> None:
        """``known``: the newest round that is in the history."""
        self._run = run
        self._known = known
        self._names: set[str] = set()
        self._states: set[str] = set()
        self._beats = 0
        self._collector: Collector | None = None
        self._looked_us = 0
        self.left_out: set[str] = set()

    def look(
        self, task: Task, collector: Collector, commits: Commits | None, run_us: int, now_us: int, at_s: float
    ) -> Measured:
        """``run_us``: the run's own time at this moment, which rounds are measured by."""
        points: list[Point] = []

        def put(
            name: str,
            value: float,
            when_s: float = at_s,
            low: float | None = None,
            high: float | None = None,
            count: int = 1,
        ) -> None:
            points.append(Point(self._run, name, "", when_s, value, count, low, high))

        first, self._collector = collector is not self._collector, collector
        beats, self._beats = (0 if first else self._beats), collector.beats
        since_s = (now_us - self._looked_us) / 1e6 if self._looked_us else 0.0
        self._looked_us = now_us
        if not first and since_s > 0:
            put("heartbeats_per_s", (collector.beats - beats) / since_s)
        if commits is not None and commits.count:
            put("commit_s", commits.total / commits.count, at_s, commits.low, commits.high, commits.count)
        states = Counter(participant.state.value for participant in task.participants.values())
        self._states |= states.keys()
        for state in self._states:
            put(f"participants.{state}", states[state])
        done = [over for over in task.history if over.done_us and over.number > self._known]
        for over in done:
            self._known = over.number
            when_s = max(0.0, at_s - max(0, run_us - over.done_us) / 1e6)
            put(ROUND, over.number, when_s)
            put("round_s", (over.done_us - over.began_us) / 1e6, when_s)
            put("updates", len(over.admitted), when_s)
            for prefix, metrics in ((EVALUATION, over.evaluation), (METRIC, over.metrics)):
                for name, value in metrics.items():
                    if isinstance(value, float | int) and self._may(prefix + name):
                        put(prefix + name, value, when_s)
        ages_s = [(collector.silent_us(member, now_us) or 0) / 1e6 for member in task.here]
        return Measured(Look(points, dict(states), ages_s, collector.beats - beats), done)

    def _may(self, name: str) -> bool:
        if name not in self._names and len(self._names) >= MAX_NAMES:
            self.left_out.add(name)
            return False
        self._names.add(name)
        return True
