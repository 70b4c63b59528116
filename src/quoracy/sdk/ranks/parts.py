"""Small parts of ``sdk.ranks``: what it is told is checked, a stage that changes is told, and who is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from quoracy.core.errors import ConfigError
from quoracy.core.peer import Peer
from quoracy.core.ranks.events import RankBeat
from quoracy.core.ranks.part import Part, Stage
from quoracy.core.ranks.state import Config
from quoracy.core.ranks.times import Times
from quoracy.sdk.ranks.heartbeat import Sight

_beat = msgspec.msgpack.Decoder(RankBeat)


class ToldPart(Part):
    """Says when its stage changes."""

    def __init__(self, peer: Peer, times: Times, learner: bool, address: str, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._stage = Stage.STOPPED
        super().__init__(peer, times, learner, address)

    @property
    def stage(self) -> Stage:
        return self._stage

    @stage.setter
    def stage(self, stage: Stage) -> None:
        if stage is not self._stage:
            self._stage = stage
            self._tell(stage.value)


def check_settings(rank: Any, drain_s: float, times: dict[str, float]) -> None:
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 0:
        raise ConfigError("rank", rank, "a whole number from 0 on")
    if not 0 < drain_s < 1e9:
        raise ConfigError("drain_s", drain_s, "more than 0 seconds")
    known = [name for name in Times.__struct_fields__ if name != "dead_s"]
    for name, value in times.items():
        if name not in known:
            raise ConfigError(name, value, f"no such setting; times are {', '.join(known)}")


def check_rank(rank: int, config: Config) -> None:
    if rank >= config.max_ranks:
        fix = f"a number from 0 to {config.max_ranks - 1}, or a run with a larger max_ranks ({config.max_ranks})"
        raise ConfigError("rank", rank, fix)


def gone_of(sight: Sight, lives: dict[int, int], dead_us: int) -> set[int]:
    """Which of these, by rank and incarnation, are silent for too long or have a newer life, as the beater has seen."""
    found = set()
    for seen in sight.seen:
        with contextlib.suppress(msgspec.ValidationError):
            beat = _beat.decode(seen.note)
            silent_us = sight.looked_us - max(seen.changed_us, sight.steady_us)
            life = lives.get(int(beat.member), beat.incarnation)
            if beat.incarnation > life or (beat.incarnation == life and silent_us >= dead_us):
                found.add(int(beat.member))
    return found & lives.keys()
