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
from functools import partial
from typing import Any

import msgspec

from quoracy.core import asks as ops
from quoracy.core.asks import Steps
from quoracy.core.errors import QuoracyError
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import PEERLESS
from quoracy.core.peer import Peer
from quoracy.core.ranks.part import Part
from quoracy.core.ranks.times import derive
from quoracy.hosts.peerless import Peerless, Shared
from quoracy.ports import Beat
from quoracy.stores.opening import open_pulse, open_store

NOTE_BYTES, RECORD_BYTES, RECORD_BYTES_EACH = 32, 220, 4
"""As long as they are in earnest, about."""


class Job(msgspec.Struct):
    """``what``: votes, dies, counter or bare. Times count from the moment at which a rank was first let in."""

    what: str
    url: str
    run: str
    ranks: list[int]
    settings: dict[str, Any]
    rounds: int = 1 << 30
    lasts_s: float = 600.0
    tells: bool = False
    """Whether it says so, on a line, when all its ranks have been let in."""
    late_s: float = 0.0
    """By how much it arrives later than others."""
    rest_s: float = 0.0
    """Between two attempts, as if it trained. Whose turn it is to come last rests twice as long."""

    def rest(self, step: int, rank: int) -> None:
        if self.rest_s:
            time.sleep(self.rest_s * (2 if step % self.settings["form_members"] == rank else 1))


class Answer(msgspec.Struct):
    """``rounds``: by attempt, when its last rank of this process arrived, and when the last was released."""

    rounds: dict[int, tuple[float, float]]
    began_s: float = 0.0
    """When its first rank was let in."""
    count: int = 0
    """Operations, as ranks ask for them."""
    asks: int = 0
    """What became of them on the way to a TCPStore: single queries, beats not counted."""


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
        """Each at its own pace, counted from when it began and not from when it was done."""
        look_s = beat_s = time.monotonic()
        count = 0
        while not self._stop.wait(max(0.0, min(look_s, beat_s) - time.monotonic())):
            now_s = time.monotonic()
            with contextlib.suppress(QuoracyError):
                if now_s >= look_s:
                    look_s = now_s + self._times.look_s
                    self._look()
                if now_s >= beat_s:
                    beat_s = now_s + self._times.beat_s
                    count += 1
                    self._beat(count)

    def _beat(self, count: int) -> None:
        for part in list(self.alive.values()):
            if part.incarnation:
                beat = part.beat(count)
                self._pulse.beat(self._job.run, beat.key, Beat(beat.seq, beat.note))

    def _look(self) -> None:
        beats, at_us = self._pulse.beats(self._job.run), time.monotonic_ns() // 1000
        for key, beat in beats.items():
            if key not in self._changed or self._changed[key][0] != beat.seq:
                self._changed[key] = (beat.seq, at_us, beat.note)
        self.notes = (at_us, [(changed_us, note) for _, changed_us, note in self._changed.values()])


class Seat:
    """One rank, as a training has it but for the beater."""

    def __init__(self, job: Job, rank: int, seen: Seen, asked: Callable[[], int]) -> None:
        self._job = job
        self._asked = asked
        self._seen = seen
        self._rank = rank
        self._taken_us = 0
        self.let_in = threading.Event()
        self.began_s = 0.0
        self.times: list[tuple[int, float, float]] = []
        self.count = 0
        self.asks = 0

    def work(self) -> None:
        with contextlib.suppress(_Over):
            self._live()
        self._seen.alive.pop(self._rank, None)

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
            self.began_s = time.monotonic()
            self.let_in.set()
            before, asked = shared.count, self._asked()
            while job.what == "dies" or turn.attempt <= job.rounds + 1:
                if job.late_s:
                    time.sleep(job.late_s)
                job.rest(turn.attempt, self._rank)
                arrived_s, attempt = time.monotonic(), turn.attempt
                turn = self._drive(host, peer, part.vote(True))
                self.times.append((attempt, arrived_s, time.monotonic()))
            self.count += shared.count - before
            self.asks += self._asked() - asked
        finally:
            shared.close()

    def _drive(self, host: Peerless, peer: Peer, steps: Steps) -> Any:
        return host.drive(peer, steps, lambda: self._between(peer))

    def _between(self, peer: Peer) -> None:
        if self._age_s() >= self._job.lasts_s:
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
    seen = Seen(job)
    seats = [Seat(job, rank, seen, asked) for rank in job.ranks]
    works = [seat.work for seat in seats]
    together([*works, lambda: _tell(seats)] if job.tells else works)
    seen.close()
    times = [entry for seat in seats for entry in seat.times]
    began_s = min(seat.began_s for seat in seats)
    return Answer(merged(times), began_s, sum(seat.count for seat in seats), sum(seat.asks for seat in seats))


