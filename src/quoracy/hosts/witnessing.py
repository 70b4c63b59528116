"""What there is to measure in a run of the kind ``witnessed``: who is there, how the rounds went, what members measure.

The loss of a round is known when it is sealed, in the journal. It is put into the history once, with the time at which
the round was sealed, so that a curve survives the restart of a server. What members measure themselves, such as the
accuracy, comes with their heartbeats: their lowest, their highest, and the mean.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from quoracy.core.witnessed.collect import Collector
from quoracy.core.witnessed.state import Course, Sealed
from quoracy.hosts.fleet import METRIC, Look
from quoracy.hosts.metrics import Commits
from quoracy.ports import Point

SEALED: Final = "sealed_s"
"""Run time at which a round was sealed: rises with each, whatever was rolled back."""
LOSS: Final = f"{METRIC}loss"
MAX_NAMES: Final = 64


class Measured(msgspec.Struct):
    """A look, and the rounds that were sealed since the one before."""

    look: Look
    sealed: list[Sealed]


class WitnessedEye:
    """Looks at one run, again and again."""

    def __init__(self, run: str, known_s: float = -1.0) -> None:
        """``known_s``: when the newest round was sealed that is in the history."""
        self._run = run
        self._known_s = known_s
        self._names: set[str] = set()
        self._states: set[str] = set()
        self._beats = 0
        self._collector: Collector | None = None
        self._looked_us = 0
        self._points: list[Point] = []
        self.left_out: set[str] = set()

    def look(
        self, course: Course, collector: Collector, commits: Commits | None, run_us: int, now_us: int, at_s: float
    ) -> Measured:
        """``run_us``: the run's own time at this moment, which rounds are measured by."""
        self._points = []
        first, self._collector = collector is not self._collector, collector
        beats, self._beats = (0 if first else self._beats), collector.beats
        since_s = (now_us - self._looked_us) / 1e6 if self._looked_us else 0.0
        self._looked_us = now_us
        if not first and since_s > 0:
            self._put("heartbeats_per_s", (collector.beats - beats) / since_s, at_s)
        if commits is not None and commits.count:
            mean_s = commits.total / commits.count
            self._points.append(
                Point(self._run, "commit_s", "", at_s, mean_s, commits.count, commits.low, commits.high)
            )
        states = Counter(member.state.value for member in course.members.values())
        self._states |= states.keys()
        for state in self._states:
            self._put(f"members.{state}", states[state], at_s)
        sealed = [one for one in course.sealed if one.sealed_us / 1e6 > self._known_s]
        for one in sealed:
            self._known_s = one.sealed_us / 1e6
            self._round(one, max(0.0, at_s - max(0, run_us - one.sealed_us) / 1e6))
        self._measure(course, collector, at_s)
        ages_s = [(collector.silent_us(member, now_us) or 0) / 1e6 for member in course.here]
        return Measured(Look(self._points, dict(states), ages_s, collector.beats - beats), sealed)

    def _put(self, name: str, value: float, when_s: float) -> None:
        self._points.append(Point(self._run, name, "", when_s, value))

    def _round(self, one: Sealed, when_s: float) -> None:
        self._put(SEALED, one.sealed_us / 1e6, when_s)
        self._put("round_s", (one.train_us + one.witness_us) / 1e6, when_s)
        self._put("results", one.results, when_s)
        if one.applied:
            self._put("step", one.step + 1, when_s)
            self._put(LOSS, one.loss, when_s)

    def _measure(self, course: Course, collector: Collector, at_s: float) -> None:
        """What members say of themselves. Of the loss the rounds tell more: each counts once, by its samples."""
        measured: dict[str, list[float]] = {}
        for member in sorted(course.here):
            pulse = collector.pulses.get(member)
            for name, value in (pulse.beat.metrics if pulse is not None else {}).items():
                if METRIC + name != LOSS and self._may(name):
                    measured.setdefault(name, []).append(value)
        for name, values in measured.items():
            low, high = min(values), max(values)
            mean = min(high, max(low, sum(values) / len(values)))
            self._points.append(Point(self._run, METRIC + name, "", at_s, mean, len(values), low, high))

    def _may(self, name: str) -> bool:
        if name not in self._names and len(self._names) >= MAX_NAMES:
            self.left_out.add(name)
            return False
        self._names.add(name)
        return True
