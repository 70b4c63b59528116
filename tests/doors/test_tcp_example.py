"""The page about TCP: its worker and its participant live as the page says, in processes of their own, with the
arguments shown there."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.e2e.command import quoracy, until

from quoracy.coordinator import Coordinator

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
        assert (done.returncode, done.stderr) == (0, "")
        assert [json.loads(line)["step"] for line in done.stdout.splitlines()] == [0, 1, 2]
        (worker,) = coordinator.ask("workers", run)
        assert (worker["id"], worker["state"]) == ("w1", "Left")


def start(coordinator: Coordinator, run: str, member: str) -> subprocess.Popen[str]:
    script, port = ROOT / "examples/tcp_participant.py", coordinator.url.rpartition(":")[2]
    command = [sys.executable, "-W", "error", str(script), "127.0.0.1", port, run, member]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_the_participant_of_the_page_takes_part_as_it_says(tmp_path: Path) -> None:
    """The commands are those of the page, but for the port."""
    create, shown = re.findall(
        r"^quoracy (run create lines .*)\npython (examples/.*)$", PAGE.read_text(), re.MULTILINE
    )[0]
    script, host, port, run, member = shlex.split(shown)
    assert (script, host, port) == ("examples/tcp_participant.py", "127.0.0.1", "7700")
    with Coordinator(folder=tmp_path, http={"port": 0}) as coordinator:
        made = quoracy(*shlex.split(create), url=coordinator.url)
        assert made.returncode == 0, made.stderr
        said, wrong = start(coordinator, run, member).communicate(timeout=60)
        assert (said, wrong) == ("[-1, 0, 1, 2] 2.625\n", "")
        shown_then = coordinator.show(run)
        assert shown_then["phase"] == "Finished"
        assert [(party["id"], party["state"]) for party in shown_then["participants"]] == [(member, "Done")]


def test_one_that_is_killed_takes_its_place_again(tmp_path: Path) -> None:
    """Two of them; one is killed while a round waits for it, and is started again under its name."""
    with Coordinator(folder=tmp_path, http={"port": 0}) as coordinator:
        coordinator.create("lines", "federated", clients=2, rounds=2, time_min_s=0.5)
        first, second = start(coordinator, "lines", "p1"), start(coordinator, "lines", "p2")
        until(lambda: (coordinator.show("lines")["open"] or {}).get("number") == 0, "the first round")
        first.kill()
        first.communicate(timeout=60)
        again = start(coordinator, "lines", "p1")
        for one in (again, second):
            said, wrong = one.communicate(timeout=60)
            assert (one.returncode, wrong) == (0, "")
            assert said.endswith("2.25\n")
        lives = {party["id"]: party["incarnation"] for party in coordinator.show("lines")["participants"]}
        assert lives == {"p1": 2, "p2": 1}
        rounds = coordinator.ask("history", "lines")["rounds"]
        assert [one["updates"] for one in rounds] == [2, 2], "each counts once, also that of the one that was killed"
