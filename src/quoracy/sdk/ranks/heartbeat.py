"""What the heartbeat process of a rank does: it beats through the store, and keeps an eye on the others.

It has a connection of its own to the store, so that neither the training nor a long wait can hold it up. What it
has seen it tells when it is asked: who beat what, when that last changed, and since when it
has been looking without a gap. All by the monotonic clock, which both processes share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.errors import QuoracyError
from quoracy.core.ranks.events import RankBeat
from quoracy.ports import Beat, Pulse
from quoracy.sdk.client.memory import Memory
from quoracy.stores.opening import open_pulse
from quoracy.wire.frames import frame


class Task(msgspec.Struct, frozen=True, array_like=True):
    """The first thing it is told."""

    url: str
    run: str
    rank: str
    beat_s: float
    look_s: float
    dead_s: float
    op_s: float


class Be(msgspec.Struct, frozen=True, array_like=True, tag="be"):
    """Beat for this life from now on; 0 for none. ``beaten_us``: when the last beat of this life was sent that got
    through, by another beater before this one."""

    incarnation: int
    beaten_us: int = 0


class Tell(msgspec.Struct, frozen=True, array_like=True, tag="tell"):
    pass


class Seen(msgspec.Struct, frozen=True, array_like=True):
    note: bytes
    changed_us: int


class Sight(msgspec.Struct, frozen=True, array_like=True):
    """What it knows. ``steady_us``: it has looked without a gap since then."""

    looked_us: int
    steady_us: int
    seen: list[Seen]
    trouble: str
    """What the store said when it failed, as long as beats fail."""
    failing_us: int
    """Since when: from the last one that got through, since that is what the others go by."""
    looks: int
    """How often it has looked. One that has not yet is not of use yet."""
    beaten: tuple[int, int] = (0, 0)
    """The life it beats for, and when the last beat of that was sent that got through; 0 if none has."""


_said = msgspec.msgpack.Decoder(Be | Tell)
_sight = msgspec.msgpack.Decoder(Sight)


def read_sight(body: bytes) -> Sight:
    return _sight.decode(body)


def now_us() -> int:
    return time.monotonic_ns() // 1000


class Beater:
    """``opens``: the store, which may not be there yet."""

    def __init__(self, task: Task, opens: Callable[[], Pulse], parent: int) -> None:
        self._parent = parent
        self._task = task
        self._opens = opens
        self._pulse: Pulse | None = None
        self._incarnation = 0
        self._count = 0
        self._seen: dict[str, tuple[int, Seen]] = {}
        self._looked_us = self._steady_us = now_us()
        self._looks = 0
        self._troubles: dict[str, tuple[str, int]] = {}
        """Of beats and of looks, each since when: only the same one's success ends it."""
        self._reached: dict[str, int] = {}
        """When the last beat and the last look began that got through."""
        self._beat_us = self._look_us = 0

    def be(self, incarnation: int, beaten_us: int = 0) -> None:
        self._incarnation = incarnation
        self._count = 0
        self._beat_us = self._look_us = 0
        self._troubles.pop("beat", None)
        self._reached.pop("beat", None)
        if beaten_us:
            self._reached["beat"] = beaten_us

    def sight(self) -> Sight:
        trouble, failing_us = min(self._troubles.values(), key=lambda found: found[1], default=("", 0))
        seen = [seen for _, seen in self._seen.values()]
        beaten = (self._incarnation, self._reached.get("beat", 0))
        return Sight(self._looked_us, self._steady_us, seen, trouble, failing_us, self._looks, beaten)

    def told(self, body: bytes) -> bytes | None:
        message = _said.decode(body)
        if isinstance(message, Tell):
            return frame(self.sight())
        self.be(message.incarnation, message.beaten_us)
        return None

    def files(self) -> list[tuple[int, int]]:
        """Operations of the store block, each for at most ``op_s``."""
        return []

    def loop(self) -> float:
        """Do what is due. Returns the seconds until the next. It looks before it beats: a beater that replaces another
        has to go on from that one's number, for a lower one counts as old."""
        at_us = now_us()
        if at_us >= self._look_us:
            self._look_us = at_us + round(self._task.look_s * 1e6)
            self._try("look", self._look)
        if at_us >= self._beat_us and self._incarnation:
            self._beat_us = at_us + round(self._task.beat_s * 1e6)
            if not is_stopped(self._parent):
                self._try("beat", self._beat)
        next_us = min(self._look_us, self._beat_us if self._incarnation else self._look_us)
        return max(0.0, (next_us - now_us()) / 1e6)

    def _try(self, what: str, call: Callable[[Pulse], None]) -> None:
        at_us = now_us()
        try:
            if self._pulse is None:
                self._pulse = self._opens()
            call(self._pulse)
        except (QuoracyError, OSError) as error:
            since_us = self._troubles[what][1] if what in self._troubles else self._since_us(what, at_us)
            self._troubles[what] = (str(error), since_us)
        else:
            self._troubles.pop(what, None)
            self._reached[what] = at_us

    def _since_us(self, what: str, at_us: int) -> int:
        """Since the last that got through. If that is so long ago that the others have given the rank up, it stood
        still: it will read so in the record, and a store that fails once must not end it."""
        reached_us = self._reached.get(what, at_us)
        return reached_us if at_us - reached_us <= self._task.dead_s * 1e6 else at_us

    def _beat(self, pulse: Pulse) -> None:
        self._count += 1
        rank, seq = self._task.rank, (self._incarnation << 32) + self._count
        pulse.beat(self._task.run, rank, Beat(seq, encode(RankBeat(rank, self._incarnation, seq))))

    def _look(self, pulse: Pulse) -> None:
        beats = pulse.beats(self._task.run)
        at_us = now_us()
        if at_us - self._looked_us > self._task.dead_s * 1e6 / 2:
            self._steady_us = at_us
        self._looked_us = at_us
        self._looks += 1
        mine = beats.get(self._task.rank)
        if mine is not None and mine.seq >> 32 == self._incarnation:
            self._count = max(self._count, mine.seq & 0xFFFF_FFFF)
        for key, beat in beats.items():
            known = self._seen.get(key)
            if known is None or known[0] != beat.seq:
                self._seen[key] = (beat.seq, Seen(beat.note, at_us))
        for key in self._seen.keys() - beats.keys():
            del self._seen[key]


def is_stopped(process: int) -> bool:
    """By SIGSTOP or a debugger. Such a training does not go on, and nobody should wait for it."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state in "Tt"


def open_heartbeats(task: Raw, _memory: Memory, pid: int) -> Beater:
    read = msgspec.msgpack.decode(task, type=Task)
    return Beater(read, lambda: open_pulse(read.url, read.op_s), pid)
