"""Looks at every run once a second: what it sees goes into the history, and into what Prometheus is told.

A run is looked at only while nothing is applied to it that is not written yet: people, too, are told nothing that may
still be undone. One that is never at rest is looked at again and again for a moment, and has a gap then.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from quoracy.config.settings import SeriesSettings
from quoracy.core.cluster.collect import Collector
from quoracy.core.cluster.machine import Cluster
from quoracy.core.federated.collect import Collector as RoundsCollector
from quoracy.core.federated.machine import Federated
from quoracy.core.host import Phase
from quoracy.core.witnessed.collect import Collector as WitnessedCollector
from quoracy.core.witnessed.machine import Witnessed
from quoracy.hosts.fleet import FleetEye
from quoracy.hosts.metrics import Metrics
from quoracy.hosts.recorder import Recorder
from quoracy.hosts.rounds import ROUND, RoundsEye
from quoracy.hosts.server import ServedRun, Server, now_us
from quoracy.hosts.witnessing import SEALED, WitnessedEye

TRIES: Final = 20
PAUSE_S: Final = 0.005


class Sampler:
    def __init__(self, server: Server, metrics: Metrics, recorder: Recorder, settings: SeriesSettings) -> None:
        self._server = server
        self._metrics = metrics
        self._recorder = recorder
        self._settings = settings
        self._eyes: dict[str, FleetEye | RoundsEye | WitnessedEye] = {}
        self._task: asyncio.Task[None] | None = None
        metrics.watch("queue", "history", lambda: float(recorder.waiting()))

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def close(self) -> None:
        """What was seen is written before this returns."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await asyncio.to_thread(self._recorder.close)

    async def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while True:
            next_s = max(next_s + self._settings.sample_s, loop.time())
            await asyncio.sleep(next_s - loop.time())
            await self.look()

    async def look(self) -> None:
        """Once at everything."""
        runs = list(self._server.runs.values())
        self._metrics.phased(Counter([run.host.phase.value.lower() for run in runs]))
        for name in self._eyes.keys() - self._server.runs.keys():
            self._forget(name)
        for run in runs:
            if run.host.phase is Phase.SERVING and await self._eye(run) and await _at_rest(run):
                self._look_at(run)
            elif run.host.phase in (Phase.FOLLOWING, Phase.STOPPED):
                self._forget(run.name)
            await asyncio.sleep(0)

    async def _eye(self, run: ServedRun) -> bool:
        """Whether there is somebody to look at this run. Of rounds the history is asked which it has."""
        if run.name in self._eyes:
            return True
        machine = None if run.host.run is None else run.host.run.machine
        if isinstance(machine, Cluster):
            self._eyes[run.name] = FleetEye(run.name, self._settings.workers_followed)
        elif isinstance(machine, Federated):
            known = await self._server.off_loop(lambda: self._recorder.highest(run.name, ROUND))
            self._eyes[run.name] = RoundsEye(run.name, -1 if known is None else round(known))
        elif isinstance(machine, Witnessed):
            known = await self._server.off_loop(lambda: self._recorder.highest(run.name, SEALED))
            self._eyes[run.name] = WitnessedEye(run.name, -1.0 if known is None else known)
        return run.name in self._eyes

    def _look_at(self, run: ServedRun) -> None:
        desk, eye = run.host.desk, self._eyes[run.name]
        if desk is None:
            return
        machine, collector = desk.run.machine, desk.collector
        commits = self._metrics.take_commits(run.name)
        if isinstance(eye, FleetEye) and isinstance(machine, Cluster) and isinstance(collector, Collector):
            look = eye.look(machine.fleet, collector, commits, now_us(), time.time())
            self._metrics.counted(run.name, look.workers)
        elif isinstance(eye, RoundsEye) and isinstance(machine, Federated) and isinstance(collector, RoundsCollector):
            measured = eye.look(machine.task, collector, commits, desk.run.head.at_us, now_us(), time.time())
            look = measured.look
            self._metrics.counted_participants(run.name, look.workers)
            self._metrics.rounds_over(run.name, [(over.done_us - over.began_us) / 1e6 for over in measured.over])
        elif isinstance(eye, WitnessedEye) and isinstance(machine, Witnessed):
            if not isinstance(collector, WitnessedCollector):
                return
            seen = eye.look(machine.course, collector, commits, desk.run.head.at_us, now_us(), time.time())
            look = seen.look
            self._metrics.counted_members(run.name, look.workers)
            self._metrics.rounds_over(run.name, [(one.train_us + one.witness_us) / 1e6 for one in seen.sealed])
        else:
            return
        self._metrics.heard(run.name, look.heartbeats)
        self._metrics.aged(run.name, look.ages_s)
        self._recorder.put(look.points)
        if eye.left_out:
            why = f"too many names of metrics; left out are {', '.join(sorted(eye.left_out)[:3])}: report fewer"
            self._server.log.once("metrics are left out", run.name, why)

    def _forget(self, run: str) -> None:
        """Somebody else serves it, or nobody does."""
        if self._eyes.pop(run, None) is not None:
            self._metrics.gone(run)


async def _at_rest(run: ServedRun) -> bool:
    for _ in range(TRIES):
        if run.host.quiet():
            return True
        await asyncio.sleep(PAUSE_S)
    return False
