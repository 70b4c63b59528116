"""Members that know nothing of Quoracy but witnessed.proto: whole runs in processes of their own, as the page shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.doors.grpc.strangers import ROOT, free_port, generated
from tests.e2e.command import PATIENCE_S, Serving, quoracy, told, until

RUN = "sums"
STEPS = 12
SETTINGS = {
    "total_steps": STEPS, "rounds_per_epoch": 6, "checkpoint": "none", "waiting_extra_s": 0, "min_clients": 3,
    "witness_nodes": 2, "heartbeat_interval_s": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(tmp_path_factory.mktemp("strangers") / "made", "witnessed")


class Stranger:
    """``examples/grpc_member.py``, on its way."""

    def __init__(self, made: Path, port: int, name: str) -> None:
        self._out = made.parent / f"steps-{name}-{os.urandom(4).hex()}"
        self._err = self._out.with_suffix(".err")
        command = [sys.executable, str(ROOT / "examples" / "grpc_member.py"), f"127.0.0.1:{port}", RUN, name]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            environment = {**os.environ, "PYTHONPATH": str(made)}
            self.process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    @property
    def steps(self) -> list[tuple[int, int]]:
        """Each step, and the model after it."""
        lines = [json.loads(line) for line in self._out.read_text().split("\n")[:-1]]
        return [(line["step"], line["model"]) for line in lines]

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        assert code == 0, self._err.read_text()
        return code


@contextmanager
def strangers(made: Path, port: int) -> Iterator[list[Stranger]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Stranger(made, port, f"m{i}")) for i in (1, 2, 3)]


def serve(folder: Path, grpc: int, http: int) -> Serving:
    config = folder.parent / "quoracy.toml"
    config.write_text(f"[grpc]\nport = {grpc}\n[http]\nport = {http}\n")
    return Serving(folder, "--config", config)


def create(url: str) -> None:
    options = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    created = quoracy("run", "create", RUN, url, "--kind", "witnessed", *options)
    assert created.returncode == 0, created.stderr


def check(url: str, members: list[Stranger]) -> None:
    """Each applied every batch of every round, once and in step with the others."""
    shown = told(quoracy("run", "show", RUN, url, "--json"))["value"]
    assert (shown["phase"], shown["step"]) == ("Finished", STEPS)
    account = shown["account"]
    assert (account["applied"], account["skipped"], account["waiting"]) == (shown["next_batch"], 0, 0)
    assert members[0].steps[-1] == (STEPS, sum(range(shown["next_batch"])))
    assert members[0].steps == members[1].steps == members[2].steps


def test_strangers_train_a_whole_run(tmp_path: Path, made: Path) -> None:
    port = free_port()
    with serve(tmp_path / "data", port, free_port()) as server:
        create(server.url)
        with strangers(made, port) as members:
            for member in members:
                member.ended()
            check(server.url, members)


def test_a_coordinator_that_is_killed_and_started_again_costs_no_batch(tmp_path: Path, made: Path) -> None:
    grpc, http = free_port(), free_port()
    with serve(tmp_path / "data", grpc, http) as first:
        create(first.url)
        with strangers(made, grpc) as members:
            until(lambda: all(len(member.steps) >= 3 for member in members), "a few steps")
            first.kill()
            with serve(tmp_path / "data", grpc, http) as second:
                for member in members:
                    member.ended()
                check(second.url, members)
