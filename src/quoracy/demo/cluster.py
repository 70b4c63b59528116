"""A fleet that meets at two hundred barriers while its coordinator is killed.

A coordinator and eight workers, each a process of its own. On the way one worker is killed, one joins late, one is
slow, and the coordinator is killed with -9 and started again. At the end whatever any worker was told is looked up in
the journal.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from quoracy.core.kinds import KINDS
from quoracy.core.run import fold
from quoracy.demo.account import Account, read_account
from quoracy.launch import Coordinator, TookTooLong, coordinating, journal_of
from quoracy.report import Measurement, Report
from quoracy.sdk.client.ask import Asker

RUN = "demo"
WORKERS = 8
BARRIERS = 200
KILL_AT = 110
DIES_AT, DIES = 30, "worker-3"
LATE_AT, LATE = 70, "worker-late"
SLOW, SLOW_MS, WORK_MS = "worker-7", 12.0, 2.0
CONFIG = {
    "heartbeat_interval_s": 0.25,
    "heartbeat_timeout_s": 1.5,
    "barrier_min": WORKERS - 1,
    "barrier_deadline_s": 20.0,
}
GIVE_UP_S = 55.0

Say = Callable[[str, int], None]
"""What happened, or nothing but progress, at which barrier."""


class DemoWorker:
    """A worker's process, and what it says."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.passed: list[tuple[int, int]] = []
        work_ms = SLOW_MS if name == SLOW else WORK_MS
        arguments = [url, RUN, name, str(BARRIERS), str(work_ms)]
        command = [sys.executable, "-m", "quoracy.demo.worker", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
        if self.process.stdout is None:
            raise RuntimeError("a process started with a pipe has none")
        self.stdout: IO[bytes] = self.process.stdout
        os.set_blocking(self.stdout.fileno(), False)
        self._kept = b""

    def read(self) -> bool:
        """False when it has no more to say."""
        try:
            chunk = os.read(self.stdout.fileno(), 65536)
        except BlockingIOError:
            return True
        *lines, self._kept = (self._kept + chunk).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self.passed.append((told["generation"], told["step"]))
        return bool(chunk)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Story:
    """Who is there, what is done to them, and what they were told."""

    def __init__(self, coordinator: Coordinator, say: Say) -> None:
        self.coordinator = coordinator
        self.workers = [DemoWorker(coordinator.url, f"worker-{i}") for i in range(WORKERS)]
        self.everybody = list(self.workers)
        self.recovered_s = 0.0
        self._say = say
        self._killed_at: float | None = None
        self._late = False

    def play(self) -> None:
        """Until everybody has passed the last barrier and gone home."""
        began = time.monotonic()
        top = 0
        while self.workers:
            if time.monotonic() - began > GIVE_UP_S:
                raise TookTooLong(f"only {top} of {BARRIERS} barriers in {GIVE_UP_S:.0f} s")
            by_fd = {worker.stdout.fileno(): worker for worker in self.workers}
            readable, _, _ = select.select(list(by_fd), [], [], 0.05)
            for fd in readable:
                if not by_fd[fd].read():
                    self.workers.remove(by_fd[fd])
            passed = max((len(worker.passed) for worker in self.everybody), default=0)
            if passed > top and self._killed_at is not None:
                self.recovered_s = time.monotonic() - self._killed_at
                self._killed_at = None
            if passed > top:
                self._say("", passed)
            top = max(top, passed)
            self._misfortune(top)

    def _misfortune(self, top: int) -> None:
        if top >= DIES_AT and any(worker.name == DIES for worker in self.workers):
            victim = next(worker for worker in self.workers if worker.name == DIES)
            self._say(f"{DIES} is killed", top)
            victim.kill()
            self.workers.remove(victim)
        if top >= LATE_AT and not self._late:
            self._late = True
            self._say(f"{LATE} joins", top)
            late = DemoWorker(self.coordinator.url, LATE)
            self.workers.append(late)
            self.everybody.append(late)
        if top >= KILL_AT and not self.coordinator.kills:
            self._say("the coordinator is killed with -9 and started again", top)
            self._killed_at = time.monotonic()
            self.coordinator.kill()
            self.coordinator.start()


def demo_cluster(say: Say) -> tuple[Report, Account]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quoracy-demo-") as name, coordinating(Path(name)) as coordinator:
        with Asker(coordinator.url) as asker:
            asker.ask("create", RUN, kind="cluster", config=CONFIG)
        story = Story(coordinator, say)
        try:
            story.play()
        finally:
            for worker in story.everybody:
                worker.kill()
                worker.stdout.close()
        left = coordinator.stop()
        entries = journal_of(Path(name), RUN)
    account = read_account(entries, RUN)
    report = _judge(story, account, entries)
    report.seconds = time.monotonic() - began
    if left != 0:
        report.failures.append(f"the coordinator did not drain: exit code {left}")
    return report, account


def _judge(story: Story, account: Account, entries: list[bytes]) -> Report:
    told = {(worker.name, *passed) for worker in story.everybody for passed in worker.passed}
    lost = told - account.passages
    report = Report("demo cluster")
    run = fold(KINDS, RUN, entries)
    report.measurements = [
        Measurement("barriers_released", account.released, "barriers", BARRIERS),
        Measurement("released_twice", len(account.twice), "barriers", 0, "at most"),
        Measurement("passages_told", len(told), "passages"),
        Measurement("told_and_lost", len(lost), "passages", 0, "at most", "looked up in the journal"),
        Measurement("coordinator_killed", story.coordinator.kills - 1, "times", 1),
        Measurement("recovery_ms", round(story.recovered_s * 1000), "ms", against="kill -9 to the next barrier"),
    ]
    if run is None or run.head.term != 2:
        report.failures.append("the journal does not show one term per life of the coordinator")
    if not account.ended.get(DIES, "").startswith("lost"):
        report.failures.append(f"{DIES} was killed, and the journal does not say that it was lost")
    if account.straggler() != SLOW:
        report.failures.append(f"{SLOW} is slow, but {account.straggler()} was last to come most often")
    finished = [worker.name for worker in story.everybody if worker.passed and worker.passed[-1][1] == BARRIERS - 1]
    if len(finished) != WORKERS:
        report.failures.append(f"{len(finished)} workers passed the last barrier, not {WORKERS}: {finished}")
    return report
