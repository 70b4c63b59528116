"""One life of a federated run: hosts, a store, participants, a workshop and an operator; faults for a while, then none;
then judgement."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quoracy.core.federated.events import ParticipantLost, ParticipantReadmitted, RunResumed
from quoracy.core.federated.machine import Federated
from quoracy.core.federated.state import OVER, Phase, Task
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.sim.checkers import Ending
from quoracy.sim.checkers.heartbeats import Heartbeats
from quoracy.sim.cluster import SESSIONS_S
from quoracy.sim.federated.checkers import FederatedCheckers
from quoracy.sim.federated.checkers.ending import ENDS_S
from quoracy.sim.federated.faults import FederatedFaults
from quoracy.sim.federated.participants import SimParticipant
from quoracy.sim.federated.workshop import Objects, Workshop, hexed
from quoracy.sim.hosts import SimHost
from quoracy.sim.members import SimOperator
from quoracy.sim.network import FAIR, Network, Weather
from quoracy.sim.store import Store
from quoracy.sim.streams import Streams
from quoracy.sim.verdict import lived
from quoracy.sim.world import MS, SECOND, World

RUN: Final = "sim"
FAULTS_US: Final = 12 * SECOND
LOOKS_US: Final = 1_500 * MS
"""So often the operator looks whether the run is paused."""
LIMITS: Final = Limits(
    snapshot_every=20, beat_us=200 * MS, takeover_us=1_200 * MS, stagger_us=150 * MS, retry_us=100 * MS,
    max_tries=1000,
)  # fmt: skip
PACE: Final[dict[str, Any]] = {
    "heartbeat_interval_s": 0.4, "heartbeat_timeout_s": 2.4, "time_max_s": 5.0, "standby_max_s": 3.0,
    "max_participants": 20,
}  # fmt: skip
GIVEN: Final = hexed("initial")


class Outcome(msgspec.Struct, frozen=True):
    """How a life went."""

    seed: int
    ok: bool
    violation: str
    events: int
    entries: int
    released: int
    """Rounds that became a model."""
    faults: int
    transcript: list[str]


class Life:
    def __init__(
        self, seed: int, record: bool = False, config: dict[str, Any] | None = None, fair: bool = False, size: int = 0,
        hosts: int = 0,
    ) -> None:  # fmt: skip
        """``config``, ``size``, ``hosts``: others than the seed draws. ``fair``: nothing goes wrong."""
        self.world = world = World(seed, record)
        self.checkers = FederatedCheckers()
        self.size = size or world.between(2, 6)
        self.config = PACE | (self._settings() if config is None else config)
        self.network = Network(world, FAIR if fair else self._weather())
        self.streams = Streams(world, self.network)
        self.store = Store(world, self.network, RUN, self._durable)
        self.objects = Objects()
        self.workshop = Workshop(world, self.objects)
        names = [f"h{i + 1}" for i in range(hosts or world.rng.choice((1, 2, 2, 3)))]
        session_s = world.rng.choice(SESSIONS_S)
        self.hosts = [
            SimHost(world, self.streams, name, RUN, KINDS, LIMITS, self.checkers, session_s) for name in names
        ]
        for host in self.hosts:
            host.perform = self.workshop.perform
        self.participants: list[SimParticipant] = []
        self._names = names
        self.operator = SimOperator(world, self.network, RUN, names, self.checkers)
        self.faults = FederatedFaults(
            world, self.streams, self.store, self.hosts, self.operator, self.participants, self.workshop, self.start
        )  # fmt: skip
        self.checkers.add(
            Heartbeats(
                "federated", ParticipantLost, self.participants, self.hosts, self.faults, PACE["heartbeat_timeout_s"]
            )
        )
        self.planned = 0 if fair else world.between(3, 17)
        self.kill_after_entry = 0
        """Kill the first host when this entry is durable, before it hears of it."""
        self.comes_back = True
        self._calm = fair

    def _settings(self) -> dict[str, Any]:
        """Of most sorts of rounds there are."""
        rng, size = self.world.rng, self.size
        config: dict[str, Any] = {
            "clients": rng.randint(1, size), "rounds": rng.randint(6, 16), "seed": rng.randint(0, 99),
            "initial": rng.choice((GIVEN, GIVEN, "")), "refused_max": rng.choice((1, 1, 2)),
            "evaluation": rng.choice(("", "mine:score")), "time_max_s": rng.choice((5.0, 5.0, 1.2)),
            "standby_max_s": rng.choice((3.0, 3.0, 0.8)), "samples_max": rng.choice((0, 0, 100)),
        }  # fmt: skip
        if rng.random() < 0.5:
            return config
        per_round = rng.randint(1, config["clients"])
        config |= {"per_round": per_round, "over_select": rng.choice((0.0, 0.5, 1.0))}
        config |= {"count_min": rng.choice((0, rng.randint(1, per_round))), "time_min_s": rng.choice((0.0, 0.5))}
        if rng.random() < 0.3:
            config["count_max"] = rng.randint(max(1, config["count_min"]), per_round + 1)
        return config

    def _weather(self) -> Weather:
        """Some lives are fair, most are not."""
        rng = self.world.rng
        if rng.random() < 0.2:
            return Weather()
        return Weather(
            slowest_us=rng.choice((2, 10, 40)) * MS, loss=rng.choice((0.0, 0.02, 0.1)),
            doubling=rng.choice((0.0, 0.05, 0.2)), straggling=rng.choice((0.0, 0.005, 0.03)),
        )  # fmt: skip

    def start(self, member: str) -> SimParticipant:
        number = len(self.participants) + 1
        participant = SimParticipant(
            self.world, self.streams, RUN, member, number, self._names, self.checkers, self.objects,
            initial=member != "p2",
        )  # fmt: skip
        self.participants.append(participant)
        return participant

    def _durable(self, n: int, payload: bytes) -> None:
        self.checkers.durable(n, payload)
        if n == self.kill_after_entry and (host := self.hosts[0]).lives == 1:
            host.kill()
            if self.comes_back:
                self.world.after(300 * MS, host.start)

    def live(self) -> Outcome:
        violation = lived(self._live, self.world)
        task = self.task()
        rounds = 0 if task is None else sum(bool(over.weights) for over in task.history)
        return Outcome(
            self.world.seed, not violation, violation, self.world.events, len(self.store.entries), rounds,
            self.planned, self.world.lines or [],
        )  # fmt: skip

    def task(self) -> Task | None:
        """As the host that serves has it."""
        for host in self.hosts:
            run = host.host.run if host.serves() and host.host is not None else None
            if run is not None and isinstance(run.machine, Federated):
                return run.machine.task
        return None

    def _live(self) -> None:
        world = self.world
        first, *others = self.hosts
        first.alone = not others
        first.start()
        first.create(RunCreated(RUN, "federated", 1, self.config))
        for host in others:
            world.after(50 * MS, host.start)
        for i in range(self.size):
            world.after(world.between(60 * MS, 800 * MS), self.start, f"p{i + 1}")
        world.after(LOOKS_US, self._look)
        if not self._calm:
            self.faults.plan(self.planned, FAULTS_US - 500 * MS)
            world.run(FAULTS_US)
            world.note("fault", lambda: "no more from here on")
            self.faults.stop()
            self._calm = True
        self.checkers.faults_stopped(self.participants)
        for _ in range(ENDS_S):
            if self._all_over():
                break
            world.run(world.now_us + SECOND)
        self.checkers.finish(Ending(self.store.entries, [p for p in self.participants if p.alive], RUN))

    def _all_over(self) -> bool:
        task = self.task()
        return task is not None and task.state in OVER and not any(p.present() for p in self.participants)

    def _look(self) -> None:
        """The operator lets the run go on when it has paused; and those back in who can be trusted again, when nothing
        goes wrong any more."""
        task = self.task()
        if task is not None and task.state is Phase.PAUSED:
            self.operator.command(RunResumed())
        if self._calm and (task is None or task.state not in OVER):
            present = {p.member for p in self.participants if p.present()}
            for member in dict.fromkeys(p.member for p in self.participants if p.member not in present):
                self.operator.command(ParticipantReadmitted(member))
                self.start(member)
        self.world.after(LOOKS_US, self._look)


def live(seed: int, record: bool = False) -> Outcome:
    return Life(seed, record).live()
