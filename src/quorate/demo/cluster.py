"""A fleet that meets at two hundred barriers while its coordinator is killed.

The coordinator is a process of its own on a SQLite journal; eight workers talk to it through pipes, each with the
session logic of the SDK. On the way one worker dies, one joins late, one is slow, and the coordinator is killed with
-9 twice and started again. At the end everything that any worker was told is looked up in the journal.
"""

from __future__ import annotations

import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from quorate.core.cluster.events import WorkerIdle, WorkerReady
from quorate.core.kinds import KINDS
from quorate.core.members import Accepted, Cause
from quorate.core.messages import Answered, ToMember
from quorate.core.run import fold
from quorate.demo.account import Account, read_account
from quorate.demo.pipe import Receiver, Sender
from quorate.report import Measurement, Report
from quorate.sdk import Session, Stage
from quorate.stores import SqliteJournal

RUN = "demo"
BARRIER = "step"
WORKERS = 8
BARRIERS = 200
KILLS = (60, 130)
DIES_AT, DIES = 30, "worker-3"
LATE_AT, LATE = 90, "worker-late"
SLOW = "worker-7"
CONFIG = {
    "heartbeat_interval_s": 0.25,
    "heartbeat_timeout_s": 1.5,
    "barrier_min": WORKERS - 1,
    "barrier_deadline_s": 20.0,
}
GIVE_UP_S = 55.0
TAKES_PART = ("Idle", "LoadingData", "Training", "Checkpointing")


class Coordinator:
    """The process that is killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kills = 0
        self.start()

    def start(self) -> None:
        module = [sys.executable, "-m", "quorate.demo.coordinator"]
        arguments = [str(self._folder), RUN, msgspec.json.encode(CONFIG).decode()]
        self._process = subprocess.Popen(  # noqa: S603 - ourselves, with arguments of our own
            [*module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("a process started with pipes has none")
        self.sender = Sender(self._process.stdin.fileno())
        self.stdout = self._process.stdout
        self.receiver = Receiver(self.stdout.fileno(), ToMember)

    def kill(self) -> None:
        self._process.kill()
        self._close()
        self.kills += 1

    def stop(self) -> None:
        """End of input: it leaves by itself."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=10)
        self.stdout.close()

    def _close(self) -> None:
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class DemoWorker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.session = Session(RUN, name, random.randbytes(32), retry_us=200_000)  # noqa: S311 - a demonstration
        self.passed = 0
        self.work_s = 0.008 if name == SLOW else 0.001
        self._part = False
        self._step = 0
        self._done_at: float | None = None
        self.session.connect(_now_us())

    def act(self) -> None:
        session = self.session
        while session.notes:
            note = session.notes.popleft()
            if note.what == "joined":
                session.wish(WorkerReady)
            elif note.what == "passed":
                self.passed += 1
                self._begin(note.value.step + 1)
            elif note.what in ("aborted", "refused", "lost"):
                self._part = False
        standing = session.standing
        if standing is not None and not self._part and session.stage is Stage.JOINED:
            if standing.state in TAKES_PART:
                self._part = True
                self._begin(standing.barriers.get(BARRIER, (0, -1))[1] + 1)
            elif standing.state == "Recovering" and session.idle():
                session.wish(WorkerIdle)
        if self._done_at is not None and time.monotonic() >= self._done_at:
            self._done_at = None
            session.arrive(BARRIER, self._step, _now_us())
        session.tick(_now_us())

    def _begin(self, step: int) -> None:
        """Train for a moment, then stand at the barrier."""
        self._step = step
        self._done_at = time.monotonic() + self.work_s


