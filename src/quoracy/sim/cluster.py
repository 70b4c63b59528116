"""One life of a fleet: hosts, a store, workers and an operator; faults for a while, then none; then judgement."""

from __future__ import annotations

from typing import Final

import msgspec

from quoracy.core.cluster.events import WorkerLost
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.sim.checkers import Checkers, Ending, cluster_checkers
from quoracy.sim.checkers.heartbeats import Heartbeats
from quoracy.sim.checkers.progress import MOVES_ON_S
from quoracy.sim.faults import Faults
from quoracy.sim.hosts import SimHost
from quoracy.sim.members import SimOperator, SimWorker
from quoracy.sim.network import Network, Weather
from quoracy.sim.store import Store
from quoracy.sim.streams import Streams
from quoracy.sim.verdict import lived
from quoracy.sim.world import MS, SECOND, World

RUN: Final = "sim"
FAULTS_US: Final = 12 * SECOND
SESSIONS_S: Final = (86_400.0, 86_400.0, 6.0)
"""How long session tokens are good: in some lives they have to be renewed."""
CONFIG: Final = {
    "max_workers": 12,
    "heartbeat_interval_s": 0.4,
    "heartbeat_timeout_s": 2.4,
    "barrier_min": 2,
    "barrier_deadline_s": 6.0,
    "barrier_memory": 4,
}
LIMITS: Final = Limits(
    snapshot_every=20, beat_us=200 * MS, takeover_us=1_200 * MS, stagger_us=150 * MS, retry_us=100 * MS,
    max_tries=1000,
)  # fmt: skip


class Outcome(msgspec.Struct, frozen=True):
    """How a life went."""

    seed: int
    ok: bool
    violation: str
    events: int
    entries: int
    released: int
    faults: int
    lost_races: int
    """How often a host wanted to take over and somebody else's entry was there first."""
    transcript: list[str]


class Life:
    def __init__(self, seed: int, record: bool = False, checkers: Checkers | None = None) -> None:
        self.world = world = World(seed, record)
        self.checkers = checkers or cluster_checkers()
        self.network = Network(world, self._weather())
        self.streams = Streams(world, self.network)
        self.store = Store(world, self.network, RUN, self.checkers.durable)
        self.store.sync_us = world.rng.choice(((200, 3 * MS), (200, 3 * MS), (2 * MS, 30 * MS)))
        names = [f"h{i + 1}" for i in range(world.rng.choice((1, 2, 2, 3)))]
        session_s = world.rng.choice(SESSIONS_S)
        self.hosts = [
            SimHost(world, self.streams, name, RUN, KINDS, LIMITS, self.checkers, session_s) for name in names
        ]
        self.workers: list[SimWorker] = []
        self._names = names
        self.operator = SimOperator(world, self.network, RUN, names, self.checkers)
        self.faults = Faults(
            world, self.streams, self.store, self.hosts, self.operator, self.workers, self._start_worker
        )  # fmt: skip
        self.planned = world.between(3, 17)
        timeout_s = float(CONFIG["heartbeat_timeout_s"])
        self.checkers.add(Heartbeats("cluster", WorkerLost, self.workers, self.hosts, self.faults, timeout_s))

    def _weather(self) -> Weather:
        """Some lives are fair, most are not."""
        rng = self.world.rng
        if rng.random() < 0.2:
            return Weather()
        return Weather(
            slowest_us=rng.choice((2, 10, 40)) * MS, loss=rng.choice((0.0, 0.02, 0.1)),
            doubling=rng.choice((0.0, 0.05, 0.2)), straggling=rng.choice((0.0, 0.005, 0.03)),
        )  # fmt: skip

    def _start_worker(self, member: str) -> SimWorker:
        worker = SimWorker(
            self.world, self.streams, RUN, member, len(self.workers) + 1, self._names, self.checkers
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def live(self) -> Outcome:
        violation = lived(self._live, self.world)
        released = max((worker.passed for worker in self.workers), default=0)
        return Outcome(
            self.world.seed, not violation, violation, self.world.events, len(self.store.entries), released,
            self.planned, sum(host.lost_races for host in self.hosts), self.world.lines or [],
        )  # fmt: skip

    def _live(self) -> None:
        world = self.world
        first, *others = self.hosts
        first.alone = not others
        first.start()
        first.create(RunCreated(RUN, "cluster", 1, CONFIG))
        for host in others:
            world.after(50 * MS, host.start)
        for i in range(world.between(3, 6)):
            world.after(world.between(60 * MS, 800 * MS), self._start_worker, f"w{i + 1}")
        self.faults.plan(self.planned, FAULTS_US - 500 * MS)
        world.run(FAULTS_US)
        world.note("fault", lambda: "no more from here on")
        self.faults.stop()
        self.checkers.faults_stopped(self.workers)
        world.run(FAULTS_US + MOVES_ON_S * SECOND)
        alive = [worker for worker in self.workers if worker.alive and not worker.ended()]
        self.checkers.finish(Ending(self.store.entries, alive, RUN))


def live(seed: int, record: bool = False) -> Outcome:
    return Life(seed, record).live()
