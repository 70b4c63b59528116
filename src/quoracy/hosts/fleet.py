"""What there is to measure in a run of the kind ``cluster``, once a second, for a thousand workers in about 2 ms.

Of every number there is one curve for the fleet: its lowest, its highest, and the mean. The workers of the lowest ranks
have curves of their own, with one point for each heartbeat: nothing is known in between.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from quoracy.core.cluster.collect import Collector
from quoracy.core.cluster.heard import Pulse
from quoracy.core.cluster.state import Barrier, BarrierState, Fleet, Worker
from quoracy.hosts.metrics import Commits
from quoracy.ports import Point

MAX_METRIC_NAMES: Final = 32
"""Different names of metrics in one run. Each worker has at most 16, but they need not be the same."""
MAX_BARRIERS: Final = 16
METRIC: Final = "metric."
"""What the training measures itself stands behind this, so that it may be called step or cpu."""


class Look(msgspec.Struct):
    """What one look at a run has brought."""

    points: list[Point]
    workers: dict[str, int]
    """By state."""
    ages_s: list[float]
    heartbeats: int
    """Since the last look."""


class _Known(msgspec.Struct):
    """A worker's heartbeat before, and what the two together tell."""

    incarnation: int
    seq: int
    step: int
    progress: int
    heard_us: int
    rated: bool = False
    """Whether there were two heartbeats, so that the speeds below are known."""
    steps_per_s: float = 0.0
    progress_per_s: float = 0.0


