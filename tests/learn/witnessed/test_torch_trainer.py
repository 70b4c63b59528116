"""A torch module among members: its gradients are torch's, its steps everybody's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.manifest import model_hash
from quoracy.learn.witnessed.rehearsal import Together, rounds_of
from quoracy.learn.witnessed.results import layout_of
from quoracy.learn.witnessed.source import digits_source
from quoracy.learn.witnessed.torch_trainer import TorchTrainer
from quoracy.learn.witnessed.trainer import RunTask

TASK = RunTask(seed=3, batch_size=8, hyper={"lr": 0.1, "momentum": 0.9})


def loss(module: Any, samples: dict[str, Any]) -> Any:
    return cross_entropy(module(samples["x"]), samples["y"])


def network(*more: Any) -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(64, 16), *more, torch.nn.ReLU(), torch.nn.Linear(16, 10))


def make(task: RunTask, *more: Any, **settings: Any) -> TorchTrainer:
    source = digits_source(task.seed, task.batch_size)
    return TorchTrainer(task, network(*more), loss, source=source, **settings)


def started(*more: Any, **settings: Any) -> TorchTrainer:
    trainer = make(TASK, *more, **settings)
    trainer.load(None)
    return trainer


def test_a_result_is_torch_s_own_gradient() -> None:
    trainer = started()
    made = trainer.train(range(40))  # more than are on the device at once
    module = network()
    samples = digits_source(3, 8).samples(range(40))
    value = loss(module, {name: torch.from_numpy(array) for name, array in samples.items()})
    value.backward()
    assert made.samples == 320
    assert made.loss == pytest.approx(value.item(), rel=1e-5)
    for name, parameter in module.named_parameters():
        assert made.arrays[name] == pytest.approx(parameter.grad.numpy(), abs=1e-6)


def test_members_with_one_model_train_as_torch_alone_would() -> None:
    crew = Together(make, TASK, 3)
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    source = digits_source(3, 8)
    for batches in rounds_of(0, 10, 6):
        crew.round(batches)
        optimizer.zero_grad()
        loss(module, {name: torch.from_numpy(array) for name, array in source.samples(batches).items()}).backward()
        optimizer.step()
    crew.join()
    for name, parameter in module.named_parameters():
        assert crew.members[-1].weights()[name] == pytest.approx(parameter.detach().numpy(), abs=1e-5)


def test_the_module_is_what_the_weights_say() -> None:
    trainer = started()
    other = {name: array + np.float32(1) for name, array in trainer.weights().items()}
    trainer.load(other)
    for name, parameter in trainer.module.named_parameters():
        assert np.array_equal(parameter.detach().numpy(), other[name])
    trainer.apply([trainer.train([0])])
    for name, parameter in trainer.module.named_parameters():
        assert np.array_equal(parameter.detach().numpy(), trainer.weights()[name])
        assert not np.array_equal(parameter.detach().numpy(), other[name])
    trainer.load(None)
    assert model_hash(trainer.weights()) == model_hash(started().weights())


class Scaled(torch.nn.Module):  # type: ignore[misc]
    """With a buffer that training leaves alone, and a parameter that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(16))
        self.unused = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> Any:
        return x * self.scale


def test_buffers_are_part_of_the_model_and_not_of_results() -> None:
    trainer = started(Scaled())
    assert "buffer/1.scale" in trainer.weights()
    assert "buffer/1.scale" not in layout_of(trainer.weights())
    trainer.load({**trainer.weights(), "buffer/1.scale": np.full(16, 5, np.float32)})
    scale: Any = trainer.module[1].scale
    assert scale.tolist() == [5.0] * 16
    made = trainer.train([0])
    assert made.arrays["1.unused"].tolist() == [0.0, 0.0]
    trainer.apply([made])
    assert trainer.weights()["1.unused"].tolist() == [1.0, 1.0]


def test_a_buffer_that_training_changes_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"module = '1\.running_mean': training changes this buffer"):
        started(torch.nn.BatchNorm1d(16)).train([0])
    assert started(torch.nn.BatchNorm1d(16, track_running_stats=False)).train([0]).samples == 8


def test_samples_that_are_held_out_are_evaluated_without_training() -> None:
    seen: list[bool] = []

    def evaluate(module: Any, samples: dict[str, Any]) -> dict[str, Any]:
        seen.append(module.training or torch.is_grad_enabled())
        return {"count": torch.tensor(len(samples["y"]))}

    assert started(evaluate=evaluate).evaluate() == {"count": 355.0}
    assert seen == [False]
    assert started().evaluate() == {}


def test_a_device_is_chosen_by_the_task_or_the_trainer() -> None:
    assert started().device.type == "cpu"
    trainer = make(RunTask(device="meta"))
    assert trainer.device.type == "meta"
    assert next(trainer.module.parameters()).is_meta
    assert make(RunTask(device="meta"), device="cpu").device.type == "cpu"


@pytest.mark.parametrize("device", ["toaster", "cpu:x", "cuda:99"])
def test_a_device_that_is_not_there_is_named(device: str) -> None:
    with pytest.raises(ConfigError, match=f"device = '{device}': cannot be used here"):
        make(RunTask(device=device))


def test_what_cannot_be_trained_bit_for_bit_is_named() -> None:
    source = digits_source(0, 8)
    with pytest.raises(ConfigError, match=r"weight = 'torch\.bfloat16': parameters of float32"):
        TorchTrainer(TASK, torch.nn.Linear(1, 1).bfloat16(), loss, source=source)
    halved = torch.nn.Linear(1, 1)
    halved.register_buffer("short", torch.ones(1, dtype=torch.bfloat16))
    with pytest.raises(ConfigError, match=r"short = 'torch\.bfloat16'"):
        TorchTrainer(TASK, halved, loss, source=source)
    stranger: Any = "a module"
    with pytest.raises(ConfigError, match=r"module = 'str': a torch\.nn\.Module"):
        TorchTrainer(TASK, stranger, loss, source=source)
    with pytest.raises(ConfigError, match="source = None"):
        TorchTrainer(TASK, torch.nn.Linear(1, 1), loss)
