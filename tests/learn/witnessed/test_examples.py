"""The examples learn, in processes of their own, and are as short as they should be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quoracy.learn.mlp import ONE_THREAD

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["witnessed_numpy.py", "witnessed_torch.py"])
def test_four_together_learn_what_one_learns_alone(name: str) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(
        command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=110, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = re.fullmatch(r"alone (\S+)\nfour together (\S+) model [0-9a-f]{16}\n", done.stdout)
    assert found is not None, done.stdout
    single, crew = float(found[1]), float(found[2])
    assert single > 0.93
    assert crew >= single - 0.01


def test_an_own_model_takes_less_than_sixty_lines() -> None:
    assert len((EXAMPLES / "witnessed_numpy.py").read_text().splitlines()) < 60


def test_the_examples_are_trainers_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from quoracy.learn.witnessed.opening import open_trainer
    from quoracy.learn.witnessed.trainer import RunTask

    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("witnessed_numpy", "witnessed_torch"):
        trainer = open_trainer(f"{name}:Trainer", RunTask())
        trainer.load(None)
        assert trainer.train([0]).samples == 32