class FleetEye:
    """Looks at one run, again and again."""

    def __init__(self, run: str, workers_followed: int) -> None:
        self._run = run
        self._followed = workers_followed
        self._known: dict[str, _Known] = {}
        self._states: set[str] = set()
        self._metric_names: set[str] = set()
        self._generations: dict[str, int] = {}
        self._released = 0
        self._collector: Collector | None = None
        self._beats = 0
        self._looked_us = 0
        self._at_s = 0.0
        self._points: list[Point] = []
        self.left_out: set[str] = set()
        """Metrics for which there are too many others."""

    def look(self, fleet: Fleet, collector: Collector, commits: Commits | None, now_us: int, at_s: float) -> Look:
        self._points, self._at_s = [], at_s
        since_s = (now_us - self._looked_us) / 1e6 if self._looked_us else 0.0
        first, self._looked_us = collector is not self._collector, now_us
        beats, self._beats = (0 if first else self._beats), collector.beats
        self._collector = collector
        heartbeats = collector.beats - beats
        if first:
            self._released = sum(barrier.released for barrier in fleet.barriers.values())
            self._generations = {barrier.name: barrier.generation for barrier in fleet.barriers.values()}
        elif since_s > 0:
            self._put("heartbeats_per_s", heartbeats / since_s)
            released = sum(barrier.released for barrier in fleet.barriers.values())
            self._put("barriers_per_s", max(0, released - self._released) / since_s)
            self._released = released
        if commits is not None and commits.count:
            mean_s = commits.total / commits.count
            self._put("commit_s", mean_s, "", commits.count, commits.low, commits.high)
        states = self._count(fleet)
        ages_s = self._measure(fleet, collector.pulses, now_us)
        self._look_at_barriers(fleet, collector, now_us)
        points, self._points = self._points, []
        return Look(points, states, ages_s, heartbeats)

    def _put(
        self, name: str, value: float, subject: str = "", count: int = 1, low: float | None = None,
        high: float | None = None,
    ) -> None:  # fmt: skip
        self._points.append(Point(self._run, name, subject, self._at_s, value, count, low, high))

    def _spread(self, name: str, values: list[float], subject: str = "") -> None:
        """Many numbers of one moment, as one point."""
        if values:
            low, high = min(values), max(values)
            mean = min(high, max(low, sum(values) / len(values)))
            self._put(name, mean, subject, len(values), low, high)

    # -- workers ----------------------------------------------------------------------------------------------------

    def _count(self, fleet: Fleet) -> dict[str, int]:
        states = Counter([worker.state._value_ for worker in fleet.workers.values()])
        self._states |= states.keys()
        for state in self._states:
            self._put(f"workers.{state}", states[state])
        return dict(states)

    def _measure(self, fleet: Fleet, pulses: dict[str, Pulse], now_us: int) -> list[float]:
        """The numbers of all workers; returns the ages of their heartbeats."""
        steps: list[float] = []
        step_rates: list[float] = []
        rates: list[float] = []
        cpus: list[float] = []
        gpus: list[float] = []
        memories: list[float] = []
        ages: list[float] = []
        metrics: dict[str, list[float]] = {}
        for worker in fleet.by_seat.values():
            pulse = pulses.get(worker.id)
            if pulse is None:
                continue
            beat = pulse.beat
            known = self._known.get(worker.id)
            if known is None or known.seq != beat.seq or known.incarnation != beat.incarnation:
                known = self._renew(worker, pulse, known)
            steps.append(beat.step)
            if known.rated:
                step_rates.append(known.steps_per_s)
                rates.append(known.progress_per_s)
            cpus.append(beat.cpu)
            memories.append(beat.memory)
            ages.append((now_us - pulse.heard_us) / 1e6)
            if worker.gpus or beat.gpu:
                gpus.append(beat.gpu)
            for name, value in beat.metrics.items():
                metrics.setdefault(name, []).append(value)
        if len(self._known) > 2 * len(fleet.by_seat) + 16:
            self._known = {worker.id: self._known[worker.id] for worker in fleet.by_seat.values()
                           if worker.id in self._known}  # fmt: skip
        for name, values in (("step", steps), ("steps_per_s", step_rates), ("progress_per_s", rates), ("cpu", cpus),
                             ("gpu", gpus), ("memory", memories), ("heartbeat_age_s", ages)):  # fmt: skip
            self._spread(name, values)
        for name, values in metrics.items():
            if self._may(name):
                self._spread(METRIC + name, values)
        return ages

    def _renew(self, worker: Worker, pulse: Pulse, before: _Known | None) -> _Known:
        """A new heartbeat of this worker."""
        beat = pulse.beat
        known = self._known[worker.id] = _Known(beat.incarnation, beat.seq, beat.step, beat.progress, pulse.heard_us)
        past_s = 0.0
        if before is not None and before.incarnation == beat.incarnation:
            past_s = (pulse.heard_us - before.heard_us) / 1e6
        if before is not None and past_s > 0:
            known.rated = True
            known.steps_per_s = max(0, beat.step - before.step) / past_s
            known.progress_per_s = max(0, beat.progress - before.progress) / past_s
        if worker.rank < self._followed:
            self._follow(worker, pulse, known)
        return known

    def _follow(self, worker: Worker, pulse: Pulse, known: _Known) -> None:
        beat, put, who = pulse.beat, self._put, worker.id
        put("step", beat.step, who)
        put("cpu", beat.cpu, who)
        put("memory", beat.memory, who)
        if worker.gpus or beat.gpu:
            put("gpu", beat.gpu, who)
        if known.rated:
            put("steps_per_s", known.steps_per_s, who)
            put("progress_per_s", known.progress_per_s, who)
        for name, value in beat.metrics.items():
            if self._may(name):
                put(METRIC + name, value, who)

    def _may(self, name: str) -> bool:
        if name not in self._metric_names:
            if len(self._metric_names) >= MAX_METRIC_NAMES:
                if len(self.left_out) < MAX_METRIC_NAMES:
                    self.left_out.add(name)
                return False
            self._metric_names.add(name)
        return True

    # -- barriers ---------------------------------------------------------------------------------------------------

    def _look_at_barriers(self, fleet: Fleet, collector: Collector, now_us: int) -> None:
        """How long the newest release took, if there was one; and how long those wait who stand there now."""
        for gathering in list(collector.gatherings.values())[:MAX_BARRIERS]:
            self._put("barrier_waiting_s", max(0, now_us - gathering.since_us) / 1e6, gathering.name)
        for barrier in list(fleet.barriers.values())[:MAX_BARRIERS]:
            if barrier.generation > self._generations.get(barrier.name, 0):
                self._generations[barrier.name] = barrier.generation
                self._passed(barrier)

    def _passed(self, barrier: Barrier) -> None:
        released = [settled for settled in barrier.settled if settled.state is BarrierState.RELEASED]
        if released:
            self._spread("barrier_wait_s", [wait_us / 1e6 for wait_us in released[-1].waits_us], barrier.name)
