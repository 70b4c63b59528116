"""The perceptron: its slopes are those of its loss, a step is what the formula says, and bits repeat."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from quoracy.core.errors import ConfigError
from quoracy.learn import digits, mlp
from quoracy.learn.draws import TRAIN, order
from quoracy.learn.mlp import Weights, central, evaluate, initial, train

SIZES = (6, 5, 4, 3)


def samples(count: int = 20) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(1)
    return rng.random((count, SIZES[0]), dtype=np.float32), rng.integers(0, SIZES[-1], count)


def bits(weights: Weights) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in weights.items()}


def changed(before: Weights, after: Weights) -> dict[str, npt.NDArray[Any]]:
    return {name: before[name].astype(np.float64) - after[name] for name in before}


def doubled(weights: Weights, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    """The mean loss again, in double precision and as plainly as it can be written."""
    values = x.astype(np.float64)
    layers = len(weights) // 2
    for layer in range(1, layers + 1):
        values = values @ weights[f"dense_{layer}.weight"] + weights[f"dense_{layer}.bias"]
        if layer < layers:
            values = np.where(values > 0, values, 0)
    shares = np.exp(values) / np.exp(values).sum(axis=1)[:, None]
    return float(np.mean([-np.log(share[wanted]) for share, wanted in zip(shares, y, strict=True)]))


def slopes(weights: Weights, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> dict[str, npt.NDArray[np.float64]]:
    """By finite differences, parameter after parameter."""
    exact: dict[str, Any] = {name: tensor.astype(np.float64) for name, tensor in weights.items()}
    found = {name: np.zeros(tensor.shape) for name, tensor in exact.items()}
    for name, tensor in exact.items():
        for at in np.ndindex(tensor.shape):
            kept = tensor[at]
            tensor[at] = kept + 1e-5
            above = doubled(exact, x, y)
            tensor[at] = kept - 1e-5
            found[name][at] = (above - doubled(exact, x, y)) / 2e-5
            tensor[at] = kept
    return found


# -- the model -----------------------------------------------------------------------------------------------------


def test_the_model_of_the_paper_has_as_many_parameters_as_the_paper_says() -> None:
    weights = initial(mlp.TWO_NN, 0)
    assert sum(tensor.size for tensor in weights.values()) == 199_210
    assert list(weights) == [f"dense_{i}.{kind}" for i in (1, 2, 3) for kind in ("weight", "bias")]
    assert all(tensor.dtype == np.float32 for tensor in weights.values())
    assert mlp.sizes_of(weights) == list(mlp.TWO_NN)


def test_the_seed_decides_the_first_weights() -> None:
    assert bits(initial(SIZES, 1)) == bits(initial(SIZES, 1))
    assert bits(initial(SIZES, 1)) != bits(initial(SIZES, 2))
    first = initial((300, 300, 300), 1)
    assert not np.array_equal(first["dense_1.weight"], first["dense_2.weight"])
    limit = (6 / 600) ** 0.5
    assert 0.99 * limit < np.abs(first["dense_1.weight"]).max() <= limit
    assert not first["dense_1.bias"].any()


def test_the_loss_is_the_cross_entropy_and_the_accuracy_a_share() -> None:
    weights = initial(SIZES, 3)
    x, y = samples(2_345)  # more than are evaluated at once, and not a multiple
    told = evaluate(weights, x, y)
    assert told["loss"] == pytest.approx(doubled(weights, x, y), rel=1e-5)
    found = np.concatenate([mlp.Net(weights, 5).forward(x[i : i + 5]).argmax(axis=1) for i in range(0, 2_345, 5)])
    assert told["accuracy"] == pytest.approx(np.mean(found == y))


def test_large_scores_do_not_overflow() -> None:
    weights = {name: tensor * np.float32(1e4) for name, tensor in initial(SIZES, 3).items()}
    told = evaluate(weights, *samples())
    assert np.isfinite(told["loss"])


# -- a step --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [0, 20, 99])
def test_a_step_goes_down_the_slope_of_the_loss(batch_size: int) -> None:
    weights = initial(SIZES, 3)
    weights["dense_1.bias"] += np.float32(0.05)
    x, y = samples()
    after = train(weights, x, y, epochs=1, batch_size=batch_size, lr=0.5, seed=0).weights
    wanted = slopes(weights, x, y)
    for name, step in changed(weights, after).items():
        assert np.abs(wanted[name]).max() > 1e-3, name
        assert step / 0.5 == pytest.approx(wanted[name], abs=2e-6), name


def test_batches_are_steps_and_the_last_may_be_smaller() -> None:
    """7 samples in batches of 3: as three trainings, each with one step over its own samples."""
    x, y = samples(7)
    weights = initial(SIZES, 3)
    whole = train(weights, x, y, epochs=1, batch_size=3, lr=0.3, seed=4)
    rows = order(7, TRAIN, 4, 0)
    piece = weights
    for at in (0, 3, 6):
        chosen = rows[at : at + 3]
        piece = train(piece, x[chosen], y[chosen], epochs=1, batch_size=0, lr=0.3, seed=0).weights
    for name, tensor in whole.weights.items():
        assert tensor == pytest.approx(piece[name], abs=1e-6)


def test_the_pull_goes_back_to_where_training_started() -> None:
    """The first step starts there and feels none; the second is lr * mu * distance shorter."""
    x, y = samples()
    weights = initial(SIZES, 3)
    one = train(weights, x, y, epochs=1, batch_size=0, lr=0.5, seed=0).weights
    assert bits(train(weights, x, y, epochs=1, batch_size=0, lr=0.5, seed=0, mu=0.7).weights) == bits(one)
    free = train(weights, x, y, epochs=2, batch_size=0, lr=0.5, seed=0).weights
    pulled = train(weights, x, y, epochs=2, batch_size=0, lr=0.5, seed=0, mu=0.7).weights
    for name in weights:
        back = 0.5 * 0.7 * (one[name].astype(np.float64) - weights[name])
        assert free[name] - pulled[name] == pytest.approx(back, abs=1e-6)


# -- training ------------------------------------------------------------------------------------------------------


def test_bits_repeat_and_what_was_given_is_not_changed() -> None:
    x, y = digits.load("train")
    weights = initial((64, 32, 10), 0)
    kept = bits(weights)
    first = train(weights, x, y, epochs=2, batch_size=10, lr=0.1, seed=5, mu=0.01)
    again = train(weights, x, y, epochs=2, batch_size=10, lr=0.1, seed=5, mu=0.01)
    assert bits(first.weights) == bits(again.weights)
    assert first.losses == again.losses
    assert bits(weights) == kept
    assert bits(train(weights, x, y, epochs=2, batch_size=10, lr=0.1, seed=6).weights) != bits(first.weights)
    assert all(tensor.flags.writeable for tensor in first.weights.values())


def test_rounds_with_one_seed_are_epochs_of_one_training() -> None:
    x, y = digits.load("train", np.arange(200))
    weights = initial((64, 16, 10), 0)
    whole = train(weights, x, y, epochs=3, batch_size=10, lr=0.1, seed=5)
    half = train(weights, x, y, epochs=1, batch_size=10, lr=0.1, seed=5)
    rest = train(half.weights, x, y, epochs=2, batch_size=10, lr=0.1, seed=5, epoch_base=1)
    assert bits(rest.weights) == bits(whole.weights)
    assert half.losses + rest.losses == whole.losses


def test_another_process_gets_the_same_bits() -> None:
    code = (
        "import hashlib\nfrom quoracy.learn import digits, mlp\nx, y = digits.load('train')\n"
        "w = mlp.train(mlp.initial((64, 32, 10), 1), x, y, epochs=1, batch_size=10, lr=0.1, seed=2).weights\n"
        "print(hashlib.sha256(b''.join(w[n].tobytes() for n in sorted(w))).hexdigest())\n"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **mlp.ONE_THREAD, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert len(told[0]) == 65
    assert told[0] == told[1]


def test_central_training_looks_at_as_many_samples_as_it_is_told() -> None:
    x, y = digits.load("train", np.arange(100))
    weights = initial((64, 16, 10), 0)
    epochs = train(weights, x, y, epochs=2, batch_size=10, lr=0.1, seed=5)
    assert bits(central(weights, x, y, passes=200, batch_size=10, lr=0.1, seed=5).weights) == bits(epochs.weights)
    part = central(weights, x, y, passes=230, batch_size=10, lr=0.1, seed=5)
    assert len(part.losses) == 3
    chosen = order(100, TRAIN, 5, 2)[:30]
    by_hand = epochs.weights
    for at in (0, 10, 20):
        rows = chosen[at : at + 10]
        by_hand = train(by_hand, x[rows], y[rows], epochs=1, batch_size=0, lr=0.1, seed=0).weights
    for name, tensor in part.weights.items():
        assert tensor == pytest.approx(by_hand[name], abs=1e-5)
    assert bits(central(weights, x, y, passes=0, batch_size=10, lr=0.1, seed=5).weights) == bits(weights)


def test_losses_fall_and_digits_are_learned() -> None:
    x, y = digits.load("train")
    told = train(initial((64, 32, 10), 0), x, y, epochs=10, batch_size=10, lr=0.1, seed=5)
    assert told.losses[-1] < 0.1 * told.losses[0]
    assert evaluate(told.weights, *digits.load("test"))["accuracy"] > 0.95


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lr": 0.0}, "lr = 0.0"),
        ({"lr": float("nan")}, "lr = nan"),
        ({"lr": 1e30}, "a smaller one"),
        ({"mu": -1.0}, "mu = -1.0"),
        ({"batch_size": -1}, "batch_size = -1"),
        ({"epochs": -1}, "epochs = -1"),
        ({"seed": -1}, "seed = -1"),
        ({"x": np.zeros((20, 7), np.float32)}, r"float32 of shape \(samples, 6\)"),
        ({"x": np.zeros((20, 6))}, "float64"),
        ({"x": np.zeros((0, 6), np.float32), "y": np.zeros(0, np.int64)}, "at least one sample"),
        ({"y": np.zeros(19, np.int64)}, "one class for each of 20 samples"),
        ({"y": np.full(20, 3)}, "whole numbers from 0 to 2"),
        ({"y": np.full(20, -1)}, "whole numbers from 0 to 2"),
        ({"y": np.zeros(20)}, "float64"),
        ({"weights": {}}, "dense_1 first"),
        ({"weights": {"dense_1.weight": np.zeros((6, 3), np.float32)}}, "a weight and a bias"),
        ({"weights": {**initial((6, 3), 0), "dense_2.weight": np.zeros((4, 3)), "dense_2.bias": np.zeros(3)}},
         "dense_2.weight must have 3 rows"),
        ({"weights": {"dense_1.weight": np.zeros((6, 3)), "dense_1.bias": np.zeros(4)}}, "must fit"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused_with_field_and_value(given: dict[str, Any], said: str) -> None:
    x, y = samples()
    asked = {"weights": initial(SIZES, 0), "x": x, "y": y, "epochs": 3, "batch_size": 5, "lr": 0.1, "seed": 0, **given}
    with pytest.raises(ConfigError, match=said):
        train(asked.pop("weights"), asked.pop("x"), asked.pop("y"), **asked)


def test_layers_without_size_are_refused() -> None:
    with pytest.raises(ConfigError, match="sizes"):
        initial((5,), 0)
    with pytest.raises(ConfigError, match="sizes"):
        initial((5, 0), 0)
    with pytest.raises(ConfigError, match="passes = -1"):
        central(initial(SIZES, 0), *samples(), passes=-1, batch_size=1, lr=0.1, seed=0)
