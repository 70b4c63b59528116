"""A fleet of real sessions on real sockets against a real coordinator process, watched by the simulator's checkers.

The checkers do not care whether a life was simulated: they are told what processes did and were told, and read the
journal at the end.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quoracy.core.cluster.events import WorkerIdle, WorkerLoading, WorkerReady, WorkerTraining
from quoracy.core.messages import Answered, Call, Declined, Moved, Told, Welcome
from quoracy.sdk.client.session import Stage
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.sim.checkers import Checkers, Ending, Violation
from quoracy.sim.checkers.answers import Answers
from quoracy.sim.checkers.barriers import Barriers
from quoracy.sim.checkers.durability import Durability
from quoracy.sim.checkers.lives import Lives
from quoracy.stores import SqliteJournal
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import NEWEST, OLDEST, Greet, to_client

RUN = "bench"
TAKES_PART = ("Idle", "LoadingData", "Training", "Checkpointing")
PATIENCE_S = 60.0


def now_us() -> int:
    return time.monotonic_ns() // 1000


class RealWorker:
    def __init__(self, member: str, process: int, checkers: Checkers, rng: random.Random) -> None:
        self.member = member
        self.name = f"{member}#{process}"
        self.session = WorkerSession(RUN, member, rng.randbytes(32), retry_us=300_000)
        self.passed = 0
        self.resting = False
        self.socket: socket.socket | None = None
        self.heard: list[Any] = []
        """Every message, in order."""
        self._checkers = checkers
        self._rng = rng
        self._reader = FrameReader()
        self._part = False
        self._step = 0

    def overdue_command(self) -> Any:
        return self.session.open_command() if self.session.waited_us(now_us()) > 10_000_000 else None

    def connect(self, address: tuple[str, int]) -> bool:
        self.close()
        try:
            self.socket = socket.create_connection(address, timeout=5)
        except OSError:
            return False
        self.socket.setblocking(False)
        self._reader = FrameReader()
        self._send(frame(Greet(OLDEST, NEWEST)))
        self.session.connect(now_us())
        self.flush()
        return True

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def read(self) -> None:
        if self.socket is None:
            return
        try:
            chunk = self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        for body in self._reader.feed(chunk):
            message: Any = to_client.read(body)
            self.heard.append(message)
            if isinstance(message, Answered):
                self._checkers.answered(self.name, message.cause, message.answer)
            if isinstance(message, Welcome | Answered | Declined | Told | Moved):
                self.session.receive(message, now_us())
        self.act()

    def act(self) -> None:
        session = self.session
        while session.notes:
            note = session.notes.popleft()
            if note.what == "joined":
                self._part = False
                session.wish(WorkerReady)
            elif note.what == "passed":
                self.passed += 1
                self._checkers.passed(self.name, self.member, session.incarnation, note.value)
                self._report()
                self._arrive(note.value.step + 1)
            elif note.what in ("aborted", "refused", "lost", "rolled-back"):
                self._part = False
                session.standing = None
                session.connect(now_us())
        standing = session.standing
        if standing is not None and not self._part and session.stage is Stage.JOINED:
            if standing.state in TAKES_PART:
                self._part = True
                self._arrive(standing.barriers.get("step", (0, -1))[1] + 1)
            elif standing.state == "Recovering" and session.idle():
                session.wish(WorkerIdle)
        session.tick(now_us())
        self.flush()

    def _report(self) -> None:
        """Commands beside the barriers, so that there is something to lose."""
        if not self.resting and self.session.idle():
            self.session.wish(WorkerLoading)
            self.session.wish(WorkerTraining)
            self.session.wish(WorkerIdle)

    def _arrive(self, step: int) -> None:
        self._step = step
        if not self.session.waits_at("step"):
            self._checkers.arrived(self.name, self.session.arrive("step", step, now_us()))

    def flush(self) -> None:
        messages = self.session.take()
        for message in messages:
            if isinstance(message, Call):
                self._checkers.attempted(self.name, message.cause)
        if messages:
            self._send(b"".join(frame(message) for message in messages))

    def _send(self, stream: bytes) -> None:
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.sendall(stream)


class Fleet:
    def __init__(self, size: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.checkers = Checkers([Barriers(), Durability(), Answers(), Lives()])
        self.workers = [RealWorker(f"w{i}", 1, self.checkers, self.rng) for i in range(size)]

    def drive(self, address: tuple[str, int], until: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
        """Let everybody talk until the condition holds, or the time is over."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                return False
            for worker in self.workers:
                if worker.socket is None:
                    worker.connect(address)
            by_socket = {worker.socket: worker for worker in self.workers if worker.socket is not None}
            readable, _, _ = select.select(list(by_socket), [], [], 0.01)
            for ready in readable:
                by_socket[ready].read()
            for worker in self.workers:
                worker.act()
        return True

    def lowest(self) -> int:
        return min(worker.passed for worker in self.workers)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def judge(self, folder: Path) -> list[bytes]:
        """Everything that was promised holds, by the journal that is on disk."""
        journal = SqliteJournal(folder)
        entries: list[bytes] = []
        while page := journal.read(RUN, len(entries) + 1):
            entries += page
        journal.close()
        self.checkers.finish(Ending(entries, self.workers, RUN))
        return entries


__all__ = ["RUN", "Fleet", "RealWorker", "Violation"]
