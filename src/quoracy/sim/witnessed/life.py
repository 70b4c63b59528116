"""One life of a witnessed run: hosts, a store, members that exchange results, and an operator; faults for a while, then
none; then judgement."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.core.witnessed.events import MemberLost, MemberReadmitted, RunResumed
from quoracy.core.witnessed.machine import Witnessed
from quoracy.core.witnessed.state import Course, Phase
from quoracy.sim.checkers.heartbeats import Heartbeats
from quoracy.sim.cluster import SESSIONS_S
from quoracy.sim.hosts import SimHost
from quoracy.sim.members import SimOperator
from quoracy.sim.network import FAIR, Network, Weather
from quoracy.sim.store import Store
from quoracy.sim.streams import Streams
from quoracy.sim.verdict import lived
from quoracy.sim.witnessed.bench import Objects
from quoracy.sim.witnessed.checkers import Over, WitnessedCheckers
from quoracy.sim.witnessed.checkers.ending import ENDS_S
from quoracy.sim.witnessed.exchange import Relay
from quoracy.sim.witnessed.faults import WitnessedFaults
from quoracy.sim.witnessed.making import verify
from quoracy.sim.witnessed.members import SimMember, admitted
from quoracy.sim.world import MS, SECOND, World

RUN: Final = "sim"
FAULTS_US: Final = 12 * SECOND
LOOKS_US: Final = 1_500 * MS
"""So often the operator looks whether the run is paused."""
LIMITS: Final = Limits(
    snapshot_every=20, beat_us=200 * MS, takeover_us=1_200 * MS, stagger_us=150 * MS, retry_us=100 * MS,
    max_tries=1000,
)  # fmt: skip
SLOW_FROM_S: Final = 3.0
"""Where a round may take so long, some members are slow by nature; in less they would never be done in time."""
SYBIL: Final = 4
"""In one of so many lives a member wants to be two."""
PACE: Final[dict[str, Any]] = {
    "heartbeat_interval_s": 0.4, "heartbeat_timeout_s": 2.4, "waiting_extra_s": 0.3, "warmup_s": 1.5,
    "round_train_max_s": 3.0, "round_witness_s": 1.0, "cooldown_s": 3.0, "checkpoint_retry_s": 0.8,
    "deadline_floor_s": 0.4, "max_clients": 12, "batch_size": 4,
}  # fmt: skip


class Outcome(msgspec.Struct, frozen=True):
    """How a life went."""

    seed: int
    ok: bool
    violation: str
    events: int
    entries: int
    released: int
    """Rounds that were applied and count."""
    faults: int
    transcript: list[str]


class Life:
    def __init__(
        self, seed: int, record: bool = False, config: dict[str, Any] | None = None, fair: bool = False, size: int = 0,
        hosts: int = 0,
    ) -> None:  # fmt: skip
        """``config``, ``size``, ``hosts``: others than the seed draws. ``fair``: nothing goes wrong."""
        self.world = world = World(seed, record)
        self.checkers = WitnessedCheckers()
        self.size = size or world.between(2, 6)
        self.config = PACE | (self._settings() if config is None else config)
        self.network = Network(world, FAIR if fair else self._weather())
        self.streams = Streams(world, self.network)
        self.store = Store(world, self.network, RUN, self._durable)
        self.objects = Objects()
        self.relay = Relay(self.network)
        names = [f"h{i + 1}" for i in range(hosts or world.rng.choice((1, 2, 2, 3)))]
        kinds = KINDS.verified_by(verify)
        session_s = world.rng.choice(SESSIONS_S)
        self.hosts = [
            SimHost(world, self.streams, name, RUN, kinds, LIMITS, self.checkers, session_s) for name in names
        ]
        for host in self.hosts:
            host.admit = admitted
        self.members: list[SimMember] = []
        self._names = names
        self.hidden = "" if fair or world.chance(0.6) else "m2"
        """The member that nobody can reach."""
        self.operator = SimOperator(world, self.network, RUN, names, self.checkers)
        self.faults = WitnessedFaults(
            world, self.streams, self.store, self.hosts, self.operator, self.members, self.objects, self.relay,
            self.start,
        )  # fmt: skip
        self.checkers.add(
            Heartbeats("witnessed", MemberLost, self.members, self.hosts, self.faults, PACE["heartbeat_timeout_s"])
        )
        self.planned = 0 if fair else world.between(3, 17)
        self.kill_after_entry = 0
        """Kill the first host when this entry is durable, before it hears of it."""
        self.comes_back = True
        self.brings_back = True
        """When nothing goes wrong any more, the operator starts those anew who are not there."""
        self._fair = self._calm = fair

    def _settings(self) -> dict[str, Any]:
        """Of most sorts of rounds there are."""
        rng, size = self.world.rng, self.size
        least = rng.randint(1, size)
        config: dict[str, Any] = {
            "min_clients": least, "init_min_clients": rng.choice((0, rng.randint(least, size))),
            "total_steps": rng.randint(6, 30), "rounds_per_epoch": rng.randint(1, 10), "seed": rng.randint(0, 99),
            "witness_nodes": rng.choice((0, 0, 1, rng.randint(1, least))),
            "witness_quorum": rng.choice(("2/3", "2/3", "1/2", 1.0, 0.34)), "strikes_max": rng.choice((2, 2, 0)),
            "attempts_max": rng.choice((5, 5, 1)), "checkpoint": rng.choice(("stored", "stored", "none")),
            "attestation": rng.choice(("bitmap", "bitmap", "bloom")), "speed_weighted": rng.random() < 0.7,
            "adaptive_deadline": rng.random() < 0.7, "round_train_max_s": rng.choice((3.0, 3.0, 0.8)),
            "global_batch_size_start": 4 * rng.randint(size, 3 * size),
        }  # fmt: skip
        if rng.random() < 0.3:
            config |= {"ramp_steps": rng.randint(1, 6)}
            config |= {"global_batch_size_end": config["global_batch_size_start"] + 4 * rng.randint(1, 8)}
        if rng.random() < 0.2:
            config |= {"epoch_s": 5.0}
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

    def start(self, member: str) -> SimMember:
        process = SimMember(
            self.world, self.streams, RUN, member, len(self.members) + 1, self._names, self.checkers, self.objects,
            self.config["batch_size"], member != self.hidden,
        )  # fmt: skip
        if self.config["round_train_max_s"] < SLOW_FROM_S:
            process.bench.times = 1
        process.sybil = not self._fair and member == "m1" and self.world.seed % SYBIL == 0
        self.members.append(process)
        return process

    def _durable(self, n: int, payload: bytes) -> None:
        self.checkers.durable(n, payload)
        if n == self.kill_after_entry and (host := self.hosts[0]).lives == 1:
            host.kill()
            if self.comes_back:
                self.world.after(300 * MS, host.start)

    def live(self) -> Outcome:
        violation = lived(self._live, self.world)
        course = self.course()
        return Outcome(
            self.world.seed, not violation, violation, self.world.events, len(self.store.entries),
            0 if course is None else course.step, self.planned, self.world.lines or [],
        )  # fmt: skip

    def course(self) -> Course | None:
        """As the host that serves has it."""
        for host in self.hosts:
            run = host.host.run if host.serves() and host.host is not None else None
            if run is not None and isinstance(run.machine, Witnessed):
                return run.machine.course
        return None

    def _live(self) -> None:
        world = self.world
        first, *others = self.hosts
        first.alone = not others
        first.start()
        first.create(RunCreated(RUN, "witnessed", 1, self.config))
        for host in others:
            world.after(50 * MS, host.start)
        for i in range(self.size):
            world.after(world.between(60 * MS, 800 * MS), self.start, f"m{i + 1}")
        world.after(LOOKS_US, self._look)
        if not self._calm:
            self.faults.plan(self.planned, FAULTS_US - 500 * MS)
            world.run(FAULTS_US)
            world.note("fault", lambda: "no more from here on")
            self.faults.stop()
            self._calm = True
        self.checkers.faults_stopped(self.members)
        for _ in range(ENDS_S):
            if self._all_over():
                break
            world.run(world.now_us + SECOND)
        alive = [member for member in self.members if member.alive]
        self.checkers.finish(Over(self.store.entries, alive, RUN, self.members))

    def _all_over(self) -> bool:
        course = self.course()
        return course is not None and course.state is Phase.FINISHED and not any(m.present() for m in self.members)

    def _look(self) -> None:
        """The operator lets the run go on when it has paused; and those back in who can be trusted again, when nothing
        goes wrong any more."""
        course = self.course()
        if course is not None and course.state is Phase.PAUSED:
            self.operator.command(RunResumed())
        if self._calm and self.brings_back and (course is None or course.state is not Phase.FINISHED):
            present = {member.member for member in self.members if member.present()}
            for name in dict.fromkeys(member.member for member in self.members if member.member not in present):
                self.operator.command(MemberReadmitted(name))
                self.start(name)
        self.world.after(LOOKS_US, self._look)


def live(seed: int, record: bool = False) -> Outcome:
    return Life(seed, record).live()
