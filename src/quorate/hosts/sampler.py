"""Looks at every run once a second: what it sees goes into the history, and into what Prometheus is told.

A run is looked at only while nothing is applied to it that is not written yet: people, too, are told nothing that may
still be undone. One that is never at rest is looked at again and again for a moment, and has a gap then.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from quorate.config.settings import SeriesSettings
from quorate.core.cluster.collect import Collector
from quorate.core.cluster.machine import Cluster
from quorate.core.host import Phase
from quorate.hosts.fleet import FleetEye
from quorate.hosts.metrics import Metrics
from quorate.hosts.recorder import Recorder
from quorate.hosts.server import ServedRun, Server, now_us

TRIES: Final = 20
PAUSE_S: Final = 0.005


class Sampler:
    def __init__(self, server: Server, metrics: Metrics, recorder: Recorder, settings: SeriesSettings) -> None:
        self._server = server
        self._metrics = metrics
        self._recorder = recorder
        self._settings = settings
        self._eyes: dict[str, FleetEye] = {}
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
            if run.host.phase is Phase.SERVING and await _at_rest(run):
                self._look_at(run)
            elif run.host.phase in (Phase.FOLLOWING, Phase.STOPPED):
                self._forget(run.name)
            await asyncio.sleep(0)

    def _look_at(self, run: ServedRun) -> None:
        desk = run.host.desk
        if desk is None or not isinstance(desk.run.machine, Cluster) or not isinstance(desk.collector, Collector):
            return
        eye = self._eyes.get(run.name)
        if eye is None:
            eye = self._eyes[run.name] = FleetEye(run.name, self._settings.workers_followed)
        commits = self._metrics.take_commits(run.name)
        look = eye.look(desk.run.machine.fleet, desk.collector, commits, now_us(), time.time())
        self._metrics.heard(run.name, look.heartbeats)
        self._metrics.aged(run.name, look.ages_s)
        self._metrics.counted(run.name, look.workers)
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
