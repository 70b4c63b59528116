"""What a fleet's collector has heard and not yet turned into events: who stands where, and what heartbeats said."""

from __future__ import annotations

import msgspec

from quoracy.core.cluster.events import Heartbeat
from quoracy.core.detector import Detector


class Gathering(msgspec.Struct):
    """Who stands at the open generation of one barrier. ``since_us`` is the collector's clock at the first arrival."""

    name: str
    generation: int
    since_us: int
    deadline_us: int
    fence: int
    arrivals: dict[int, int] = {}
    """By seat, in the order in which they came: when that was."""
    steps: dict[int, int] = {}
    """By seat, at which step each of them stands."""
    reached_min: bool = False


class Pulse(msgspec.Struct):
    """What a worker's last heartbeat said, for people; and when its training last moved."""

    beat: Heartbeat
    progress_us: int
    heard_us: int
    """When that heartbeat came."""


class Heard(msgspec.Struct, frozen=True):
    gatherings: dict[str, Gathering]
    pulses: dict[str, Pulse]
    detector: Detector

    def waits_somewhere(self, seat: int) -> bool:
        return any(seat in gathering.arrivals for gathering in self.gatherings.values())
