"""The workshop, simulated: an update is present or not, good or poison; a model is the digest of what it was made from.

What it computes depends on the duty alone, so that a duty that is carried out twice gives the same result twice, and
the whole run can be computed again from the journal. It is slow at times, reports twice, and dies between doing and
reporting; then it begins with that duty anew, as the real one does when it is started again. While the weights cannot
be reached it says nothing about an update, ever or for longer than anybody waits.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from quoracy.core.codec import encode
from quoracy.core.machine import Duty
from quoracy.sim.hosts import SimHost
from quoracy.sim.world import MS, World

INITIAL_SAMPLES = 0
TOO_LATE_US = (11_000 * MS, 15_000 * MS)
"""After twice the longest ``time_max_s`` of a life."""


def hexed(*parts: object) -> str:
    return blake2b(encode(parts), digest_size=32).hexdigest()


def samples_of(member: str) -> int:
    return 1 + int(hexed("samples", member)[:2], 16)


def trained(member: str, number: int, weights: str) -> str:
    """What this participant makes of these weights: always the same."""
    return hexed("trained", member, number, weights)


def aggregated(previous: str, updates: list[tuple[str, str, int]], state: str) -> str:
    return hexed("aggregated", previous, [list(update) for update in updates], state)


def optimized(weights: str) -> str:
    return hexed("state", weights)


def scored(weights: str) -> float:
    return int(weights[:4], 16) / 65536


class Objects:
    """The object store: create-only, by uploader and digest. It keeps what it was given."""

    def __init__(self) -> None:
        self.good: set[tuple[str, str]] = set()
        self.poison: set[tuple[str, str]] = set()

    def put(self, member: str, digest: str, poison: bool) -> None:
        (self.poison if poison else self.good).add((member, digest))


class Workshop:
    def __init__(self, world: World, objects: Objects) -> None:
        self.world = world
        self.objects = objects
        self.work_us = (1 * MS, 20 * MS)
        self.dying = 0.0
        """How likely it dies between doing and reporting."""
        self.doubling = 0.0
        self.failing = 0.0
        """How likely an aggregation or evaluation fails with a reason."""
        self.silent = 0.0
        """How likely nothing is ever said about an update, or not while anybody waits for it."""
        self.performed: list[tuple[Duty, dict[str, Any]]] = []

    def perform(self, host: SimHost, duty: Duty) -> None:
        if duty.what == "admit" and self.silent and self.world.chance(self.silent):
            self.world.note("workshop", lambda: f"says nothing about {duty.what} {duty.entry}.{duty.index}")
            if self.world.chance(0.5):
                self.world.after(self.world.between(*TOO_LATE_US), self._done, host, duty)
            return
        self.world.after(self.world.between(*self.work_us), self._done, host, duty)

    def _done(self, host: SimHost, duty: Duty) -> None:
        result = self.result(duty)
        world = self.world
        if self.dying and world.chance(self.dying):
            world.note("workshop", lambda: f"dies before it reports {duty.what} {duty.entry}.{duty.index}")
            world.after(world.between(50 * MS, 1_000 * MS), self.perform, host, duty)
            return
        self.performed.append((duty, result))
        world.note("workshop", lambda: f"{duty.what} {duty.entry}.{duty.index}: {result}")
        host.report_done(duty, result)
        if self.doubling and world.chance(self.doubling):
            world.after(world.between(0, 2_000 * MS), host.report_done, duty, result)

    def result(self, duty: Duty) -> dict[str, Any]:
        order = duty.order
        match duty.what:
            case "admit":
                return self._verdict(order["participant"], order["digest"])
            case "aggregate":
                if self.failing and self.world.chance(self.failing):
                    return {"failed": "no room"}
                updates = [(member, digest, samples) for member, digest, samples in order["updates"]]
                weights = aggregated(order["previous"], updates, order["state"])
                return {"weights": weights, "size_bytes": 100, "state": optimized(weights)}
        if self.failing and self.world.chance(self.failing):
            return {"failed": "no such module"}
        return {"metrics": {"score": scored(order["weights"])}}

    def _verdict(self, member: str, digest: str) -> dict[str, Any]:
        if (member, digest) in self.objects.poison:
            return {"ok": False, "why": "w has a NaN"}
        if (member, digest) not in self.objects.good:
            return {"ok": False, "why": "no such object"}
        return {"ok": True, "norm": 1.0}
