"""A disk that hangs under a real server: nobody is told anything that is not durable, nobody is given up for it, people
are told what the run waits for; and when the disk is quick again, everything goes on.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.command import PATIENCE_S, QUORACY, Serving, Working, environment, quoracy, seen, told, until
from tests.e2e.disk import Disk
from tests.e2e.fleet import RUN, Fleet

from quoracy.core.members import Accepted
from quoracy.core.messages import Answered, Declined, Told, Welcome
from quoracy.demo.account import read_account
from quoracy.stores import SqliteJournal

DEMO, BARRIERS = "demo", 200
TIMEOUT_S = 2.0
BEATS = ("--set", "heartbeat_interval_s=0.1", "--set", f"heartbeat_timeout_s={TIMEOUT_S}")
LONG_S = 1.5 * TIMEOUT_S
"""How long the disk hangs: whoever is not heard for so long is given up."""
OF_THE_JOURNAL = (Answered, Told, Welcome, Declined)


@contextlib.contextmanager
def serving(folder: Path, disk: Disk) -> Iterator[Serving]:
    file = folder.parent / "quoracy.toml"
    file.write_text("[host]\nslow_write_s = 0.2\n")
    with Serving(folder, "--config", file, **disk.variables) as server:
        yield server


def said_meanwhile(fleet: Fleet, server: Serving, *arguments: str) -> dict[str, Any]:
    """What a command says while the fleet goes on talking."""
    command = [*QUORACY, *arguments, server.url, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert fleet.drive(address(server), lambda: process.poll() is not None)
        said: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    assert said["ok"], said
    return said


def address(server: Serving) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("tcp://").rpartition(":")
    return host, int(port)


def awaited(sentence: str) -> tuple[int, float]:
    """Which entry is being written, and for how many seconds so far; (0, 0) if that is not what the run waits for."""
    found = re.fullmatch(r"entry (\d+) is being written \(([\d.]+) (ms|s) so far\)", sentence)
    return (0, 0.0) if found is None else (int(found[1]), float(found[2]) / (1000 if found[3] == "ms" else 1))


def journal(folder: Path, run: str) -> list[bytes]:
    """What is durable, as another process reads it."""
    store = SqliteJournal(folder)
    entries: list[bytes] = []
    while page := store.read(run, len(entries) + 1):
        entries += page
    store.close()
    return entries


def is_passage(said: Any) -> bool:
    return isinstance(said, Told) and said.topic == "barrier/step"


def passages(workers: list[Working]) -> set[tuple[str, int, int]]:
    """(worker, generation, step) of whatever they were told."""
    return {(worker.name, *passed) for worker in workers for passed in worker.passed}


def test_while_a_commit_hangs_nobody_is_told_and_nobody_is_given_up(tmp_path: Path) -> None:
    disk, folder, fleet = Disk(tmp_path), tmp_path / "runs", Fleet(4, seed=1)
    with serving(folder, disk) as server, contextlib.closing(fleet):
        quoracy("run", "create", RUN, server.url, "--set", "barrier_min=4", *BEATS)
        assert fleet.drive(address(server), lambda: fleet.lowest() >= 5)
        disk.slow()

        def hangs() -> tuple[int, float]:
            return awaited(said_meanwhile(fleet, server, "explain", RUN)["value"]["sentence"])

        entry, first_s = until(lambda: (found := hangs())[0] and found, "explain names the slow write")
        heard = {worker.name: len(worker.heard) for worker in fleet.workers}
        passed = [worker.passed for worker in fleet.workers]
        ends_s = time.monotonic() + LONG_S
        assert fleet.drive(address(server), lambda: time.monotonic() > ends_s)

        again, then_s = hangs()
        assert again == entry, "it is still that one"
        assert then_s > first_s + LONG_S
        (shown,) = said_meanwhile(fleet, server, "status")["value"]["runs"]
        assert awaited(shown["explanation"]["sentence"])[0] == entry
        durable = journal(folder, RUN)
        assert len(durable) == entry - 1, "it is not in the journal yet"
        everything = [said for worker in fleet.workers for said in worker.heard]
        answers = [said.answer for said in everything if isinstance(said, Answered)]
        accepted = [answer.entry for answer in answers if isinstance(answer, Accepted)]
        assert max(accepted) < entry, "a command was acknowledged before its entry"
        generations = [said.value["generation"] for said in everything if is_passage(said)]
        assert max(generations) <= read_account(durable, RUN).released, "a barrier was released before its entry"
        assert [worker.passed for worker in fleet.workers] == passed
        news = [said for worker in fleet.workers for said in worker.heard[heard[worker.name] :]]
        assert [said for said in news if isinstance(said, OF_THE_JOURNAL)] == [], "told before it was durable"

        disk.quick()
        goal = fleet.lowest() + 5
        assert fleet.drive(address(server), lambda: fleet.lowest() >= goal), "it does not go on"
        for worker in fleet.workers:
            worker.resting = True
        assert fleet.drive(address(server), lambda: all(worker.session.idle() for worker in fleet.workers), 20)
        assert server.log("worker lost") == []
        assert server.stop() == 0
    account = read_account(fleet.judge(folder), RUN)
    assert (account.twice, account.aborted, account.terms) == ([], 0, 1)
    assert account.ended == {}, "nobody was given up"
    assert [worker.session.incarnation for worker in fleet.workers] == [1] * 4


def test_workers_that_hear_nothing_while_a_commit_hangs_go_on_where_they_were(tmp_path: Path) -> None:
    """Real processes with the SDK: silence makes them connect anew, and what they asked for is answered once."""
    disk, folder = Disk(tmp_path), tmp_path / "runs"
    with serving(folder, disk) as server:
        quoracy("run", "create", DEMO, server.url, "--set", "barrier_min=3", *BEATS)
        with contextlib.ExitStack() as ends:
            names = ("w1", "w2", "w3")
            started = [Working(tmp_path, server.url, DEMO, name, BARRIERS) for name in names]
            workers = [ends.enter_context(worker) for worker in started]
            until(lambda: all(len(worker.passed) > 20 for worker in workers), "barriers")
            disk.slow()

            def sentence() -> str:
                return str(seen(server.url, "show", DEMO).get("explanation", {}).get("sentence", ""))

            entry = until(lambda: awaited(sentence())[0], "explain names the slow write")
            assert awaited(told(quoracy("explain", DEMO, server.url, "--json"))["value"]["sentence"])[0] == entry
            before = [worker.passed for worker in workers]
            until(lambda: awaited(sentence())[1] > LONG_S, "longer than the patience of a detector")
            durable = journal(folder, DEMO)
            assert len(durable) == entry - 1
            assert passages(workers) <= read_account(durable, DEMO).passages, "a barrier was released before its entry"
            assert [worker.passed for worker in workers] == before
            disk.slow(by_ms=20)
            until(lambda: all(len(worker.passed) > len(before[0]) + 20 for worker in workers), "slow, but it goes on")
            disk.quick()
            assert [worker.process.wait(PATIENCE_S) for worker in workers] == [0, 0, 0]
        assert server.log("worker lost") == []
        assert server.stop() == 0
    account = read_account(journal(folder, DEMO), DEMO)
    every = [(step + 1, step) for step in range(BARRIERS)]
    assert [worker.passed for worker in workers] == [every] * 3, "nothing lost, nothing twice"
    assert account.passages == passages(workers)
    assert (account.twice, account.joined) == ([], {"w1": 1, "w2": 1, "w3": 1})
