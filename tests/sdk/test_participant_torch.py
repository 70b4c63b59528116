"""A torch module as a participant's model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.sdk.federated.arrays import load


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(tmp_path) as running:
        yield running


def module() -> torch.nn.Module:
    """Batch norm has integers among its state; one layer is in bfloat16."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1).bfloat16())


def add_one(model: torch.nn.Module, _task: quoracy.Task) -> tuple[int, dict[str, float]]:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    return 10, {"loss": 0.5}


def take_part(
    coordinator: Coordinator, tmp_path: Path, model: Any, train: Any = add_one, **more: Any
) -> quoracy.Summary:
    return quoracy.participate(
        coordinator.url, train, "run", participant="p1", model=model, cache=tmp_path / "cache", **more
    )


def test_a_module_is_loaded_before_and_read_after_with_every_type_as_it_was(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    coordinator.create("run", "federated", rounds=2)
    model, before = module(), module().state_dict()
    assert take_part(coordinator, tmp_path, model).admitted == 2
    made = load(tmp_path / "objects" / "run" / "blobs" / coordinator.show("run")["weights"])
    assert made.layout["2.weight"][0] == "BF16"
    assert made.layout["1.num_batches_tracked"] == ("I64", ())
    wanted = before["0.weight"].numpy() + np.float32(1) + np.float32(1)
    assert np.allclose(made.arrays["0.weight"], wanted)


class Exotic(torch.nn.Module):
    """Numbers that numpy has no type for, or that are two."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.register_buffer("short", torch.tensor([1.0, 448.0]).to(torch.float8_e4m3fn))
        self.register_buffer("wide", torch.tensor([1.0, 57344.0]).to(torch.float8_e5m2))
        self.register_buffer("turns", torch.tensor([1 + 2j], dtype=torch.complex64))
        self.register_buffer("seed", torch.tensor([2**62 + 1]))


def test_types_that_numpy_does_not_have_come_back_as_they_were(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated", rounds=2)
    model = Exotic()
    assert take_part(coordinator, tmp_path, model).admitted == 2
    made = load(tmp_path / "objects" / "run" / "blobs" / coordinator.show("run")["weights"])
    codes = {name: code for name, (code, _) in made.layout.items()}
    assert codes == {"weight": "F32", "short": "F8_E4M3", "wide": "F8_E5M2", "turns": "C64", "seed": "I64"}
    assert made.arrays["short"].tolist() == [1.0, 448.0]
    assert made.arrays["wide"].tolist() == [1.0, 57344.0]
    assert made.arrays["turns"].tolist() == [1 + 2j]
    assert made.arrays["seed"].tolist() == [2**62 + 1]
    assert model.state_dict()["short"].dtype == torch.float8_e4m3fn


def test_a_module_that_is_not_the_run_s_model_is_told_apart(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated")
    with pytest.raises(quoracy.UnfitUpdate, match="do not fit this module"):
        take_part(coordinator, tmp_path, torch.nn.Linear(2, 2), initial={"other": np.zeros(1, np.float32)})


def test_a_trainer_of_a_module_returns_samples_and_metrics(coordinator: Coordinator, tmp_path: Path) -> None:
    coordinator.create("run", "federated")
    with pytest.raises(quoracy.UnfitUpdate, match=r"return \(samples, metrics\)"):
        take_part(coordinator, tmp_path, torch.nn.Linear(2, 2), train=lambda model, task: 7)
