"""What goes wrong in witnessed rounds: drawn from the seed before anything starts, and stopped all at once."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from quoracy.core.witnessed.events import MemberReadmitted, RunPaused, RunStopped
from quoracy.sim.hosts import SimHost
from quoracy.sim.line_trouble import LineTrouble
from quoracy.sim.members import SimOperator
from quoracy.sim.store import Store
from quoracy.sim.streams import Streams
from quoracy.sim.witnessed.bench import USUAL_US, Objects
from quoracy.sim.witnessed.exchange import RELAY, Relay
from quoracy.sim.witnessed.liars import HOLLOW, LIES
from quoracy.sim.witnessed.members import STAGES, SimMember
from quoracy.sim.world import MS, World

OFTEN: Final = 0.3
"""The share of lives with a fault that is drawn apart."""


class WitnessedFaults(LineTrouble):
    def __init__(
        self,
        world: World,
        streams: Streams,
        store: Store,
        hosts: list[SimHost],
        operator: SimOperator,
        members: list[SimMember],
        objects: Objects,
        relay: Relay,
        start: Callable[[str], SimMember],
    ) -> None:
        super().__init__(world, streams, store, hosts)
        self.operator = operator
        self.members = members
        self.objects = objects
        self.relay = relay
        self._start = start
        self._names = 0

    def plan(self, count: int, until_us: int) -> None:
        """Draw ``count`` faults between the first half second and ``until_us``."""
        kinds: tuple[Callable[[], None], ...] = (
            self.kill_host, self.kill_host, self.kill_host, self.stop_host, self.jump_clock, self.cut_host_from_store,
            self.lose_power, self.full_disk, self.slow_disk,
            self.kill, self.kill, self.drop_out, self.drop_out, self.drop_out, self.drop_out, self.vanish,
            self.everybody, self.stop_one, self.stop_one, self.slow, self.stuck, self.cut_one, self.cut_pair,
            self.partition, self.twin, self.leave, self.newcomer, self.newcomer, self.rot, self.objects_away,
            self.relay_forgets, self.liar, self.liar, self.liar, self.liar,
            self.conspiracy, self.conspiracy, self.pause,
        )  # fmt: skip
        kinds = self.chosen(kinds + self.line_faults())
        for _ in range(count):
            fault = self.world.rng.choice(kinds)
            self.world.after(self.world.between(500 * MS, until_us), self._strike, fault)
        if self.world.chance(0.05):
            self.world.after(self.world.between(until_us // 2, until_us), self._strike, self.stop_run)
        self._plan_apart(until_us)

    def _plan_apart(self, until_us: int) -> None:
        """What would seldom come to anything by chance, in some lives: early, and for long. Drawn apart, so that all
        other lives stay what they are."""
        rng = Random(f"apart {self.world.seed}")  # noqa: S311 - repeatable on purpose
        for fault in (self.boast_together, self.cut_group, self.two_faced, self.hollow, self.rumour):
            if rng.random() < OFTEN:
                self.world.after(rng.randint(1_000 * MS, until_us // 2), self._strike, fault)

    def _processes(self) -> list[SimMember]:
        return self.members

    # -- members ----------------------------------------------------------------------------------------------------

    def _present(self) -> list[SimMember]:
        return [member for member in self.members if member.present()]

    def _one(self) -> SimMember | None:
        present = self._present()
        return self.world.rng.choice(present) if present else None

    def _again(self, member: str) -> None:
        """Started anew, as whoever runs it would, if it is not there."""
        if not any(process.member == member for process in self._present()):
            self._start(member)

    def kill(self) -> None:
        if (one := self._one()) is not None:
            one.kill()
            self._later(50 * MS, 4_000 * MS, self._again, one.member)

    def drop_out(self) -> None:
        """At a stage of its work, and back after a while that may be longer than it is waited for."""
        if (one := self._one()) is not None:
            one.dies_at = self.world.rng.choice(STAGES)
            self._later(1_000 * MS, 6_000 * MS, self._again, one.member)

    def vanish(self) -> None:
        """And does not come back before the faults are over."""
        if (one := self._one()) is not None:
            one.kill()

    def everybody(self) -> None:
        for member in self._present():
            member.kill()
            self._later(50 * MS, 4_000 * MS, self._again, member.member)

    def stop_one(self) -> None:
        if (one := self._one()) is not None:
            one.stop()
            self._later(200 * MS, 6_000 * MS, one.go_on)

    def slow(self) -> None:
        if (one := self._one()) is not None:
            one.bench.batch_us = (200 * MS, 900 * MS)
            self._later(2_000 * MS, 6_000 * MS, self._hurry, one)

    def _hurry(self, member: SimMember) -> None:
        member.bench.batch_us = USUAL_US

    def stuck(self) -> None:
        """Its heartbeats go on; its training does not."""
        if (one := self._one()) is not None:
            one.bench.stuck_us = self.world.between(500 * MS, 6_000 * MS)

    def cut_one(self) -> None:
        """From the coordinator, while the others still reach it."""
        if (one := self._one()) is not None:
            for host in self.hosts:
                self.world.rng.choice((self.network.cut, self.network.cut_one_way))(one.member, host.name)
            self._later(200 * MS, 4_000 * MS, self.network.heal)

    def cut_pair(self) -> None:
        if (one := self._one()) is not None and (other := self._one()) is not None and one is not other:
            self.network.cut(one.member, other.member)
            self._later(200 * MS, 4_000 * MS, self.network.heal)

    def partition(self) -> None:
        """Members fall into two halves; the coordinator reaches both."""
        names = sorted({member.member for member in self._present()})
        self.world.rng.shuffle(names)
        half = self.world.between(1, max(1, len(names) - 1))
        for one in names[:half]:
            for other in names[half:]:
                self.network.cut(one, other)
        self._later(200 * MS, 2_500 * MS, self.network.heal)

    def cut_group(self) -> None:
        """Some members reach each other, and neither the coordinator, with the relay at its door, nor the rest."""
        names = sorted({member.member for member in self._present()})
        self.world.rng.shuffle(names)
        size = self.world.between(min(2, len(names)), max(2, len(names) - 1))
        away, rest = names[:size], names[size:]
        for one in away:
            for other in (*rest, *(host.name for host in self.hosts), RELAY):
                self.network.cut(one, other)
        self._later(200 * MS, 5_000 * MS, self.network.heal)

    def twin(self) -> None:
        """A second process under a name that is in use."""
        if (one := self._one()) is not None:
            self._start(one.member)

    def leave(self) -> None:
        if (one := self._one()) is not None:
            one.leave()
            self._later(500 * MS, 3_000 * MS, self._again, one.member)

    def newcomer(self) -> None:
        self._names += 1
        self._start(f"late{self._names}")

    def rot(self) -> None:
        """A bit falls over in its memory the next time it applies."""
        if (one := self._one()) is not None:
            one.bench.rots = True

    # -- liars ------------------------------------------------------------------------------------------------------

    def liar(self) -> None:
        """For a while, or until it is found out; few of many at a time. It is let back in, and is honest then."""
        present = self._present()
        if sum(bool(member.lie) for member in present) > len(present) // 4:
            return
        lie = self.world.rng.choice(LIES)
        if lie == "slanders" and any(member.lie == lie for member in present):
            return  # where two lie together, two are most of three
        if (one := self._one()) is not None:
            self._corrupt(one, lie)

    def conspiracy(self) -> None:
        """One commits to what it does not give, and another attests it."""
        present = self._present()
        if len(present) > 3 and not any(member.lie for member in present):
            one, other = self.world.rng.sample(present, 2)
            self._corrupt(one, "mismatch")
            self._corrupt(other, "boasts")

    def boast_together(self) -> None:
        """One dies with what it has committed to, and all others but one attest it: a quorum holds what nobody has."""
        honest = [member for member in self._present() if not member.lie]
        if len(honest) < 2:
            return
        self.world.rng.shuffle(honest)
        maker, *others = honest
        maker.dies_at = "committed"
        self._later(3_000 * MS, 6_000 * MS, self._again, maker.member)
        for other in others[: max(2, len(others) - 1)]:
            self._corrupt(other, "boasts", 4_000 * MS)

    def two_faced(self) -> None:
        honest = [member for member in self._present() if not member.lie]
        if len(honest) > 2:
            self._corrupt(self.world.rng.choice(honest), "two-faced", 4_000 * MS)

    def hollow(self) -> None:
        """Whoever is drawn to store the model only says so; and after a while nobody is left who has it."""
        for member in self._present():
            if not member.lie:
                self._corrupt(member, HOLLOW, 4_000 * MS)
        self._later(2_000 * MS, 4_000 * MS, self.everybody)

    def rumour(self) -> None:
        """All others report one as inactive for a while; in half of the lives it really is."""
        one = self._one()
        if one is None:
            return
        others = [member for member in self._present() if member.member != one.member]
        for other in others:
            other.reports = (one.member,)
        if self.world.chance(0.5):
            one.bench.batch_us = (900 * MS, 2_000 * MS)
        self.world.note("fault", lambda: f"{len(others)} report {one.name} as inactive")
        self._later(3_000 * MS, 6_000 * MS, self._end_rumour, one, others)

    def _end_rumour(self, one: SimMember, others: list[SimMember]) -> None:
        self._hurry(one)
        for other in others:
            other.reports = ()

    def _corrupt(self, member: SimMember, lie: str, least_us: int = 1_500 * MS) -> None:
        member.lie = lie
        self.world.note("fault", lambda: f"{member.name} lies: {lie}")
        self._later(least_us, least_us + 3_500 * MS, self._forgive, member)

    def _forgive(self, member: SimMember) -> None:
        member.repent()
        self.operator.command(MemberReadmitted(member.member))
        self._later(100 * MS, 1_000 * MS, self._again, member.member)

    # -- the rest of the world ----------------------------------------------------------------------------------------

    def objects_away(self) -> None:
        self.objects.away = True
        self._later(500 * MS, 4_000 * MS, self._objects_back)

    def _objects_back(self) -> None:
        self.objects.away = False

    def relay_forgets(self) -> None:
        self.relay.forget()

    def pause(self) -> None:
        self.operator.command(RunPaused("the operator said so"))

    def stop_run(self) -> None:
        self.operator.command(RunStopped("the operator had enough"))

    # -- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self.end_trouble()
        self._objects_back()
        for member in self.members:
            member.go_on()
            member.dies_at = ""
            member.repent()
            member.bench.rots = False
            self._hurry(member)
        for name in dict.fromkeys(member.member for member in self.members):
            self.operator.command(MemberReadmitted(name))
            self.world.after(500 * MS, self._again, name)