def _tell(seats: list[Seat]) -> None:
    for seat in seats:
        seat.let_in.wait()
    sys.stdout.write("in\n")
    sys.stdout.flush()


def count_asks() -> Callable[[], int]:
    """Queries to a TCPStore by the thread that asks."""
    from quoracy.stores import tcpwire

    ask, asked = tcpwire.Wire.ask, threading.local()

    def asking(wire: Any, *queries: Any) -> Any:
        asked.number = getattr(asked, "number", 0) + sum(1 for query in queries if query.said)
        return ask(wire, *queries)

    setattr(tcpwire.Wire, "ask", asking)  # noqa: B010
    return lambda: getattr(asked, "number", 0)


def count_in(job: Job) -> Answer:
    """The plain barrier: a counter, and a key that opens."""
    from datetime import timedelta

    from torch.distributed import TCPStore

    from quoracy.stores.tcpstore import parse_url

    host, port, _ = parse_url(job.url)
    times: list[tuple[int, float, float]] = []

    def work(rank: int) -> None:
        store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=30))
        for step in range(job.rounds):
            job.rest(step, rank)
            arrived_s = time.monotonic()
            if store.add(f"{job.run}/count/{step}", 1) == job.settings["form_members"]:
                store.set(f"{job.run}/open/{step}", "1")
            store.wait([f"{job.run}/open/{step}"])
            times.append((step, arrived_s, time.monotonic()))

    together([partial(work, rank) for rank in job.ranks])
    return Answer(merged(times))


def bare_calls(job: Job) -> Answer:
    """What a decision cannot do without, and nothing else: leave a note, read the notes, whether there are letters, and
    the last record; the last one writes, and says so; everybody else waits for that. Nobody understands any of it, and
    it survives no death."""
    from quoracy.stores import tcpwire as wire
    from quoracy.stores.tcpstore import parse_url

    host, port, _ = parse_url(job.url)
    size = job.settings["form_members"]
    note, record = bytes(NOTE_BYTES), bytes(RECORD_BYTES + RECORD_BYTES_EACH * size)
    times: list[tuple[int, float, float]] = []

    def work(rank: int) -> None:
        line, other = (wire.Wire(host, port, 30.0) for _ in range(2))
        for step in range(job.rounds):
            base, before = f"{job.run}/{step}", f"{job.run}/{step - 1}"
            job.rest(step, rank)
            arrived_s = time.monotonic()
            keys = [f"{base}/notes", f"{job.run}/posted", f"{job.run}/emptied", f"{before}/record", f"{job.run}/floor"]
            asked = wire.append(keys[0], note), wire.multi_get(keys), wire.begin_wait(f"{base}/usual")
            if len(line.ask(*asked)[1][0]) == size * len(note):
                other.ask(wire.compare_set(f"{base}/record", b"", record), wire.multi_get([f"{job.run}/floor"]))
                other.ask(wire.put(f"{base}/usual", b"1"))
                line.ask(wire.CANCEL_WAIT)
            else:
                line.ask(wire.END_OF_WAIT)
            times.append((step, arrived_s, time.monotonic()))
        for each in (line, other):
            each.close()

    together([partial(work, rank) for rank in job.ranks])
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
        match job.what:
            case "counter":
                answer = count_in(job)
            case "bare":
                answer = bare_calls(job)
            case _:
                answer = vote(job, asked)
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
