"""``quoracy federate`` and ``quoracy federated history``, as people start them, with participants elsewhere."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.command import PATIENCE_S, QUORACY, environment, quoracy, told, until

from quoracy.launch import crowds
from quoracy.launch.crowd_process import Wish
from quoracy.learn import mlp, tensors
from quoracy.learn.experiment import EVALUATIONS, SIZES

TASK = f"""
run = "hospital"
label = "digits of six wards"

[task]
clients = 9
rounds = 4
epochs = 1
evaluation = "{EVALUATIONS["digits"]}"
heartbeat_interval_s = 1.0
heartbeat_timeout_s = 10.0
aggregation = {{ rule = "median" }}
"""


class Federating:
    """The verb in a process of its own."""

    def __init__(self, folder: Path, file: Path, *options: object, port: int = 0) -> None:
        command = [*QUORACY, "federate", str(file), "--folder", str(folder), "--port", str(port), "--json"]
        command += map(str, options)
        self.log = folder.parent / f"federate-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment(COLUMNS="200"))
        try:
            self.url = until(self._url, "it says where it listens")
        except BaseException:
            self.kill()
            raise

    def _url(self) -> str:
        assert self.process.poll() is None, self.log.read_text()
        words = [word for word in self.log.read_text().split() if word.startswith("tcp://")]
        return words[0].rstrip(";") if words else ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ended(self) -> tuple[int, dict[str, Any]]:
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, json.loads(out.splitlines()[-1]) if out else {}

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextlib.contextmanager
def federating(folder: Path, file: Path, *options: object, port: int = 0) -> Iterator[Federating]:
    started = Federating(folder, file, *options, port=port)
    try:
        yield started
    finally:
        started.kill()


def wards(url: str, folder: Path, initial: bool = True) -> Wish:
    members = {f"ward-{part}": {"initial": initial} for part in range(6)}
    arguments = {"samples": "digits", "parts": 6}
    return Wish(url, "hospital", members, f"file://{folder}/objects", "quoracy.learn.experiment:make", arguments)


def rounds(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(quoracy("federated", "history", "hospital", url, "--json"))["value"]["rounds"]
    return found


def test_a_task_is_coordinated_to_its_end_across_a_kill(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "task.toml"
    file.write_text(TASK)
    with federating(folder, file, "--clients", 6, "--rounds", 40) as first, crowds(wards(first.url, folder), 1):
        before = until(lambda: rounds(first.url), "a few rounds")
        first.kill()
        with federating(folder, file, "--clients", 6, "--rounds", 40, port=first.port) as second:
            assert "goes on" in second.log.read_text()
            code, last = second.ended()
            assert code == 0, second.log.read_text()
    assert last["value"]["phase"] == "Finished"
    assert last["value"]["rounds"] == 40
    assert last["value"]["here"] == 0
    text = second.log.read_text()
    assert "round   39" in text
    assert all(row["updates"] == 6 for row in before)


def test_what_is_wrong_with_a_task_is_said(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    wrong = {
        "[task": "is no TOML",
        "rnds = 3": "there is no such setting; there are: run, initial, label, task",
        "[task]\nclients = 0": "clients = 0",
        "[task]\naggregation = { rule = 'krum', byzantine = 3 }\nclients = 5": "2 * 3 + 3",
        "[task]\naggregation = { rule = 'krum' }\nclients = 20": "a round may close with 10000",
        "[task]\naggregation = { rule = 'fedprox', mu = 2 }\nhyper = { mu = 5 }": "aggregation.mu = 2 is what counts",
        "initial = 'missing.safetensors'\n[task]\nclients = 1": "cannot be read",
    }
    for text, why in wrong.items():
        file.write_text(text)
        result = quoracy("federate", file, "--folder", tmp_path / "data", "--port", 0)
        assert result.returncode == 2, result.stderr
        assert why in result.stderr.replace("\n", " "), result.stderr


def test_a_run_that_exists_with_other_settings_is_refused_with_both(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "task.toml"
    file.write_text("[task]\nclients = 2\nrounds = 3\n")
    with federating(folder, file) as started:
        started.process.send_signal(signal.SIGTERM)
        started.ended()

    def again(*options: str) -> tuple[int, str]:
        result = quoracy("federate", file, "--folder", folder, "--port", 0, *options)
        return result.returncode, " ".join(result.stderr.split())

    code, said = again("--rounds", "4", "--set", 'aggregation={"rule": "fedavgm"}')
    assert code == 2
    assert "rounds = 4: the run task exists with rounds = 3" in said
    assert "aggregation = {'rule': 'fedavgm'," in said
    assert "exists with aggregation = {'rule': 'fedavg'}" in said
    code, said = again("--set", "aggregation=median")
    assert (code, "aggregation = 'median'" in said) == (2, True), said
    code, said = again("--set", "rounds=-1")
    assert (code, "rounds = -1: a whole number from 1" in said) == (2, True), said


def test_a_task_that_is_finished_says_so_and_one_with_other_settings_is_refused(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "task.toml"
    file.write_text(TASK)
    with (
        federating(folder, file, "--clients", 6, "--rounds", 1) as started,
        crowds(wards(started.url, folder), 1),
    ):
        assert started.ended()[0] == 0, started.log.read_text()
    same = quoracy("federate", file, "--folder", folder, "--port", 0, "--clients", 6, "--rounds", 1)
    assert same.returncode == 0, same.stderr
    assert "task hospital is finished already: the run is over after 1 rounds" in " ".join(same.stdout.split())
    assert "round    0" in same.stdout
    other = quoracy("federate", file, "--folder", folder, "--port", 0, "--clients", 6, "--rounds", 2)
    assert other.returncode == 2
    assert "rounds = 2: the run hospital exists with rounds = 1 and is finished" in " ".join(other.stderr.split())


def test_the_weights_to_begin_with_come_from_a_file(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "task.toml"
    weights = mlp.initial(SIZES["digits"], 5)
    digest = tensors.save(tmp_path / "first.safetensors", weights)
    file.write_text('initial = "first.safetensors"\n' + TASK)
    with (
        federating(folder, file, "--clients", 6, "--rounds", 2) as started,
        crowds(wards(started.url, folder, initial=False), 1),
    ):
        code, last = started.ended()
    assert code == 0, started.log.read_text()
    assert (folder / "objects" / "hospital" / "0" / "global").samefile(folder / f"objects/hospital/blobs/{digest}")
    assert [row["round"] for row in last["value"]["history"]] == [0, 1]


def test_one_that_is_told_to_stop_says_that_it_is_not_over(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_text(TASK)
    with federating(tmp_path / "data", file) as started:
        started.process.send_signal(signal.SIGTERM)
        code, _ = started.ended()
    assert code == 7
    assert "it goes on where it was" in started.log.read_text()


def test_the_history_as_a_table_and_as_pictures(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "task.toml"
    file.write_text(TASK)
    with federating(folder, file, "--clients", 6, "--rounds", 500) as started, crowds(wards(started.url, folder), 1):
        until(lambda: any(row["evaluation"] for row in rounds(started.url)), "a round that was evaluated")
        table = quoracy("federated", "history", "hospital", started.url, "--plot", tmp_path / "curves.html")
        named = quoracy("federated", "history", "hospital", started.url, "--drawn")
        picture = quoracy("federated", "history", "hospital", started.url, "--plot", tmp_path / "curves.svg")
        nowhere = quoracy("federated", "history", "hospital", started.url, "--plot", "/nowhere/curves.svg")
        stopped = quoracy("run", "stop", "hospital", started.url, "--reason", "enough")
        assert stopped.returncode == 0, stopped.stderr
        code, last = started.ended()
    assert "accuracy" in table.stdout
    everybody = ", ".join(f"ward-{part}" for part in range(6))
    assert f"round    0  6 drawn: {everybody}" in named.stdout
    assert "drawn" not in table.stdout
    assert table.returncode == picture.returncode == 0
    assert "<svg" in (tmp_path / "curves.html").read_text()
    assert (tmp_path / "curves.svg").read_text().startswith("<svg")
    assert nowhere.returncode == 2
    assert "cannot be written" in nowhere.stderr
    assert code == 1
    assert last["value"]["phase"] == "Stopped"
