"""What goes wrong with hosts, the store and the network, whatever kind of run they serve.

Each fault is one method: it does its harm and arranges that the harm ends. ``end_trouble`` ends all harm that is still
going on and makes the world fair, so that whatever is wrong afterwards is nobody's fault but Quoracy's.
"""

from __future__ import annotations

from collections.abc import Callable

from quoracy.sim.hosts import SimHost
from quoracy.sim.network import FAIR, Network
from quoracy.sim.store import STORE, Store
from quoracy.sim.world import MS, World


class Trouble:
    def __init__(self, world: World, network: Network, store: Store, hosts: list[SimHost]) -> None:
        self.world = world
        self.network = network
        self.store = store
        self.hosts = hosts
        self._over = False
        self._usual_sync_us = store.sync_us
        self._store_down = False

    def _strike(self, fault: Callable[[], None]) -> None:
        if not self._over:
            self.world.note("fault", lambda: fault.__name__)
            fault()

    def _later(self, low_us: int, high_us: int, end: Callable[..., object], *args: object) -> None:
        self.world.after(self.world.between(low_us, high_us), self._end, end, args)

    def _end(self, end: Callable[..., object], args: tuple[object, ...]) -> None:
        if not self._over:
            end(*args)

    # -- hosts ------------------------------------------------------------------------------------------------------

    def _host(self) -> SimHost:
        """Mostly the one that serves: that is where it hurts."""
        serving = [host for host in self.hosts if host.serves()]
        return self.world.rng.choice(serving if serving and self.world.chance(0.7) else self.hosts)

    def kill_host(self) -> None:
        """After any number of its next actions: before a write, after it, or between two sends."""
        host = self._host()
        if host.alive:
            host.die_after = self.world.between(0, 12)
            self._later(300 * MS, 2_000 * MS, self._restart_host, host)

    def _restart_host(self, host: SimHost) -> None:
        if host.alive:
            host.kill()
        host.start()

    def stop_host(self) -> None:
        host = self._host()
        if host.alive:
            host.stop()
            self._later(200 * MS, 4_000 * MS, host.go_on)

    def jump_clock(self) -> None:
        host = self._host()
        if host.alive:
            host.jump(self.world.between(100 * MS, 5_000 * MS))

    def cut_host_from_store(self) -> None:
        host = self._host()
        self.world.rng.choice((self.network.cut, self.network.cut_one_way))(host.name, STORE)
        self._later(200 * MS, 3_000 * MS, self.network.heal)

    # -- the store --------------------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Now, or in the middle of the next write."""
        if self.world.chance(0.5):
            self._power_fails()
        else:
            self.store.fails_writing = self._power_fails

    def _power_fails(self) -> None:
        if not self._store_down and not self._over:
            self._store_down = True
            self.store.lose_power()
            self._later(50 * MS, 1_500 * MS, self._power_back)

    def _power_back(self) -> None:
        if self._store_down:
            self._store_down = False
            self.store.restart()

    def full_disk(self) -> None:
        self.store.full = True
        self._later(200 * MS, 2_000 * MS, self._room_again)

    def _room_again(self) -> None:
        self.store.full = False

    def slow_disk(self) -> None:
        self.store.sync_us = (20 * MS, 400 * MS)
        self._later(500 * MS, 3_000 * MS, self._fast_again)

    def _fast_again(self) -> None:
        self.store.sync_us = self._usual_sync_us

    # -- the end ----------------------------------------------------------------------------------------------------

    def end_trouble(self) -> None:
        self._over = True
        self.network.weather = FAIR
        self.network.heal()
        self.network.hurry()
        self._power_back()
        self._room_again()
        self._fast_again()
        self.store.fails_writing = None
        for host in self.hosts:
            host.go_on()
            host.die_after = None
            if not host.alive:
                host.start()
