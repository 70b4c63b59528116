"""``quoracy federated``: what it refuses before anything is started."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest

from quoracy.learn.experiment import Lie


def quoracy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from quoracy.cli import main; main()", "federated", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--participants", "4", "--per-round", "5"], "--per-round = 5: at most --participants (4), or 0 for all"),
        (["--participants", "4"], "--per-round = 20: at most --participants (4), or 0 for all"),
        (["--lie", "white"], f"--lie = 'white': one of: {', '.join(get_args(Lie))}"),
    ],
)
def test_a_task_that_cannot_be_is_refused_with_what_can(options: list[str], said: str) -> None:
    refused = quoracy("task", "digits", "--rounds", "1", *options)
    assert refused.returncode == 2
    assert said in " ".join(refused.stderr.split())


def test_a_task_that_nobody_knows_is_refused_with_those_there_are() -> None:
    refused = quoracy("task", "mnist")
    assert refused.returncode == 2
    assert "TASK = 'mnist': one of: fashion-mnist, digits" in " ".join(refused.stderr.split())


def test_as_many_in_a_round_as_there_are_is_no_mistake() -> None:
    done = quoracy("task", "digits", "--participants", "2", "--per-round", "2", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert '"updates":2' in done.stdout
