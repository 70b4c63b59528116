"""What goes wrong in federated rounds: drawn from the seed before anything starts, and stopped all at once."""

from __future__ import annotations

from collections.abc import Callable

from quoracy.core.federated.events import ParticipantReadmitted, RunPaused
from quoracy.sim.federated.participants import STAGES, USUAL_US, SimParticipant
from quoracy.sim.federated.workshop import Workshop
from quoracy.sim.hosts import SimHost
from quoracy.sim.line_trouble import LineTrouble
from quoracy.sim.members import SimOperator
from quoracy.sim.store import Store
from quoracy.sim.streams import Streams
from quoracy.sim.world import MS, World


class FederatedFaults(LineTrouble):
    def __init__(
        self,
        world: World,
        streams: Streams,
        store: Store,
        hosts: list[SimHost],
        operator: SimOperator,
        participants: list[SimParticipant],
        workshop: Workshop,
        start: Callable[[str], SimParticipant],
    ) -> None:
        super().__init__(world, streams, store, hosts)
        self.operator = operator
        self.participants = participants
        self.workshop = workshop
        self._start = start
        self._names = 0

    def plan(self, count: int, until_us: int) -> None:
        """Draw ``count`` faults between the first half second and ``until_us``."""
        kinds: tuple[Callable[[], None], ...] = (
            self.kill_host, self.kill_host, self.kill_host, self.stop_host, self.jump_clock, self.cut_host_from_store,
            self.lose_power, self.full_disk, self.slow_disk,
            self.kill, self.kill, self.drop_out, self.drop_out, self.drop_out, self.drop_out, self.vanish,
            self.stop_one, self.slow, self.cut_one, self.twin, self.leave, self.newcomer, self.poison, self.poison,
            self.forget, self.copy, self.boast, self.everybody,
            self.slow_workshop, self.workshop_dies, self.workshop_dies,
            self.workshop_stutters, self.workshop_fails, self.workshop_never_answers, self.workshop_never_answers,
            self.pause,
        )  # fmt: skip
        kinds = self.chosen(kinds + self.line_faults())
        for _ in range(count):
            fault = self.world.rng.choice(kinds)
            self.world.after(self.world.between(500 * MS, until_us), self._strike, fault)

    def _processes(self) -> list[SimParticipant]:
        return self.participants

    # -- participants -----------------------------------------------------------------------------------------------

    def _one(self) -> SimParticipant | None:
        present = [participant for participant in self.participants if participant.present()]
        return self.world.rng.choice(present) if present else None

    def _again(self, member: str) -> None:
        """Started anew, as whoever runs it would, if it is not there."""
        if not any(p.present() and p.member == member for p in self.participants):
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
        for participant in [p for p in self.participants if p.present()]:
            participant.kill()
            self._later(50 * MS, 5_000 * MS, self._again, participant.member)

    def stop_one(self) -> None:
        if (one := self._one()) is not None:
            one.stop()
            self._later(200 * MS, 6_000 * MS, one.go_on)

    def slow(self) -> None:
        if (one := self._one()) is not None:
            one.train_us = (1_500 * MS, 8_000 * MS)
            self._later(2_000 * MS, 6_000 * MS, self._hurry, one)

    def _hurry(self, participant: SimParticipant) -> None:
        participant.train_us = USUAL_US

    def cut_one(self) -> None:
        if (one := self._one()) is not None:
            for host in self.hosts:
                self.world.rng.choice((self.network.cut, self.network.cut_one_way))(one.member, host.name)
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

    def poison(self) -> None:
        """Its next update is; it is let back in after a while, and is good then."""
        if (one := self._one()) is not None:
            one.poison = True
            self._later(1_500 * MS, 4_000 * MS, self._forgive, one.member)

    def forget(self) -> None:
        """It offers what it has not uploaded."""
        if (one := self._one()) is not None:
            one.forgets = True
            self._later(1_500 * MS, 4_000 * MS, self._forgive, one.member)

    def copy(self) -> None:
        """It offers what another has uploaded."""
        if (one := self._one()) is not None:
            one.copies = True
            self._later(1_500 * MS, 4_000 * MS, self._forgive, one.member)

    def boast(self) -> None:
        if (one := self._one()) is not None:
            one.boasts = True

    def _forgive(self, member: str) -> None:
        self.operator.command(ParticipantReadmitted(member))
        self._later(100 * MS, 1_000 * MS, self._again, member)

    # -- the workshop and operators ---------------------------------------------------------------------------------

    def slow_workshop(self) -> None:
        self.workshop.work_us = (200 * MS, 3_000 * MS)
        self._later(1_000 * MS, 4_000 * MS, self._calm)

    def workshop_dies(self) -> None:
        self.workshop.dying = 0.5
        self._later(1_000 * MS, 4_000 * MS, self._calm)

    def workshop_stutters(self) -> None:
        self.workshop.doubling = 0.7
        self._later(1_000 * MS, 4_000 * MS, self._calm)

    def workshop_fails(self) -> None:
        self.workshop.failing = 0.7
        self._later(500 * MS, 2_000 * MS, self._calm)

    def workshop_never_answers(self) -> None:
        """About most updates of a while: they are waited for, but not for ever."""
        self.workshop.silent = 0.8
        self._later(500 * MS, 3_000 * MS, self._calm)

    def _calm(self) -> None:
        self.workshop.work_us = (1 * MS, 20 * MS)
        self.workshop.dying = self.workshop.doubling = self.workshop.failing = self.workshop.silent = 0.0

    def pause(self) -> None:
        self.operator.command(RunPaused("the operator said so"))

    # -- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self.end_trouble()
        self._calm()
        for participant in self.participants:
            participant.go_on()
            participant.dies_at = ""
            participant.poison = participant.forgets = participant.copies = participant.boasts = False
            self._hurry(participant)
        for member in dict.fromkeys(participant.member for participant in self.participants):
            self.operator.command(ParticipantReadmitted(member))
            self.world.after(500 * MS, self._again, member)
