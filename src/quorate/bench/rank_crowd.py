"""Many ranks in one process, each a thread with connections of its own.

What a rank's beater does in a process of its own, one thread does here for all of them: it beats, it looks, and they
take from it what it has seen. Jobs come as lines of JSON, one after the other; the answer to each is one line.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from quorate.core import peer as ops
from quorate.core.errors import QuorateError
from quorate.core.journal import RunCreated
from quorate.core.kinds import PEERLESS
from quorate.core.peer import Peer, Steps
from quorate.core.ranks.part import Part
from quorate.core.ranks.times import derive
from quorate.hosts.peerless import Peerless, Shared
from quorate.ports import Beat
from quorate.stores.opening import open_pulse, open_store


class Job(msgspec.Struct):
    """``what``: votes, dies or counter. Times count from the moment at which a rank was first let in."""

    what: str
    url: str
    run: str
    ranks: list[int]
    settings: dict[str, Any]
    rounds: int = 1 << 30
    lasts_s: float = 600.0
    deaths: dict[int, list[float]] = {}
    """By rank: when it falls silent."""
    back_s: float = 0.0
    """After which it is started anew."""
    late_s: float = 0.0
    """By how much it arrives later than others."""


class Answer(msgspec.Struct):
    """``rounds``: by attempt, when its last rank of this process arrived, and when the last was released."""

    rounds: dict[int, tuple[float, float]]
    began_s: float = 0.0
    """When its first rank was let in."""
    count: int = 0
    """Operations, as ranks ask for them."""
    asks: int = 0
    """What became of them on the way to a TCPStore."""


class _Over(Exception):
    """The rank is to stop at once, wherever it is."""


class Seen:
    """Beats for those who are alive, and remembers when each other's beats changed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._times = derive(job.settings["t_dead_s"])
        self._pulse = open_pulse(job.url, self._times.op_s)
        self._changed: dict[str, tuple[int, int, bytes]] = {}
        self.alive: dict[int, Part] = {}
        self.notes: tuple[int, list[tuple[int, bytes]]] = (0, [])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._pulse.close()

    def _work(self) -> None:
        count = 0
        while not self._stop.wait(self._times.look_s):
            with contextlib.suppress(QuorateError):
                count += 1
                for part in list(self.alive.values()):
                    if part.incarnation:
                        beat = part.beat(count)
                        self._pulse.beat(self._job.run, beat.key, Beat(beat.seq, beat.note))
                self._look()

    def _look(self) -> None:
        beats, at_us = self._pulse.beats(self._job.run), time.monotonic_ns() // 1000
        for key, beat in beats.items():
            if key not in self._changed or self._changed[key][0] != beat.seq:
                self._changed[key] = (beat.seq, at_us, beat.note)
        self.notes = (at_us, [(changed_us, note) for _, changed_us, note in self._changed.values()])


class Seat:
    """One rank, as a training has it but for the beater."""

    def __init__(self, job: Job, rank: int, seen: Seen, deaths: list[float]) -> None:
        self._job = job
        self._seen = seen
        self._rank = rank
        self._taken_us = 0
        self._deaths = deaths
        self.began_s = 0.0
        self.times: list[tuple[int, float, float]] = []
        self.count = 0

    def work(self) -> None:
        while True:
            with contextlib.suppress(_Over):
                self._live()
            self._seen.alive.pop(self._rank, None)
            if not self._deaths or self._age_s() >= self._job.lasts_s:
                return
            time.sleep(max(0.0, self._deaths.pop(0) + self._job.back_s - self._age_s()))

    def _age_s(self) -> float:
        return time.monotonic() - self.began_s if self.began_s else 0.0

    def _live(self) -> None:
        job = self._job
        times = derive(job.settings["t_dead_s"])
        shared = Shared(*open_store(job.url, times.op_s))
        try:
            created = RunCreated(job.run, "ranks", PEERLESS.newest("ranks").rules, job.settings, seeding="chain")
            peer = Peer(str(self._rank), secrets.token_bytes(32), PEERLESS, created)
            host = Peerless(shared, job.run, times)
            part = Part(peer, times)
            self._seen.alive[self._rank] = part
            if job.what == "dies":
                host.before = lambda op: self._die(op, len(self.times))
            turn = self._drive(host, peer, part.join())
            self.began_s = self.began_s or time.monotonic()
            before = shared.count
            while job.what == "dies" or turn.attempt <= job.rounds + 1:
                time.sleep(job.late_s)
                arrived_s, attempt = time.monotonic(), turn.attempt
                turn = self._drive(host, peer, part.vote(True))
                self.times.append((attempt, arrived_s, time.monotonic()))
            self.count += shared.count - before
        finally:
            shared.close()

    def _drive(self, host: Peerless, peer: Peer, steps: Steps) -> Any:
        return host.drive(peer, steps, lambda: self._between(peer))

    def _between(self, peer: Peer) -> None:
        age_s = self._age_s()
        if age_s >= self._job.lasts_s or (self._deaths and age_s >= self._deaths[0]):
            raise _Over
        looked_us, notes = self._seen.notes
        if looked_us > self._taken_us and peer.run is not None:
            self._taken_us = looked_us
            for changed_us, note in notes:
                peer.observe([note], changed_us)
            collector: Any = peer.folded()[1]
            collector.watched_for(looked_us)

    def _die(self, op: ops.Op, voted: int) -> None:
        """With the record in its hand."""
        if isinstance(op, ops.Append) and voted >= self._job.rounds:
            sys.stdout.write(f"{time.monotonic()!r}\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def vote(job: Job, asked: Callable[[], int]) -> Answer:
    before = asked()
    seen = Seen(job)
    seats = [Seat(job, rank, seen, job.deaths.get(rank, [])) for rank in job.ranks]
    together([seat.work for seat in seats])
    seen.close()
    times = [entry for seat in seats for entry in seat.times]
    began_s = min(seat.began_s for seat in seats)
    return Answer(merged(times), began_s, sum(seat.count for seat in seats), asked() - before)


def count_asks() -> Callable[[], int]:
    from quorate.stores import tcpstore

    begin, asked = tcpstore._Line.begin, [0]

    def counting(line: Any, ask: Any) -> Any:
        asked[0] += 1
        return begin(line, ask)

    setattr(tcpstore._Line, "begin", counting)  # noqa: B010
    return lambda: asked[0]


def count_in(job: Job) -> Answer:
    """The plain barrier: a counter, and a key that opens."""
    from datetime import timedelta

    from torch.distributed import TCPStore

    from quorate.stores.tcpstore import parse_url

    host, port, _ = parse_url(job.url)
    times: list[tuple[int, float, float]] = []

    def work() -> None:
        store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=30))
        for step in range(job.rounds):
            arrived_s = time.monotonic()
            if store.add(f"{job.run}/count/{step}", 1) == job.settings["form_members"]:
                store.set(f"{job.run}/open/{step}", "1")
            store.wait([f"{job.run}/open/{step}"])
            times.append((step, arrived_s, time.monotonic()))

    together([work for _ in job.ranks])
    return Answer(merged(times))


def together(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def merged(times: list[tuple[int, float, float]]) -> dict[int, tuple[float, float]]:
    rounds: dict[int, tuple[float, float]] = {}
    for at, arrived_s, released_s in times:
        first, last = rounds.get(at, (0.0, 0.0))
        rounds[at] = (max(first, arrived_s), max(last, released_s))
    return rounds


def main() -> None:
    asked = count_asks()
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        answer = count_in(job) if job.what == "counter" else vote(job, asked)
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
