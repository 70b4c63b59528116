"""Ranks as real processes on a real store, and what their journal says of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.sdk.live import PATIENCE_S, wait_for
from tests.stores.etcd import Etcd

from quoracy.hosts.onlooker import Onlooker, UnknownRun
from quoracy.hosts.peerless import Shared
from quoracy.stores.opening import open_store

SCRIPTS = str(Path(__file__).parent / "ranks_scripts.py")
RUN = "crew"
DEAD_S = 2.0
STORES = ["sqlite", "etcd", "tcpstore"]


@contextlib.contextmanager
def tcpstore() -> Iterator[str]:
    """A server alone, on a free port."""
    command = [sys.executable, "-m", "quoracy.stores.tcpstore", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


class Member:
    """One rank's process. What it says goes to a file: it never has to wait until somebody reads."""

    def __init__(self, path: Path, arguments: list[str], env: dict[str, str]) -> None:
        self._path = path
        command = [sys.executable, "-u", SCRIPTS, *arguments]
        with path.open("wb") as out, path.with_suffix(".err").open("wb") as err:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err, env=env)
        self._read = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def errors(self) -> str:
        return self._path.with_suffix(".err").read_text()

    def kill(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(PATIENCE_S)

    def running(self) -> bool:
        return self._process.poll() is None

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def said(self, topic: str = "") -> list[Any]:
        """Everything about this so far."""
        lines = [json.loads(line) for line in self._path.read_bytes().split(b"\n")[:-1]]
        return [value if topic else [about, value] for about, value in lines if topic in ("", about)]

    def hear(self, what: str) -> Any:
        """The value of the next line that is about ``what``."""

        def found() -> Any:
            lines = self.said()
            for at in range(self._read, len(lines)):
                if lines[at][0] == what:
                    self._read = at + 1
                    return lines[at]
            assert self.running(), f"waited for {what!r}, but it has ended: {lines[-5:]} {self.errors}"
            return None

        return wait_for(found, f"{what!r}")[1]

    def close(self) -> None:
        if self.running():
            self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()


class Crew:
    """``settings`` are the run's."""

    def __init__(self, store: str, folder: Path, **settings: Any) -> None:
        self.store = store
        self.settings: dict[str, Any] = {"t_dead_s": DEAD_S, **settings}
        self._folder = folder
        self._all: list[Member] = []

    def start(
        self, rank: int, script: str = "train", env: dict[str, str] | None = None, store: str = "", **more: Any
    ) -> Member:
        """``store``: another way to it."""
        arguments = [script, store or self.store, str(rank), json.dumps(self.settings | more)]
        quiet = {"PYTHONWARNINGS": "error", "TORCH_CPP_LOG_LEVEL": "ERROR", "RES_OPTIONS": "timeout:1 attempts:1"}
        path = self._folder / f"said-{len(self._all)}"
        member = Member(path, arguments, os.environ | quiet | (env or {}))
        self._all.append(member)
        return member

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_exc: object) -> None:
        for member in self._all:
            member.close()

    def look(self) -> Onlooker:
        """At the journal, from outside."""
        shared = Shared(*open_store(self.store))
        try:
            return Onlooker(shared, RUN, self.store)
        finally:
            shared.close()

    def until(self, condition: Callable[[Onlooker], Any], what: str) -> Any:
        """What the condition makes of the journal, once that is something."""

        def looked() -> Any:
            with contextlib.suppress(UnknownRun):
                return condition(self.look())
            return None

        return wait_for(looked, what)

    def until_gone(self, rank: int, since: int = 0) -> tuple[Any, str]:
        """The record that gives this rank up, and why."""

        def given_up(looker: Onlooker) -> Any:
            for line in looker.lines[since:]:
                for name, why in line.decision.gone:
                    if name == str(rank):
                        return line.decision, why
            return None

        found: tuple[Any, str] = self.until(given_up, f"rank {rank} is given up")
        return found

    def until_number(self, number: int) -> Any:
        return self.until(lambda looker: looker.crew.number >= number and looker, f"iteration {number}")

    def numbers_once(self) -> None:
        """Every iteration was committed once, in order; every attempt decided once."""
        lines = self.look().lines
        committed = [line.decision.number for line in lines if line.decision.outcome == "committed"]
        assert committed == list(range(len(committed)))
        assert [line.decision.attempt for line in lines] == list(range(1, len(lines) + 1))


def next_it(member: Member, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The next attempt it was shown that is like this."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        it: dict[str, Any] = member.hear("it")
        if condition(it):
            return it
    raise AssertionError(f"no such attempt in {PATIENCE_S} s")


@contextlib.contextmanager
def store_url(kind: str, folder: Path, etcd: Etcd) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite://{folder}/store"
    elif kind == "etcd":
        yield etcd.url()
    else:
        with tcpstore() as url:
            yield url
