"""The page about TCP: its member of a witnessed run trains as the page says, in a process of its own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.e2e.command import quoracy

from quoracy.coordinator import Coordinator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/doors/tcp.md"


def test_the_member_of_the_page_trains_a_whole_run_as_it_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    (created,) = re.findall(r"^quoracy (run create .* --kind witnessed .*)$", page, re.MULTILINE)
    (shown,) = re.findall(r"^python (examples/tcp_member\.py .*)$", page, re.MULTILINE)
    script, host, port, run, member = shlex.split(shown)
    assert (host, port) == ("127.0.0.1", "7700")
    with Coordinator(folder=tmp_path) as coordinator:
        assert quoracy(*shlex.split(created), url=coordinator.url).returncode == 0
        place = coordinator.url.rpartition(":")[2]
        command = [sys.executable, "-W", "error", str(ROOT / script), host, place, run, member]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        ran = coordinator.show(run)
        assert (ran["phase"], ran["step"]) == ("Finished", 5)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{sum(range(ran['next_batch']))}\n", "")
        assert ran["account"]["applied"] == ran["next_batch"] == 40
