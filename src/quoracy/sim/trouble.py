"""What goes wrong with hosts, the store and the network, whatever kind of run they serve.

Each fault is one method: it does its harm and arranges that the harm ends. ``end_trouble`` ends all harm that is still
going on and makes the world fair, so that whatever is wrong afterwards is nobody's fault but Quoracy's.
"""

from __future__ import annotations

from collections.abc import Callable

from quoracy.sim.hosts import SimHost
from quoracy.sim.network import FAIR
from quoracy.sim.store import STORE, Store
from quoracy.sim.streams import CALM, Streams
from quoracy.sim.world import MS, World


class Trouble:
    def __init__(self, world: World, streams: Streams, store: Store, hosts: list[SimHost]) -> None:
        self.world = world
        self.streams = streams
        self.network = streams.network
        self.store = store
        self.hosts = hosts
        self.only: tuple[str, ...] = ()
        self._over = False
        self._calm_us = 0
        self._usual_sync_us = store.sync_us
        self._store_down = False

    def chosen(self, kinds: tuple[Callable[[], None], ...]) -> tuple[Callable[[], None], ...]:
        """Those that are drawn from: all, unless a test wants certain ones."""
        return tuple(fault for fault in kinds if not self.only or fault.__name__ in self.only)

    def _strike(self, fault: Callable[[], None]) -> None:
        if not self._over:
            self.world.note("fault", lambda: fault.__name__)
            fault()

    def _later(self, low_us: int, high_us: int, end: Callable[..., object], *args: object) -> None:
        self.world.after(self.world.between(low_us, high_us), self._end, end, args)

    def _end(self, end: Callable[..., object], args: tuple[object, ...]) -> None:
        if not self._over:
            end(*args)

    def _upsets(self, high_us: int) -> None:
        """Until the harm is over, and a little longer, heartbeats may stay away through nobody's fault."""
        self._calm_us = max(self._calm_us, self.world.now_us + high_us)

    def calm_since_us(self) -> int:
        return self._calm_us

    # -- hosts ------------------------------------------------------------------------------------------------------

    def _host(self) -> SimHost:
        """Mostly the one that serves: that is where it hurts."""
        serving = [host for host in self.hosts if host.serves()]
        return self.world.rng.choice(serving if serving and self.world.chance(0.7) else self.hosts)

    def kill_host(self) -> None:
        """After any number of its next actions: before a write, after it, or between two sends. Its machine goes on, or
        falls silent with it."""
        host = self._host()
        if host.alive:
            host.die_after = self.world.between(0, 12)
            host.dies_dark = self.world.chance(0.3)
            self._later(300 * MS, 2_000 * MS, self._restart_host, host)

    def _restart_host(self, host: SimHost) -> None:
        if host.alive:
            host.kill(host.dies_dark)
        host.start()

    def restart_orderly(self) -> None:
        """It tells everybody that it is about to stop."""
        host = self._host()
        if host.alive and host.door is not None and not host.is_stopped():
            host.door.say_goodbye()
            host.kill()
            self._later(100 * MS, 1_500 * MS, self._restart_if_dead, host)

    def _restart_if_dead(self, host: SimHost) -> None:
        if not host.alive:
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
        self._upsets(3_500 * MS)
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
            self._upsets(2_000 * MS)
            self.store.lose_power()
            self._later(50 * MS, 1_500 * MS, self._power_back)

    def _power_back(self) -> None:
        if self._store_down:
            self._store_down = False
            self.store.restart()

    def full_disk(self) -> None:
        self.store.full = True
        self._upsets(2_500 * MS)
        self._later(200 * MS, 2_000 * MS, self._room_again)

    def _room_again(self) -> None:
        self.store.full = False

    def slow_disk(self) -> None:
        self.store.sync_us = (20 * MS, 400 * MS)
        self._upsets(4_000 * MS)
        self._later(500 * MS, 3_000 * MS, self._fast_again)

    def _fast_again(self) -> None:
        self.store.sync_us = self._usual_sync_us

    # -- the end ----------------------------------------------------------------------------------------------------

    def end_trouble(self) -> None:
        self._over = True
        if self.network.weather.straggling:
            self._upsets(3_000 * MS)
        self.network.weather = FAIR
        self.streams.dialing = CALM
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
