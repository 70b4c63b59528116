"""A network that delays, loses, doubles, reorders and partitions. Worse than TCP on purpose: what holds here holds
there, and a connection that breaks and is made again looks just like this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from quoracy.sim.world import MS, World


class Weather(msgspec.Struct, frozen=True):
    """How bad the network is."""

    fastest_us: int = 200
    slowest_us: int = 5 * MS
    loss: float = 0.0
    doubling: float = 0.0
    straggling: float = 0.0
    """The share of messages that take up to half a minute: older than the next life of whoever sent them."""
    straggler_us: int = 8_000 * MS


FAIR = Weather()


class Network:
    def __init__(self, world: World, weather: Weather) -> None:
        self._world = world
        self.weather = weather
        self._ends: dict[str, Callable[[str, Any], None]] = {}
        self._cut: set[tuple[str, str]] = set()
        self._healed_us: dict[tuple[str, str], int] = {}
        self._held_back: set[str] = set()
        self.sessions: set[tuple[str, str, int]] = set()
        """Process, member and incarnation: who has the session token of whom. Every host's door knows."""

    def attach(self, name: str, receive: Callable[[str, Any], None]) -> None:
        self._ends[name] = receive

    def detach(self, name: str) -> None:
        self._ends.pop(name, None)

    def send(self, source: str, target: str, message: Any) -> None:
        world, weather = self._world, self.weather
        copies = 2 if weather.doubling and world.chance(weather.doubling) else 1
        for _ in range(copies):
            if weather.loss and world.chance(weather.loss):
                continue
            delay_us = world.between(weather.fastest_us, weather.slowest_us)
            if weather.straggling and world.chance(weather.straggling):
                delay_us += world.between(0, weather.straggler_us)
            if self._held_back and target.partition("#")[0] in self._held_back and world.chance(0.5):
                delay_us += world.between(2_000 * MS, 6_000 * MS)
            world.after(delay_us, self._deliver, source, target, message)

    def _deliver(self, source: str, target: str, message: Any) -> None:
        receive = self._ends.get(target)
        if receive is not None and (source.partition("#")[0], target.partition("#")[0]) not in self._cut:
            receive(source, message)

    def is_cut(self, source: str, target: str) -> bool:
        """Names without the process number."""
        return (source, target) in self._cut

    def cut(self, one: str, other: str) -> None:
        """Nothing gets through between the two, either way. Names without the process number."""
        self._cut |= {(one, other), (other, one)}

    def cut_one_way(self, source: str, target: str) -> None:
        self._cut.add((source, target))

    def heal(self) -> None:
        self._healed_us |= dict.fromkeys(self._cut, self._world.now_us)
        self._cut.clear()

    def whole_since_us(self, one: str, other: str) -> int | None:
        """Since when there is no cut between the two; None: there is one."""
        ways = ((one, other), (other, one))
        if any(way in self._cut for way in ways):
            return None
        return max(self._healed_us.get(way, 0) for way in ways)

    def hold_back(self, target: str) -> None:
        """Half of what is sent to this one from now on takes seconds."""
        self._held_back.add(target)

    def hurry(self) -> None:
        self._held_back.clear()
