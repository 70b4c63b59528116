"""A coordinator of its own: a real ``quoracy serve``, which may be killed and started again."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quoracy.core.federated.code import modules_of
from quoracy.launch.errors import NotStarted, TookTooLong
from quoracy.stores import SqliteJournal

START_S = 120.0
"""On a machine that has a lot to do, imports alone may take long."""


class Coordinator:
    """The process that is killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        """``options``: of ``quoracy serve``."""
        self._folder = folder
        self._options = options
        self.port = 0
        self.kills = 0
        self.start()

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self) -> None:
        ready = self._folder / f"ready-{self.kills}"
        options = ["--folder", str(self._folder), "--port", str(self.port), "--log-level", "error", *self._options]
        command = [sys.executable, "-m", "quoracy", "serve", *options, "--ready-file", str(ready)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - ourselves
        try:
            self.port = _port(ready, self.process)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def stop(self) -> int:
        """SIGTERM: it drains and leaves by itself."""
        self.process.terminate()
        return self.process.wait(timeout=20)


def _port(ready: Path, process: subprocess.Popen[bytes]) -> int:
    """As soon as the coordinator says that it is ready."""
    deadline = time.monotonic() + START_S
    while not ready.exists():
        if process.poll() is not None:
            raise NotStarted(f"the coordinator ended with {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise TookTooLong(f"the coordinator was not ready after {START_S:.0f} s")
        time.sleep(0.005)
    return int(ready.read_text().strip().rpartition(":")[2])


def listing(config: Mapping[str, Any]) -> list[str]:
    """The options with which a coordinator of one's own runs the code that these settings of a run name."""
    return [f"--module={module}" for module in modules_of(config)]


@contextlib.contextmanager
def coordinating(folder: Path, *options: str) -> Iterator[Coordinator]:
    started = Coordinator(folder, *options)
    try:
        yield started
    finally:
        started.kill()


def journal_of(folder: Path, run: str) -> list[bytes]:
    """Every entry of the run, from the store itself."""
    journal = SqliteJournal(folder)
    entries: list[bytes] = []
    while page := journal.read(run, len(entries) + 1):
        entries += page
    journal.close()
    return entries
