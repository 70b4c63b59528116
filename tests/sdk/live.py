"""Real processes for tests: a coordinator that can be killed, scripts that say what happens to them, and waiting for
conditions."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.stopping import stop

from quoracy.sdk.client.ask import Asker

HERE = Path(__file__).parent
RUN = "demo"
PATIENCE_S = 60.0
QUICK = {"heartbeat_interval_s": 0.1, "heartbeat_timeout_s": 1.0, "stuck_after_s": 0.5, "barrier_deadline_s": 20.0}
T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """Until it is true, looking often; its value then."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {patience_s:.0f} s for: {what}"
        time.sleep(0.005)
    return found


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Process:
    """A Python script that writes one JSON value per line."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            env=os.environ | {"PYTHONWARNINGS": "error"} | (env or {}),
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout
        self._kept = b""
        self.said: list[Any] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        return self._process.wait(PATIENCE_S)

    def ended(self) -> bool:
        return self._process.poll() is not None

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, *what: str) -> Any:
        """The value of the next line that is about ``what``, or about one of several."""
        deadline = time.monotonic() + PATIENCE_S
        for topic, value in self._lines(deadline):
            self.said.append((topic, value))
            if topic in what:
                return value
        raise AssertionError(f"waited for {what}, heard {self.said}")

    def _lines(self, deadline: float) -> Iterator[tuple[str, Any]]:
        while (left_s := deadline - time.monotonic()) > 0:
            while b"\n" in self._kept:
                line, _, self._kept = self._kept.partition(b"\n")
                yield tuple(json.loads(line))
            if not select.select([self._out], [], [], left_s)[0]:
                return
            chunk = os.read(self._out.fileno(), 65536)
            if not chunk:
                return
            self._kept += chunk

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


class LiveServer:
    """A coordinator process on a folder and a port that stay the same when it is killed and started again."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        follows: bool = False,
        config: Any = None,
        kind: str = "cluster",
        **settings: Any,
    ) -> None:
        self.port = port or free_port()
        self.url = f"tcp://127.0.0.1:{self.port}"
        self._arguments = [
            str(HERE / "serve.py"), str(folder), str(self.port),
            json.dumps((QUICK if kind == "cluster" else {}) | (config or {})), json.dumps(settings),
            str(int(follows)), kind,
        ]  # fmt: skip
        self._process: Process | None = None
        self._asker = Asker(self.url)

    def start(self) -> None:
        self._process = Process(*self._arguments)
        self._process.hear("serving")

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.kill(number)
        self._process.wait()
        self._process.close()
        self._asker.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop_for_a_while(self) -> None:
        assert self._process is not None
        stop(self._process.pid)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.kill(signal.SIGCONT)

    def ask(self, what: str, **arguments: Any) -> Any:
        return self._asker.ask(what, RUN, **arguments)

    def worker(self, member: str) -> dict[str, Any]:
        """As people are shown it; empty if there is none."""
        found = [worker for worker in self.ask("show")["workers"] if worker["id"] == member]
        return found[0] if found else {}

    def explain(self) -> str:
        return str(self.ask("show")["explanation"]["sentence"])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._asker.close()
        if self._process is not None:
            self._process.close()


def script(
    name: str, url: str, *arguments: Any, env: dict[str, str] | None = None, file: str = "scripts.py"
) -> Process:
    """One of the functions in a file, as a process."""
    return Process(str(HERE / file), name, url, *(str(argument) for argument in arguments), env=env)


def heartbeat_process(pid: int) -> int:
    """The one of this process, as soon as it is there and ignores the signals that are meant for its training."""

    def found() -> int:
        for process in heartbeat_processes(pid):
            with suppress(OSError):
                ignored = Path(f"/proc/{process}/status").read_text().partition("SigIgn:")[2].split()[0]
                if int(ignored, 16) & 1 << signal.SIGHUP - 1:
                    return process
        return 0

    return wait_for(found, f"the heartbeat process of {pid}")


def heartbeat_processes(pid: int) -> list[int]:
    """Those that this process started, dead ones that nobody reaped among them."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            line = (entry / "cmdline").read_bytes()
            if int(stat[1]) == pid and (b"quoracy.sdk.client.heartbeat" in line or stat[0] == "Z"):
                found.append(int(entry.name))
    return found


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return stat[0] != "Z"
