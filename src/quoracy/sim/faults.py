"""What goes wrong in a fleet, and when: drawn from the seed before anything starts, and stopped all at once."""

from __future__ import annotations

from collections.abc import Callable

from quoracy.sim.hosts import SimHost
from quoracy.sim.line_trouble import LineTrouble
from quoracy.sim.members import SimOperator, SimWorker
from quoracy.sim.store import Store
from quoracy.sim.streams import Streams
from quoracy.sim.world import MS, World


class Faults(LineTrouble):
    def __init__(
        self,
        world: World,
        streams: Streams,
        store: Store,
        hosts: list[SimHost],
        operator: SimOperator,
        workers: list[SimWorker],
        start_worker: Callable[[str], SimWorker],
    ) -> None:
        super().__init__(world, streams, store, hosts)
        self.operator = operator
        self.workers = workers
        self._start_worker = start_worker
        self._names = 0
        self._ordered_many = False

    def plan(self, count: int, until_us: int) -> None:
        """Draw ``count`` faults between the first half second and ``until_us``."""
        kinds: tuple[Callable[[], None], ...] = (
            self.kill_host, self.kill_host, self.kill_host, self.stop_host, self.jump_clock, self.cut_host_from_store,
            self.lose_power, self.lose_power, self.full_disk, self.slow_disk,
            self.kill_worker, self.kill_worker, self.stop_worker, self.slow_worker, self.cut_worker, self.twin,
            self.impostor,
            self.leave, self.newcomer, self.order, self.old_order, self.roll_back,
            self.roll_back_unheard, self.roll_back_unheard, self.many_orders, *self.line_faults(),
        )  # fmt: skip
        kinds = self.chosen(kinds)
        for _ in range(count):
            fault = self.world.rng.choice(kinds)
            self.world.after(self.world.between(500 * MS, until_us), self._strike, fault)

    def _processes(self) -> list[SimWorker]:
        return self.workers

    # -- workers ----------------------------------------------------------------------------------------------------

    def _worker(self) -> SimWorker | None:
        alive = [worker for worker in self.workers if worker.alive and not worker.ended()]
        return self.world.rng.choice(alive) if alive else None

    def kill_worker(self) -> None:
        worker = self._worker()
        if worker is not None:
            worker.kill()
            self._later(50 * MS, 4_000 * MS, self._start_worker, worker.member)

    def stop_worker(self) -> None:
        worker = self._worker()
        if worker is not None:
            worker.stop()
            self._later(200 * MS, 6_000 * MS, worker.go_on)

    def slow_worker(self) -> None:
        worker = self._worker()
        if worker is not None:
            worker.train_us = (500 * MS, 2_000 * MS)
            self._later(1_000 * MS, 4_000 * MS, self._hurry, worker)

    def _hurry(self, worker: SimWorker) -> None:
        worker.train_us = (20 * MS, 200 * MS)

    def cut_worker(self) -> None:
        worker, host = self._worker(), self._host()
        if worker is not None:
            self.world.rng.choice((self.network.cut, self.network.cut_one_way))(worker.member, host.name)
            self._later(200 * MS, 5_000 * MS, self.network.heal)

    def twin(self) -> None:
        """A second process under a name that is in use."""
        worker = self._worker()
        if worker is not None:
            self._start_worker(worker.member)

    def impostor(self) -> None:
        """A second process takes a name over, and the first one goes on in its place."""
        worker = self._worker()
        if worker is not None:
            successor = self._start_worker(worker.member)
            self._impersonate(worker, successor, self.world.now_us + 2_500 * MS)

    def _impersonate(self, worker: SimWorker, successor: SimWorker, until_us: int) -> None:
        if worker.logic.incarnation < successor.logic.incarnation:
            worker.impersonate(successor)
        if self.world.now_us < until_us and not self._over:
            self.world.after(100 * MS, self._impersonate, worker, successor, until_us)

    def leave(self) -> None:
        worker = self._worker()
        if worker is not None:
            worker.leave()
            self._later(500 * MS, 3_000 * MS, self._start_worker, worker.member)

    def newcomer(self) -> None:
        self._names += 1
        self._start_worker(f"late{self._names}")

    # -- operators --------------------------------------------------------------------------------------------------

    def order(self) -> None:
        self.operator.order_all()

    def many_orders(self) -> None:
        """One after the other, while somebody reads nothing. Once: answers to so many are remembered, and no more."""
        if self._ordered_many:
            return
        self._ordered_many = True
        self.hold_the_gil()
        for _ in range(30):
            self._later(0, 2_500 * MS, self.operator.order_all)

    def roll_back(self) -> None:
        self.operator.roll_back()

    def old_order(self) -> None:
        """Everybody is ordered something. One is given up before it hears of it, and hears of it in its next life."""
        worker = self._worker()
        if worker is not None:
            self.network.hold_back(worker.member)
            for host in self.hosts:
                self.network.cut_one_way(worker.member, host.name)
            self._later(2_600 * MS, 3_500 * MS, self.network.heal)
            self._later(500 * MS, 3_000 * MS, self.network.hurry)
        self.operator.order_all()

    def roll_back_unheard(self) -> None:
        """One hears neither how the barrier ended at which it stands nor, at first, that this was for nothing."""
        worker = self._worker()
        if worker is not None:
            for host in self.hosts:
                self.network.cut_one_way(host.name, worker.member)
            self._later(600 * MS, 800 * MS, self.network.heal)
        self._roll_back_on_release(self._passed(), self.world.now_us + 500 * MS)

    def _passed(self) -> int:
        return sum(worker.passed for worker in self.workers)

    def _roll_back_on_release(self, passed: int, until_us: int) -> None:
        """As soon as somebody is let through, or at last."""
        if self._passed() > passed or self.world.now_us >= until_us:
            self.operator.roll_back()
        elif not self._over:
            self.world.after(2 * MS, self._roll_back_on_release, passed, until_us)

    # -- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self.end_trouble()
        for worker in self.workers:
            worker.go_on()
            self._hurry(worker)
        present = {
            worker.member for worker in self.workers if worker.alive and not worker.ended() and not worker.leaving
        }
        missing = sorted({worker.member for worker in self.workers} - present)
        for member in missing[: max(0, 2 - len(present))]:
            self._start_worker(member)
