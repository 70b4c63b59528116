"""One step along the mean of the results: as the formulas say, and as other optimizers do it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.learn.witnessed.some import SHAPES, numbers, result, same, turned, weights

from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.learn.header import BadTensors
from quoracy.learn.witnessed.apply import Descent
from quoracy.learn.witnessed.manifest import model_hash
from quoracy.learn.witnessed.trainer import Result, Weights


def started(hyper: dict[str, Any], model: Weights | None = None) -> Descent:
    descent = Descent(hyper)
    descent.load(weights() if model is None else model)
    return descent


def one(*values: float) -> Any:
    return np.array(values, np.float32)


# -- the mean ------------------------------------------------------------------------------------------------------


def test_results_are_weighed_by_their_samples() -> None:
    descent = started({"lr": 1.0, "momentum": 0.0}, {"a": one(0, 0)})
    descent.apply([Result({"a": one(1, 8)}, 30), Result({"a": one(5, 0)}, 10)])
    assert descent.weights()["a"].tolist() == [-2, -6]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
def test_the_mean_is_as_exact_as_double_precision(samples: list[int]) -> None:
    descent = started({"lr": 1.0, "momentum": 0.0}, {"a": np.zeros(50, np.float32)})
    parts = [numbers(seed, 50) for seed in range(len(samples))]
    descent.apply(Result({"a": part}, count) for part, count in zip(parts, samples, strict=True))
    exact: Any = sum(part.astype(np.longdouble) * count for part, count in zip(parts, samples, strict=True)) / sum(
        samples
    )
    assert -descent.weights()["a"] == pytest.approx(exact.astype(np.float64), rel=1e-7, abs=1e-12)


def test_the_largest_numbers_have_a_mean() -> None:
    top = float(np.finfo(np.float32).max)
    descent = started({"lr": 1.0, "momentum": 0.0}, {"a": one(0)})
    descent.apply([Result({"a": one(top)}, 10**6)] * 3)
    assert descent.weights()["a"].tolist() == [-top]


def test_one_member_with_all_samples_takes_the_step_of_many_with_some() -> None:
    whole, parts = started({}), started({})
    gradients = [weights(seed) for seed in (5, 6, 7, 8)]
    mean: dict[str, Any] = {name: sum(one[name].astype(np.float64) for one in gradients) / 4 for name in SHAPES}
    whole.apply([Result(mean, 40)])
    parts.apply(Result(gradient, 10) for gradient in gradients)
    for name in SHAPES:
        assert whole.weights()[name] == pytest.approx(parts.weights()[name], abs=1e-7)


def test_no_results_are_no_step() -> None:
    for hyper in ({}, {"optimizer": "adam"}):
        descent = started(hyper)
        descent.apply([result()])
        before = model_hash(descent.weights())
        descent.apply([])
        assert model_hash(descent.weights()) == before


@pytest.mark.parametrize(
    ("spoiled", "said"),
    [
        (Result({**weights(), "b": one(1, 2)}, 24), "result 1: tensor 'b' has shape"),
        (Result({**weights(), "z": one(1)}, 24), "result 1: tensor 'z' is not in the model"),
        (
            Result({name: array for name, array in weights().items() if name != "c"}, 24),
            "result 1: tensor 'c' is missing",
        ),
        (Result(weights(), 0), "samples = 0"),
    ],
)
def test_a_result_that_does_not_fit_is_named_and_changes_nothing(spoiled: Result, said: str) -> None:
    descent = started({})
    before = model_hash(descent.weights())
    with pytest.raises((BadTensors, ConfigError), match=said):
        descent.apply([result(), spoiled])
    assert model_hash(descent.weights()) == before


# -- the step ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hyper", "twin"),
    [
        ({"lr": 0.1, "momentum": 0.0}, lambda p: torch.optim.SGD(p, lr=0.1)),
        ({"lr": 0.1, "momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
        ({"optimizer": "adam"}, lambda p: torch.optim.Adam(p)),
        (
            {"optimizer": "adam", "lr": 0.02, "beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-3},
            lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3),
        ),
    ],
)
@pytest.mark.parametrize("double", [False, True])
def test_a_step_is_that_of_torch_s_optimizers(hyper: dict[str, Any], twin: Any, double: bool) -> None:
    model = {name: array.astype(np.float64 if double else np.float32) for name, array in weights().items()}
    descent = started(hyper, model)
    parameters = {name: torch.nn.Parameter(torch.from_numpy(array.copy())) for name, array in model.items()}
    optimizer = twin(list(parameters.values()))
    for number in range(5):
        made = result(seed=50 + 10 * number)
        for name, parameter in parameters.items():
            parameter.grad = torch.from_numpy(made.arrays[name]).to(parameter.dtype)
        optimizer.step()
        descent.apply([made])
    for name, parameter in parameters.items():
        found = descent.weights()[name]
        assert found.dtype == model[name].dtype
        assert found == pytest.approx(parameter.detach().numpy(), abs=1e-12 if double else 2e-6)
        assert not np.array_equal(found, model[name])


def test_a_gradient_is_clipped_element_by_element() -> None:
    descent = started({"lr": 1.0, "momentum": 0.0, "clip": 0.5}, {"a": one(0, 0, 0, 0)})
    descent.apply([Result({"a": one(2, -2, 0.25, -1e38)}, 1)])
    assert descent.weights()["a"].tolist() == [-0.5, 0.5, -0.25, 0.5]


def test_a_model_that_runs_away_does_so_without_a_word() -> None:
    """A warning would be an error here. Everybody's model runs away alike, and the loss says so."""
    for hyper in ({"lr": 1e38}, {"optimizer": "adam", "lr": 1e38}):
        descent = started(hyper, {"a": one(1e38)})
        for _ in range(3):
            descent.apply([Result({"a": one(-3e38)}, 1)])
        assert not np.isfinite(descent.weights()["a"]).all()


