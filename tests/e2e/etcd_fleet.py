"""A fleet that knows several servers and goes where it is sent, judged by the journal that is in etcd."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.e2e.fleet import PATIENCE_S, RUN, Fleet, RealWorker

from quoracy.core.messages import Moved
from quoracy.sim.checkers import Ending
from quoracy.stores.etcd import EtcdJournal

DUMB_S = 1.5
"""A server that says nothing to a newcomer for so long may be stopped: try another one."""
SILENT_S = 6.0
"""The same for one that has spoken before: whoever waits at a barrier hears nothing until all are there."""

Address = tuple[str, int]


class EtcdFleet(Fleet):
    def __init__(self, size: int, seed: int) -> None:
        super().__init__(size, seed)
        self._sent: dict[RealWorker, Address] = {}
        self._known: dict[RealWorker, tuple[int, float, bool]] = {}
        """How much it had heard, since when, and whether that was on this connection."""
        self._tries = 0

    def run_at(self, addresses: Sequence[Address], until: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
        """Let everybody talk, each to the server it was sent to or to one of these."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                return False
            for worker in self.workers:
                if worker.socket is None:
                    self._dial(worker, addresses)
            moment = time.monotonic() + 0.02
            self.drive(addresses[0], lambda moment=moment: self._interrupted(moment), 1)  # type: ignore[misc]
        return True

    def _interrupted(self, moment: float) -> bool:
        """Also at once when somebody has no connection: ``drive`` would give it the first address."""
        for worker in self.workers:
            self._look(worker)
        return time.monotonic() >= moment or any(worker.socket is None for worker in self.workers)

    def _dial(self, worker: RealWorker, addresses: Sequence[Address]) -> None:
        self._tries += 1
        worker.connect(self._sent.pop(worker, addresses[self._tries % len(addresses)]))
        self._known[worker] = (len(worker.heard), time.monotonic(), False)

    def _look(self, worker: RealWorker) -> None:
        """Follow where it was sent; leave who is silent."""
        seen, since_s, spoken = self._known.get(worker, (0, time.monotonic(), False))
        moved = [message for message in worker.heard[seen:] if isinstance(message, Moved)]
        if moved:
            host, _, port = moved[-1].address.rpartition("/")[2].rpartition(":")
            if port:
                self._sent[worker] = (host, int(port))
            worker.close()
        elif len(worker.heard) == seen and time.monotonic() - since_s > (SILENT_S if spoken else DUMB_S):
            worker.close()
        if len(worker.heard) != seen:
            since_s, spoken = time.monotonic(), True
        self._known[worker] = (len(worker.heard), since_s, spoken)

    def judge_at(self, url: str) -> list[bytes]:
        """Everything that was promised holds, by the journal that is in etcd."""
        journal = EtcdJournal(url)
        entries: list[bytes] = []
        while page := journal.read(RUN, len(entries) + 1):
            entries += page
        journal.close()
        self.checkers.finish(Ending(entries, self.workers, RUN))
        return entries
