"""Trainers by name, and whether a trainer is fit: tried as members in one process."""

from __future__ import annotations

import runpy
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.gradient import GradientTrainer
from quoracy.learn.witnessed.manifest import BadModel, model_hash
from quoracy.learn.witnessed.nothing import Nothing
from quoracy.learn.witnessed.opening import SHORT, find_trainer, open_trainer
from quoracy.learn.witnessed.rehearsal import Together, alone, rounds_of, together
from quoracy.learn.witnessed.results import BadResult
from quoracy.learn.witnessed.trainer import Result, RunTask, Weights

TARGET = np.array([1, -2, 3], np.float32)


class Line(GradientTrainer):
    """Learns three numbers. What ``spoil`` says, it does wrong."""

    spoil = ""
    made = 0

    def __init__(self, task: RunTask) -> None:
        super().__init__(task)
        Line.made += 1
        self.number = Line.made

    def initial(self) -> Weights:
        return {"w": np.full(3, self.number if self.spoil == "initial" else 0, np.float32)}

    def train(self, batch_ids: Sequence[int]) -> Result:
        slope = self.model["w"] - TARGET
        if self.spoil == "train":
            self.model["w"][0] += 1
        if self.spoil == "shape":
            slope = slope[:2]
        return Result({"w": slope}, len(batch_ids) * self.task.batch_size, float(np.abs(slope).sum()))

    def apply(self, results: Iterable[Result]) -> None:
        super().apply(results)
        if self.spoil == "apply":
            self.model["w"][0] += np.float32(self.number * 1e-6)


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda what: monkeypatch.setattr(Line, "spoil", what)


# -- tried without a run -------------------------------------------------------------------------------------------


def test_a_fit_trainer_learns_together_what_it_learns_alone() -> None:
    task = RunTask(hyper={"lr": 0.1, "momentum": 0.5})
    rounds = rounds_of(0, count=100, size=5)
    figures, model = together(Line, task, rounds, members=3)
    assert figures == alone(Line, task, rounds) == {}
    assert together(Line, task, rounds, members=3)[1] == model
    crew = Together(Line, task, 2)
    for batches in rounds:
        crew.round(batches)
    assert crew.members[1].weights()["w"] == pytest.approx(TARGET, abs=1e-4)


def test_one_that_comes_in_the_middle_goes_on_with_the_others() -> None:
    crew = Together(Line, RunTask(), 2)
    crew.round([0, 1, 2, 3])
    crew.join()
    crew.round([4, 5, 6])
    assert len({model_hash(trainer.weights()) for trainer in crew.members}) == 1
    assert crew.step == 2


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("initial", BadModel, "tensor 'w' is F32"),
        ("apply", BadModel, "tensor 'w' is F32"),
        ("train", ConfigError, "training a batch changes the model"),
        ("shape", BadResult, "tensor 'w' has shape"),
    ],
)
def test_a_trainer_that_is_not_fit_is_found_out(
    spoil: Callable[[str], None], what: str, error: type[Exception], said: str
) -> None:
    spoil(what)
    with pytest.raises(error, match=said):
        together(Line, RunTask(), rounds_of(0, 2, 4), members=2)


def test_when_all_train_into_the_model_alike_it_is_found_out_too(spoil: Callable[[str], None]) -> None:
    spoil("train")
    with pytest.raises(ConfigError, match="only apply may"):
        together(Line, RunTask(), rounds_of(0, 1, 1), members=1)


def test_somebody_has_to_be_there() -> None:
    with pytest.raises(ConfigError, match="members = 0"):
        Together(Line, RunTask(), 0)


# -- nothing -------------------------------------------------------------------------------------------------------


def test_a_trainer_of_nothing_counts_results() -> None:
    crew = Together(Nothing, RunTask(), 3)
    models = {crew.model}
    for batches in rounds_of(0, 4, 3):
        crew.round(batches)
        models.add(crew.model)
    assert crew.members[0].weights()["nothing"].tolist() == [12.0] * 8
    assert len(models) == 5
    crew.join()
    crew.members[0].load(None)
    assert crew.members[0].weights()["nothing"].tolist() == [0.0] * 8
    assert crew.members[0].evaluate() == {}


def test_a_trainer_of_nothing_is_as_large_as_one_wants() -> None:
    large = Together(Nothing, RunTask(hyper={"size": 1000}), 1)
    large.round([0])
    assert large.sent_bytes > 4000
    with pytest.raises(ConfigError, match="one tensor 'nothing' of 8 numbers"):
        Nothing(RunTask()).load(large.members[0].weights())


@pytest.mark.parametrize("size", [0, 1.5, "8", True, float("nan")])
def test_a_size_of_nothing_is_a_whole_number(size: Any) -> None:
    with pytest.raises(ConfigError, match=r"hyper\.size"):
        Nothing(RunTask(hyper={"size": size}))


# -- by name -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT)
def test_what_comes_along_is_found_by_its_own_name(name: str) -> None:
    trainer = open_trainer(name, RunTask())
    trainer.load(None)
    assert trainer.weights()


def test_a_trainer_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_mine.py").write_text("from quoracy.learn.witnessed.nothing import Nothing as Trainer\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert isinstance(open_trainer("of_mine:Trainer", RunTask()), Nothing)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "write MODULE:TRAINER"),
        ("cats", "digits, fashion, nothing"),
        ("mine:", "write MODULE:TRAINER"),
        ("nowhere_at_all:Trainer", "cannot be imported"),
        ("quoracy.learn.witnessed.nothing:Everything", "no class or function 'Everything'"),
        ("quoracy.learn.witnessed.nothing:SIZE", "no class or function 'SIZE'"),
        ("quoracy.learn.witnessed.trainer:Samples", "is a dict without load, train, apply, weights, evaluate"),
    ],
)
def test_a_trainer_that_is_none_is_named(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    task: Any = {} if name.endswith(":Samples") else RunTask()
    with pytest.raises(ConfigError, match=said):
        open_trainer(name, task)


def test_a_trainer_that_needs_torch_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(Path(__file__).parents[3] / "examples" / "witnessed_torch.py", tmp_path / "needs_torch.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install torch=="):
        find_trainer("needs_torch:Trainer")
    with pytest.raises(ModuleNotFoundError, match=r"pip install torch=="):
        runpy.run_path(str(tmp_path / "needs_torch.py"))
