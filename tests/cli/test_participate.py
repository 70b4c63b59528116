"""``quoracy participate`` as people and scripts use it, against a real coordinator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.live import PATIENCE_S, wait_for

from quoracy.coordinator import Coordinator
from quoracy.core.errors import CATALOG, ConfigError
from quoracy.learn import mlp
from quoracy.learn.digits import load
from quoracy.learn.trainers import digits, initial, parse_part, samples_of
from quoracy.sdk.federated.arrays import load as load_weights

MAIN = "from quoracy.cli import main; main()"
TRAINER = """
import numpy as np

def initial():
    return {"a": np.zeros(2, np.float32)}

def train(weights, task):
    assert task.dataset == "somewhere"
    weights["a"] += 1
    return weights, 5, {"loss": 0.25}

def takes_data(weights, task, data):
    assert data == task.dataset
    return train(weights, task)

def waits(weights, task):
    import time
    while not task.dropped():
        time.sleep(0.01)
    return train(weights, task)

number = 7
"""


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    (tmp_path / "ward.py").write_text(TRAINER)
    with Coordinator(tmp_path / "served") as running:
        yield running


def command(coordinator: Coordinator, *arguments: str) -> list[str]:
    return [sys.executable, "-c", MAIN, "participate", coordinator.url, *arguments]


def begun(coordinator: Coordinator, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    env = os.environ | {"XDG_CACHE_HOME": str(folder), "XDG_STATE_HOME": str(folder), "PYTHONWARNINGS": "error"}
    return subprocess.Popen(
        command(coordinator, *arguments), cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ended(coordinator: Coordinator, folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = begun(coordinator, folder, *arguments)
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    return process.returncode, out, err


def test_each_round_is_one_line_and_the_last_says_how_it_went(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated", rounds=2)
    code, out, err = ended(
        coordinator,
        tmp_path,
        "--run",
        "run",
        "--trainer",
        "ward:takes_data",
        "--data",
        "somewhere",
        "--id",
        "p1",
        "--initial",
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines == [
        "p1 takes part in run",
        "initial weights  admitted",
        "round    0  5 samples  loss 0.25  admitted",
        "round    1  5 samples  loss 0.25  admitted",
        "p1: 2 updates of 2 rounds trained count; finished: all rounds",
    ]


def test_json_ends_with_one_object(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated", rounds=1)
    arguments = ("--run", "run", "--trainer", "ward:train", "--data", "somewhere", "--id", "p1", "--initial", "--json")
    code, out, err = ended(coordinator, tmp_path, *arguments)
    said = json.loads(out.splitlines()[-1])
    assert (code, len(out.splitlines())) == (0, 1)
    assert said == {
        "command": "participate",
        "ok": True,
        "value": {
            "run": "run", "participant": "p1", "trained": 1, "admitted": 1, "refused": [], "ended": "finished",
            "reason": "all rounds",
        },
    }  # fmt: skip
    assert "round    0" in err, "people still see it"


@pytest.mark.parametrize(
    ("trainer", "more", "named"),
    [
        ("", [], "write --trainer MODULE:FUNCTION"),
        ("ward", [], "write --trainer MODULE:FUNCTION"),
        ("nowhere:train", [], "cannot be imported"),
        ("ward:absent", [], "has no function 'absent'"),
        ("ward:number", [], "has no function 'number'"),
        ("json:dumps", ["--initial"], "write a function initial()"),
        ("ward:train", ["--weights", "pigeon"], "one of: auto, store, http"),
    ],
)
def test_a_wrong_trainer_is_named_with_what_would_do(
    coordinator: Coordinator, tmp_path: Path, trainer: str, more: list[str], named: str
) -> None:
    code, out, err = ended(coordinator, tmp_path, "--run", "run", "--trainer", trainer, "--json", *more)
    assert code == CATALOG["config"].exit
    assert named in err.replace("\n", " ")
    assert json.loads(out.splitlines()[-1])["error"]["code"] == "config"


def test_a_coordinator_that_is_not_there_is_given_up_with_the_catalog_s_exit_code(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    arguments = (
        "participate",
        "tcp://127.0.0.1:9",
        "--run",
        "r",
        "--trainer",
        "digits",
        "--give-up",
        "0.2",
        "--id",
        "p1",
    )
    result = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert result.returncode == CATALOG["unreachable"].exit
    assert "what to do" in result.stderr


def test_a_superseded_participant_says_so_with_its_exit_code(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated", clients=2)
    arguments = ("--run", "run", "--trainer", "ward:train", "--id", "p1")
    one = begun(coordinator, tmp_path, *arguments)
    wait_for(lambda: _state(coordinator) == "Waiting", "it has joined")
    two = begun(coordinator, tmp_path, *arguments)
    out, _ = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == CATALOG["superseded"].exit
    assert "superseded: incarnation 1 of p1" in out
    two.send_signal(signal.SIGTERM)
    out, _ = two.communicate(timeout=PATIENCE_S)
    assert two.returncode == 0
    assert "drained" in out
    assert _state(coordinator) == "Left"


def _state(coordinator: Coordinator) -> str:
    found = coordinator.show("run")["participants"]
    return str(found[0]["state"]) if found else ""


# -- the trainers that come with it --------------------------------------------------------------------------------


def test_three_participants_learn_digits_by_name(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated", clients=3, rounds=4, epochs=2, hyper={"lr": 0.2})
    arguments = [("--data", f"digits:{n}/3", "--id", f"p{n}") for n in (1, 2, 3)]
    crew = [
        begun(coordinator, tmp_path, "--run", "run", "--trainer", "digits", "--initial", *more) for more in arguments
    ]
    try:
        for process in crew:
            _, err = process.communicate(timeout=2 * PATIENCE_S)
            assert (process.returncode, err) == (0, "")
    finally:
        for process in crew:
            process.kill()
    digest = coordinator.show("run")["weights"]
    model = load_weights(tmp_path / "served" / "objects" / "run" / "blobs" / digest).arrays
    before, after = (mlp.evaluate(weights, *load("test"))["accuracy"] for weights in (initial("digits")(), model))
    assert after > 0.8 > 0.5 > before


class Asked:
    dataset, epochs, epoch_base, hyper = "digits:classes:2:4/10", 2, 0, {"lr": 0.1}

    def __init__(self) -> None:
        self.epochs_told: list[tuple[int, Any]] = []

    def epoch(self, number: int, **metrics: Any) -> None:
        self.epochs_told.append((number, metrics))


def test_a_trainer_tells_every_epoch_and_how_many_samples_it_has() -> None:
    task = Asked()
    weights, samples, metrics = digits(initial("digits")(), task)
    assert [number for number, _ in task.epochs_told] == [0, 1]
    assert metrics["loss"] == task.epochs_told[-1][1]["loss"]
    x, y = samples_of(parse_part(task.dataset, "digits"))
    assert (samples, len(set(y.tolist()))) == (len(x), 2)
    assert weights.keys() == initial("digits")().keys()


def test_the_parts_of_all_participants_are_the_whole_set() -> None:
    parts = [samples_of(parse_part(f"digits:{number}/10", "digits")) for number in range(1, 11)]
    assert sum(len(x) for x, _ in parts) == len(load("train")[0])


@pytest.mark.parametrize(
    "text", ["", "digits", "digits:0/3", "digits:4/3", "fashion:1/3", "digits:odd:1/3", "digits:1/3x", None, 7]
)
def test_a_part_that_is_none_is_refused_with_what_to_write(text: Any) -> None:
    with pytest.raises(ConfigError):
        parse_part(text, "digits")
