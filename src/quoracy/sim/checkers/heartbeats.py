"""Nobody is declared dead whose heartbeat process could reach the host all the time, whatever its training did
meanwhile: not read for longer than every time-out, or stand still; nor anybody whose heartbeat process is gone or
stopped while its training is in a call, because then the session beats. And whoever is declared dead learns it at
its next call.

What could have kept heartbeats away is known here, because it was done on purpose: no heartbeat process, or one that is
stopped; a cut; connects that go wrong; a host that begins to serve, was stopped, or whose clock jumped; a store that
keeps its host waiting. A connection that breaks is none of these: another one is made in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quoracy.core.journal import decode_entry
from quoracy.core.kinds import KINDS
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.hosts import SimHost
from quoracy.sim.lines import NEVER
from quoracy.sim.processes import SimProcess
from quoracy.sim.trouble import Trouble
from quoracy.sim.world import MS, SECOND

SLACK_US: Final = 500 * MS
"""For clocks that differ, and for writing the verdict down."""
LEARNS_US: Final = 6 * SECOND


class Heartbeats(Checker):
    name = "heartbeats"

    def __init__(
        self,
        kind: str,
        lost: type,
        processes: Sequence[SimProcess],
        hosts: list[SimHost],
        trouble: Trouble,
        timeout_s: float,
    ) -> None:
        """``lost``: the event that declares a member of this kind dead."""
        self._lost = lost
        self._tag = str(lost.__struct_config__.tag).encode()  # type: ignore[attr-defined]
        self._decoder = KINDS.decoder(KINDS.get(kind, 1))
        self._processes = processes
        self._hosts = hosts
        self._trouble = trouble
        self._timeout_us = round(timeout_s * SECOND * 1.04)
        self._dead: dict[tuple[str, int], int] = {}
        self.judged = 0
        """Members declared dead that use the SDK."""

    def durable(self, n: int, payload: bytes) -> None:
        if self._tag not in payload:
            return
        for _, event in self._decoder.decode(decode_entry(payload, self._hosts[0].run, n).events):
            if isinstance(event, self._lost):
                self._judge(event)

    def _judge(self, event: Any) -> None:
        world, network = self._trouble.world, self._trouble.network
        self._dead.setdefault((event.member, event.incarnation), world.now_us)
        serving = [host for host in self._hosts if host.serves()]
        for process in self._processes:
            training = process.training
            if process.member != event.member or process.logic.incarnation != event.incarnation or training is None:
                continue
            self.judged += 1
            if len(serving) != 1 or network.weather.straggling or not process.alive:
                continue
            whole_us = network.whole_since_us(event.member, serving[0].name)
            since_us = max(
                min(training.beats_since_us(event.incarnation), training.looks_since_us(event.incarnation)),
                serving[0].calm_since_us,
                NEVER if whole_us is None else whole_us,
                self._trouble.calm_since_us(),
            )
            if world.now_us - since_us > self._timeout_us + SLACK_US:
                past_s = (world.now_us - since_us) / SECOND
                self.fail(f"{process.name} was declared dead, and could have been heard for {past_s:.1f} s: {event}")

    def finish(self, ending: Ending) -> None:
        now_us = self._trouble.world.now_us
        for process in ending.workers:
            training, life = process.training, (process.member, process.logic.incarnation)
            if training is None or training.computes or process.ended() or not process.alive:
                continue
            if now_us - self._dead.get(life, now_us) > LEARNS_US:
                self.fail(f"{process.name} was declared dead as incarnation {life[1]}, and does not know it")
