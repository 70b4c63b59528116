"""``quoracy`` as people start it: real processes, waited for and never slept for."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from quoracy.core.errors import QuoracyError
from quoracy.sdk.client.ask import Asker

PATIENCE_S = 60.0
QUORACY = [sys.executable, "-m", "quoracy"]


def until(condition: Callable[[], Any], what: str = "") -> Any:
    """What the condition gives, once that is something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.01)
    return found


def environment(**more: str) -> dict[str, str]:
    """Nothing of the machine that the test happens to run on."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("QUORACY_", "RUST_LOG"))}
    return kept | {"COLUMNS": "80", "LINES": "24"} | more


def quoracy(
    *arguments: object, url: str = "", within: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """``within``: a command that starts others somewhere else."""
    named = more | ({"QUORACY_URL": url} if url else {})
    command = [*within, *QUORACY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment(**named))


def told(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The object in the last line."""
    last: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    assert last["ok"] is (result.returncode == 0)
    return last


def seen(url: str, what: str, run: str = "", **arguments: Any) -> dict[str, Any]:
    """What a verb is told, without a process for each question: for who asks again and again. Empty if there is no
    answer."""
    with contextlib.suppress(QuoracyError), Asker(url) as asker:
        found: dict[str, Any] = asker.ask(what, run, **arguments)
        return found
    return {}


class Serving:
    """``quoracy serve``, ready."""

    def __init__(
        self, folder: Path, *arguments: object, port: int = 0, within: Sequence[str] = (), **more: str
    ) -> None:
        """``more``: further variables of its environment."""
        name = f"{time.monotonic_ns()}"
        self.folder = folder
        self.ready_file = folder.parent / f"ready-{name}"
        self._out, self._log = folder.parent / f"out-{name}", folder.parent / f"log-{name}"
        command = [*within, *QUORACY, "serve", "--folder", str(folder), "--port", str(port), "--json-logs"]
        command += ["--ready-file", str(self.ready_file), *map(str, arguments)]
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=out, stderr=log, env=environment(**more))
        until(lambda: self.ready_file.exists() or self.process.poll() is not None, "ready")
        assert self.process.poll() is None, self._log.read_text()
        self.url = self.ready_file.read_text().strip()
        self.idle_sockets = self.sockets()
        """Before anybody has connected."""

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def sockets(self) -> int:
        """How many it holds open."""
        held = 0
        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                held += str(descriptor.readlink()).startswith("socket:")
        return held

    @property
    def out(self) -> str:
        return self._out.read_text()

    def log(self, what: str = "", **facts: Any) -> list[dict[str, Any]]:
        """Whole lines of the log about this."""
        lines = [json.loads(line) for line in self._log.read_text().split("\n")[:-1] if line.startswith("{")]
        about = [line for line in lines if what in ("", line["what"])]
        return [line for line in about if all(line.get(name) == value for name, value in facts.items())]

    @property
    def last_words(self) -> str:
        """What it said beside its log, without line ends."""
        lines = self._log.read_text().splitlines()
        return " ".join(line for line in lines if not line.startswith("{"))

    def send(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def stop(self, which: signal.Signals = signal.SIGTERM) -> int:
        self.send(which)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


class Working:
    """A training script with the SDK: one process that meets the others at ``steps`` barriers."""

    def __init__(self, folder: Path, url: str, run: str, name: str, steps: int, within: Sequence[str] = ()) -> None:
        self.name = name
        self._out = folder / f"passed-{name}"
        command = [*within, sys.executable, "-m", "quoracy.demo.worker", url, run, name, str(steps), "1"]
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, env=environment())

    def __enter__(self) -> Working:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    @property
    def passed(self) -> list[tuple[int, int]]:
        """Generation and step of each barrier, in the order in which it was told of them."""
        lines = [json.loads(line) for line in self._out.read_text().split("\n")[:-1]]
        return [(line["generation"], line["step"]) for line in lines]
