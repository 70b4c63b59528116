"""The page about TCP: its worker lives as the page says, in a process of its own, with the arguments shown there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from quorate.coordinator import Coordinator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/doors/tcp.md"


def test_the_worker_of_the_page_lives_as_it_says(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^python (examples/tcp_worker\.py .*)$", PAGE.read_text(), re.MULTILINE)
    script, host, port, run, member = shlex.split(shown)
    assert (host, port) == ("127.0.0.1", "7700")
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.create(run)
        place = coordinator.url.rpartition(":")[2]
        command = [sys.executable, "-W", "error", str(ROOT / script), host, place, run, member]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2, 3]\n", "")
        (worker,) = coordinator.ask("workers", run)
        assert (worker["id"], worker["state"]) == ("w1", "Left")