# -- what is kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hyper", [{}, {"optimizer": "adam"}, {"momentum": 0.0}])
def test_whoever_loads_what_another_has_goes_on_as_the_other_does(hyper: dict[str, Any]) -> None:
    first = started(hyper)
    first.apply([result(1)])
    second = started(hyper, {name: array.copy() for name, array in first.weights().items()})
    for descent in (first, second):
        descent.apply([result(2), result(3)])
    assert same(first.weights(), second.weights())


@pytest.mark.parametrize(("hyper", "kept"), [({}, ["momentum"]), ({"optimizer": "adam"}, ["first", "second"])])
def test_the_optimizer_s_memory_is_part_of_the_model(hyper: dict[str, Any], kept: list[str]) -> None:
    descent = started(hyper)
    fresh = model_hash(descent.weights())
    model = descent.weights()
    for name, array in weights().items():
        for memory in kept:
            assert model[f"optimizer/{memory}/{name}"].shape == array.shape
    descent.apply([result()])
    forgetful = started(
        hyper, {name: array for name, array in descent.weights().items() if "/" not in name or name == "deep/d"}
    )
    assert same({n: forgetful.weights()[n] for n in SHAPES}, {n: descent.weights()[n] for n in SHAPES})
    assert len({fresh, model_hash(descent.weights()), model_hash(forgetful.weights())}) == 3


def test_what_was_given_is_not_changed_and_may_lie_anywhere() -> None:
    given = turned(weights())
    for array in given.values():
        array.flags.writeable = False
    descent = started({}, given)
    descent.apply([result()])
    assert same(given, weights())
    plain = started({})
    plain.apply([result()])
    assert same(descent.weights(), plain.weights())


def test_buffers_are_carried_along() -> None:
    descent = started({}, {"a": one(1), "buffer/count": np.array([7], np.int64)})
    descent.apply([Result({"a": one(1)}, 1)])
    assert descent.weights()["buffer/count"].tolist() == [7]


def test_the_memory_of_another_optimizer_is_refused() -> None:
    adam = started({"optimizer": "adam"}).weights()
    with pytest.raises(ConfigError, match=r"tensor 'first/a' is not in the model.*the same hyper-parameters"):
        started({}, adam)


def test_whole_numbers_are_not_trained() -> None:
    with pytest.raises(ConfigError, match="a = 'int64': tensors that are trained are of float32 or float64"):
        started({}, {"a": np.ones(1, np.int64)})


def test_all_wrong_settings_are_named_at_once() -> None:
    wrong = {"optimizer": "lion", "lr": 0, "momentum": 1, "beta_1": -0.1, "epsilon": "small", "clip": float("inf")}
    with pytest.raises(ConfigErrors) as caught:
        Descent(wrong)
    named = [problem.field for problem in caught.value.problems]
    assert named == [f"hyper.{name}" for name in ("optimizer", "lr", "momentum", "beta_1", "epsilon", "clip")]
