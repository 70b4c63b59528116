"""The examples do what they say, as separate processes, one of which is killed on the way."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.sdk.live import PATIENCE_S, LiveServer, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"


class Crew:
    """Workers of one run; none outlives the test."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._processes.append(process)
        return process

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_exc: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def last_line(worker: subprocess.Popen[str], patience_s: float = PATIENCE_S) -> str:
    out, err = worker.communicate(timeout=patience_s)
    assert (worker.returncode, err) == (0, "")
    return out.splitlines()[-1]


def test_workers_that_come_go_and_die_end_with_the_same_line(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", config={"barrier_min": 3}) as server, Crew() as crew:
        folder = tmp_path / "weights"
        settings = ["--url", server.url, "--folder", str(folder), "--steps", "200"]
        workers = [crew.start("train.py", *settings, "--member", f"w{number}") for number in range(3)]
        wait_for(lambda: (folder / "weights-20.json").exists(), "they are under way")
        workers[2].send_signal(signal.SIGKILL)
        wait_for(lambda: server.worker("w2")["state"] == "Failed", "one is missed")
        workers[2] = crew.start("train.py", *settings, "--member", "w2")
        lines = [last_line(worker) for worker in workers]
    fits = {re.sub(r"^w\d: ", "", line) for line in lines}
    assert len(fits) == 1, lines
    found = re.fullmatch(r"y = (\S+) x \+ (\S+)", fits.pop())
    assert found is not None
    assert abs(float(found[1]) - 3) < 0.05
    assert abs(float(found[2]) - 1) < 0.05


def test_a_script_that_awaits(tmp_path: Path) -> None:
    with LiveServer(tmp_path, config={"barrier_min": 2}) as server, Crew() as crew:
        workers = [crew.start("train_async.py", "--url", server.url, "--steps", "100") for _ in range(2)]
        for worker in workers:
            assert "100 steps, 4 batches ahead" in last_line(worker)
