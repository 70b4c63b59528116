"""The only store is lost with everything in it: a majority of ranks begins anew in an empty one, a minority ends."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.ranks_crew import Crew, next_it

DEAD_S = 12.0
"""A new server has to be there before the ranks stop themselves, after two thirds of this."""
STANDBY = """
import sys, torch.distributed
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
from quoracy.stores import tcpstore
tcpstore.serve(["--port", sys.argv[1]])
"""


class Standby:
    """A server that has loaded everything it needs and waits for its turn."""

    def __init__(self) -> None:
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None

    def prepare(self, port: str) -> None:
        command = [sys.executable, "-c", STANDBY, port]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def go(self) -> str:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().split()[-1]

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@contextlib.contextmanager
def two_stores() -> Iterator[tuple[str, Standby, Standby]]:
    """One that serves, and one that will take its place with nothing in it."""
    first, second = Standby(), Standby()
    try:
        first.prepare("0")
        url = first.go()
        second.prepare(url.rpartition(":")[2])
        yield url, first, second
    finally:
        first.kill()
        second.kill()


def test_a_majority_begins_anew_where_the_run_stood(tmp_path: Path) -> None:
    with two_stores() as (url, first, second), Crew(url, tmp_path, form_members=3, t_dead_s=DEAD_S) as crew:
        ranks = [crew.start(rank, pace_s=0.2) for rank in range(3)]
        before = [next_it(rank, lambda it: it["number"] >= 5) for rank in ranks]
        ranks[2].kill()
        first.kill()
        assert second.go() == url
        after = [next_it(rank, lambda it: it["joined"]) for rank in ranks[:2]]
        assert min(it["number"] for it in after) >= min(it["number"] for it in before) - 1
        for rank, it in zip(ranks[:2], after, strict=True):
            again = next_it(rank, lambda later, it=it: later["number"] >= it["number"] + 3)  # type: ignore[misc]
            assert again["members"] == [0, 1]
            assert again["token"] > it["token"] > before[0]["token"]
        looker = crew.look()
        assert looker.crew.config.generation == 1


@pytest.mark.soak("faults")
def test_a_minority_stops_and_says_so(tmp_path: Path) -> None:
    """What the beater said of the old store does not count in the new one."""
    with two_stores() as (url, first, second), Crew(url, tmp_path, form_members=3, t_dead_s=DEAD_S) as crew:
        left = crew.start(0, "ends", how="led")
        others = [crew.start(rank) for rank in (1, 2)]
        for number in range(3):
            assert left.hear("it")["number"] == number
            left.tell("yes")
            assert left.hear("voted") == [number, True]
        for other in others:
            other.kill()
        first.kill()
        left.tell("trouble")
        assert "does not answer" in left.hear("trouble")
        assert second.go() == url
        left.tell("yes")
        _, code, text, _ = left.hear("raised")
        assert code == "store_lost"
        assert "of the members of attempt" in text
        assert "2 are needed to begin anew" in text
