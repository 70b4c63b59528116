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
    began_us: int
    """When this collector began."""
    found: frozenset[int]
    """The seats that it found then: it gave each of them a fresh time-out."""

    def stands_at(self) -> dict[int, str]:
        """By seat: at which barrier it stands; at one of them, if there are several."""
        return {seat: gathering.name for gathering in self.gatherings.values() for seat in gathering.arrivals}

    def is_unheard(self, seat: int, member: str, now_us: int) -> bool:
        """Whether there was no sign of life from it since this collector began."""
        if seat not in self.found or member in self.pulses:
            return False
        return self.detector.silent_us(member, now_us) == now_us - self.began_us
