"""The load that fold and journal are measured with: a small fleet that works and meets at barriers.

Of every 17 events 16 are workers reporting what they do and one is a barrier's release with eight arrivals.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from quoracy.core.cluster.events import Arrive, WorkerIdle, WorkerLoading, WorkerReady, WorkerRegistered
from quoracy.core.codec import encode
from quoracy.core.machine import Event
from quoracy.core.members import Cause
from quoracy.core.messages import Call, Sign, ToHost

RUN = "bench"


class Crew:
    """Workers without sessions: each knows what it would say next."""

    def __init__(self, size: int) -> None:
        self.names = [f"worker-{i:04d}" for i in range(size)]
        self._seq = dict.fromkeys(self.names, 0)
        self._round = 0

    def join(self) -> Iterator[tuple[str, ToHost]]:
        for i, name in enumerate(self.names):
            yield name, _call(Cause(name, 0, 0), WorkerRegistered(name, 0, i.to_bytes(16, "big")))

    def ready(self) -> Iterator[tuple[str, ToHost]]:
        for name in self.names:
            yield name, self._say(name, WorkerReady(name, 1))

    def work(self) -> Iterator[tuple[str, ToHost]]:
        """What everybody says in one round: begins to load, idles, stands at the barrier."""
        for name in self.names:
            yield name, self._say(name, WorkerLoading(name, 1))
        for name in self.names:
            yield name, self._say(name, WorkerIdle(name, 1))
        for name in self.names:
            yield name, Sign.of(RUN, Arrive(name, 1, "step", self._round, self._round))
        self._round += 1

    def _say(self, name: str, event: Event) -> Call:
        self._seq[name] += 1
        return _call(Cause(name, 1, self._seq[name]), event)


def _call(cause: Cause, event: Event) -> Call:
    return Call(RUN, cause, Raw(encode(event)))
