"""One life of a crew of ranks: they come and go, faults for a while, then none; then judgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from quoracy.core.journal import RunCreated
from quoracy.core.kinds import PEERLESS
from quoracy.core.ranks.times import derive
from quoracy.sim.ranks.checkers import Checkers
from quoracy.sim.ranks.process import LOST, SimRank
from quoracy.sim.ranks.store import Store
from quoracy.sim.verdict import lived
from quoracy.sim.world import MS, SECOND, World

RUN: Final = "sim"
DEAD_S: Final = 1.2
FAULTS_US: Final = 10 * SECOND
MOVES_ON_US: Final = 8 * SECOND
FEWEST: Final = 2
"""Ranks that stay, which is enough for every life's ``min_members``."""


class Outcome(msgspec.Struct, frozen=True):
    """How a life went."""

    seed: int
    ok: bool
    violation: str
    events: int
    entries: int
    released: int
    """Attempts that were decided."""
    faults: int
    transcript: list[str]


class Life:
    def __init__(self, seed: int, record: bool = False) -> None:
        self.world = world = World(seed, record)
        self.checkers = Checkers(RUN, PEERLESS, self._acts, self._rests)
        self.store = Store(world, RUN, self.checkers.durable)
        self.times = derive(DEAD_S)
        self.created = RunCreated(
            RUN, "ranks", 1, {"t_dead_s": DEAD_S, "min_members": world.rng.choice((1, 1, FEWEST)), "max_ranks": 12},
            seeding="chain",
        )  # fmt: skip
        self.size = world.between(2, 6)
        self.processes: list[SimRank] = []
        self.planned = world.between(2, 12)
        self._gone: set[int] = set()
        """Ranks that nobody starts again."""
        self._left_behind = False
        self._over = False

    def _acts(self, life: tuple[str, int]) -> bool:
        return any(process.is_cut_off(life) and not process.resting for process in self.processes)

    def _rests(self, life: tuple[str, int]) -> bool:
        return any(process.is_cut_off(life) and process.resting for process in self.processes)

    def live(self) -> Outcome:
        violation = lived(self._live, self.world)
        attempts = max((process.attempt for process in self.processes), default=0)
        return Outcome(
            self.world.seed, not violation, violation, self.world.events, self.store.last, attempts,
            self.planned, self.world.lines or [],
        )  # fmt: skip

    def _live(self) -> None:
        world = self.world
        for rank in range(self.size):
            world.after(world.between(0, 600 * MS), self._start, rank)
        kinds: tuple[Callable[[], None], ...] = (
            self._kill, self._kill, self._kill_decider, self._kill_decider, self._pause, self._cut, self._slow,
            self._twin, self._newcomer, self._kill_all, self._forget_notes, self._storm,
            self._kill_for_good, self._leave, self._lose_store,
        )  # fmt: skip
        for _ in range(self.planned):
            world.after(world.between(500 * MS, FAULTS_US - 500 * MS), self._strike, world.rng.choice(kinds))
        world.run(FAULTS_US)
        self._stop_faults()
        world.run(FAULTS_US + 4 * SECOND)
        attempts_then = self.checkers.attempts
        world.run(FAULTS_US + 4 * SECOND + MOVES_ON_US)
        self.checkers.finish([process for process in self.processes if process.alive], attempts_then)

    def _start(self, rank: int) -> None:
        """In an empty store one that remembers nothing would begin at nothing: as long as somebody remembers more, it
        is not started. The same where too few are left of those who began anew, and one has ended for that."""
        if (self.store.losses and not self.store.last) or self._given_up():
            if any(process.alive and process.knows_run() for process in self.processes):
                self.world.after(200 * MS, self._start_if_gone, rank)
                return
            if self.store.last:
                self._lose()
            self.checkers.afresh()
        life = sum(process.rank == str(rank) for process in self.processes) + 1
        process = SimRank(self.world, self.store, rank, life, PEERLESS, self.created, self.times, self.checkers)
        process.weather = 0.0 if self._over else LOST
        self.processes.append(process)

    def _given_up(self) -> bool:
        """Whether the run that began anew in this store has come to nothing, as those say who were in it."""
        crew = self.checkers.crew()
        if crew is None or not crew.short(crew.coming(alone=True)):
            return False
        return any(each.ended == "store_lost" and each.known == self.store.losses for each in self.processes)

    def _strike(self, fault: Callable[[], None]) -> None:
        if not self._over and any(process.alive for process in self.processes):
            self.world.note("fault", lambda: fault.__name__)
            fault()

    def _one(self) -> SimRank:
        return self.world.rng.choice([process for process in self.processes if process.alive])

    def _again(self, process: SimRank, low_us: int = 50 * MS, high_us: int = 3 * SECOND) -> None:
        """Started anew, as whoever runs it would; sometimes not before the faults are over."""
        self.world.after(self.world.between(low_us, high_us), self._start_if_gone, int(process.rank))

    def _start_if_gone(self, rank: int) -> None:
        if rank not in self._gone and not any(
            process.alive and process.rank == str(rank) for process in self.processes
        ):
            self._start(rank)

    def _kill(self) -> None:
        victim = self._one()
        victim.kill("at once")
        self._again(victim)

    def _kill_for_good(self) -> None:
        """The others give it up, and go on without it."""
        if (victim := self._dispensable()) is not None:
            victim.kill("for good")

    def _leave(self) -> None:
        if (leaver := self._dispensable()) is not None:
            leaver.leaving = True

    def _dispensable(self) -> SimRank | None:
        """One of those who are there from the beginning, as long as there are enough of them to go on."""
        ranks = set(range(self.size)) - self._gone
        alive = [process for process in self.processes if process.alive and int(process.rank) in ranks]
        if len(ranks) <= FEWEST or not alive:
            return None
        chosen = self.world.rng.choice(alive)
        self._gone.add(int(chosen.rank))
        return chosen

    def _kill_decider(self) -> None:
        """Within its next few operations, one of which may be the record."""
        deciding = [process for process in self.processes if process.about_to_decide()]
        victim = self.world.rng.choice(deciding) if deciding else self._one()
        victim.die_after = self.world.between(0, 8)
        self._again(victim, 200 * MS)

    def _kill_all(self) -> None:
        for process in self.processes:
            if process.alive:
                process.kill("with all the others")
                self._again(process)

    def _pause(self) -> None:
        self._one().pause(self.world.between(100 * MS, 3 * SECOND))

    def _cut(self) -> None:
        victim = self._one()
        victim.cut_off = True
        self.world.after(self.world.between(100 * MS, 2 * SECOND), self._mend, victim)
        self._again(victim, 3 * SECOND, 4 * SECOND)

    def _mend(self, victim: SimRank) -> None:
        victim.cut_off = False

    def mute(self) -> None:
        """One can read, and nothing that it writes gets through: as if the store were full for it. No fault that is
        drawn: tests ask for it."""
        if self._over or not any(process.alive for process in self.processes):
            return
        victim = self._one()
        victim.muted = True
        self.world.after(self.world.between(100 * MS, 2 * SECOND), self._unmute, victim)
        self._again(victim, 3 * SECOND, 4 * SECOND)

    def _unmute(self, victim: SimRank) -> None:
        victim.muted = False

    def _slow(self) -> None:
        self._one().slow = self.world.rng.choice((3, 10))

    def _storm(self) -> None:
        """For a second every fifth operation of everybody goes wrong."""
        self._set_weather(0.07)
        self.world.after(SECOND, self._set_weather, LOST)

    def _set_weather(self, weather: float) -> None:
        if not self._over:
            for process in self.processes:
                process.weather = weather

    def _forget_notes(self) -> None:
        self.store.forget_notes()

    def _lose_store(self) -> None:
        """Its server has died, and an empty one has its address. Not again where many were left behind: they, and those
        who went on without them, would each begin anew in a store of their own."""
        if not self._left_behind:
            self._lose()

    def _lose(self) -> None:
        self.checkers.lost()
        self.store.lose()

    def leave_behind(self) -> None:
        """Most of them stand still until the rest has gone on without them. When they wake up the store is empty, and
        the rest stands still: so they begin anew where they stood, and the rest has to go back. Those who have not been
        in anything yet stand nowhere, and are left alone. No fault that is drawn: tests ask for it."""
        alive = [process for process in self.processes if process.alive and process.attempt]
        if self._left_behind or not alive:
            return
        self._left_behind = True
        behind = self.world.rng.sample(alive, len(alive) // 2 + 1)
        for_us = self.world.between(round(DEAD_S * SECOND) + 200 * MS, 3 * SECOND)
        for process in behind:
            process.pause(for_us)
        self.world.after(for_us, self._lose_store_behind, [process for process in alive if process not in behind])

    def _lose_store_behind(self, ahead: list[SimRank]) -> None:
        if self._over:
            return
        for process in ahead:
            process.pause(self.world.between(100 * MS, SECOND))
        self._lose()

    def _twin(self) -> None:
        """A second process under a rank that is taken: the newer one wins, the older one ends."""
        self._start(int(self._one().rank))

    def _newcomer(self) -> None:
        free = sorted(set(range(8)) - self._gone - {int(process.rank) for process in self.processes if process.alive})
        if free:
            self._start(free[0])

    def _stop_faults(self) -> None:
        self._over = True
        self.world.note("fault", lambda: "no more from here on")
        for process in self.processes:
            process.cut_off = process.muted = False
            process.slow = 1
            process.weather = 0.0
            process.die_after = None
        for second in range(4):
            for rank in range(self.size):
                self.world.after(second * SECOND, self._start_if_gone, rank)  # a minority may yet have to give up


def live(seed: int, record: bool = False) -> Outcome:
    return Life(seed, record).live()