class Stage200:
    """The story: who is there, what is done to them, and what they were told."""

    def __init__(self, folder: Path, say: Callable[[str, int], None]) -> None:
        self.coordinator = Coordinator(folder)
        self.workers = [DemoWorker(f"worker-{i}") for i in range(WORKERS)]
        self.told: dict[Cause, Accepted] = {}
        self.recovered_s: list[float] = []
        self._say = say
        self._kills = list(KILLS)
        self._killed_at: float | None = None
        self._late = False

    def play(self) -> int:
        """Until everybody has seen the last barrier. Returns how many were passed."""
        began = time.monotonic()
        top = 0
        while top < BARRIERS:
            if time.monotonic() - began > GIVE_UP_S:
                raise TimeoutError(f"only {top} of {BARRIERS} barriers in {GIVE_UP_S:.0f} s")
            self._talk()
            step = max((worker.passed for worker in self.workers), default=0)
            if step > top and self._killed_at is not None:
                self.recovered_s.append(time.monotonic() - self._killed_at)
                self._killed_at = None
            top = max(top, step)
            self._misfortune(top)
        self.coordinator.stop()
        return top

    def _talk(self) -> None:
        out = []
        for worker in self.workers:
            worker.act()
            out += [(worker.name, message) for message in worker.session.take()]
        if out:
            self.coordinator.sender.send(out)
        readable, _, _ = select.select([self.coordinator.stdout], [], [], 0.002)
        by_name = {worker.name: worker for worker in self.workers}
        for name, message in self.coordinator.receiver.receive() if readable else ():
            if isinstance(message, Answered) and isinstance(message.answer, Accepted):
                self.told[message.cause] = message.answer
            if name in by_name:
                by_name[name].session.receive(message, _now_us())

    def _misfortune(self, top: int) -> None:
        if self._kills and top >= self._kills[0]:
            self._kills.pop(0)
            self._say("the coordinator is killed with -9 and started again", top)
            self._killed_at = time.monotonic()
            self.coordinator.kill()
            self.coordinator.start()
            for worker in self.workers:
                worker.session.connect(_now_us())
        if top >= DIES_AT and any(worker.name == DIES for worker in self.workers):
            self._say(f"{DIES} dies without a word", top)
            self.workers = [worker for worker in self.workers if worker.name != DIES]
        if top >= LATE_AT and not self._late:
            self._late = True
            self._say(f"{LATE} joins", top)
            self.workers.append(DemoWorker(LATE))


def demo_cluster(say: Callable[[str, int], None]) -> tuple[Report, Account]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quorate-demo-") as name:
        stage = Stage200(Path(name), say)
        passed = stage.play()
        journal = SqliteJournal(Path(name))
        entries: list[bytes] = []
        while page := journal.read(RUN, len(entries) + 1):
            entries += page
        journal.close()
    account = read_account(entries, RUN)
    run = fold(KINDS, RUN, entries)
    report = Report("demo cluster", time.monotonic() - began)
    recovery_ms = max(stage.recovered_s, default=0.0) * 1000
    report.measurements = [
        Measurement("barriers_passed", passed, "barriers", BARRIERS),
        Measurement("barriers_released_twice", len(account.twice), "barriers", 0, "at most"),
        Measurement("acknowledged", len(stage.told), "commands"),
        Measurement("acknowledged_and_lost", _lost(stage, account), "commands", 0, "at most"),
        Measurement("coordinator_killed", stage.coordinator.kills, "times", len(KILLS)),
        Measurement("recovery_ms", round(recovery_ms), "ms", None, "at most", "kill -9 to the next barrier passed"),
    ]
    if run is None or run.head.term != len(KILLS) + 1:
        report.failures.append("the journal does not show one term per life of the coordinator")
    if DIES not in account.ended:
        report.failures.append(f"{DIES} died and nobody noticed")
    if account.straggler() != SLOW:
        report.failures.append(f"{SLOW} is slow, but {account.straggler()} was last to come most often")
    return report, account


def _lost(stage: Stage200, account: Account) -> int:
    told = {(cause.member, cause.incarnation, cause.seq) for cause in stage.told}
    return len(told - account.commands)


def _now_us() -> int:
    return time.monotonic_ns() // 1000
