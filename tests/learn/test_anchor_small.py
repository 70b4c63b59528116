"""Federated averaging with this trainer learns what one machine with all samples learns.

Averaged here in plain numpy, without a coordinator: what a run must reach is known before there is a run.
"""

from __future__ import annotations

import numpy as np
import pytest

from quoracy.learn import digits, mlp
from quoracy.learn.partition import partitions

CLIENTS = 10
ROUNDS = 8
EPOCHS = 5
SIZES = (64, 64, 10)


def averaged(way: str, seed: int) -> float:
    """The accuracy on what was held out."""
    parts = partitions(way, digits.labels("train"), CLIENTS, seed)
    weights = mlp.initial(SIZES, seed)
    for turn in range(ROUNDS):
        trained = []
        for client, rows in enumerate(parts):
            x, y = digits.load("train", rows)
            told = mlp.train(
                weights, x, y, epochs=EPOCHS, batch_size=10, lr=0.1, seed=1_000 * seed + client,
                epoch_base=turn * EPOCHS,
            )  # fmt: skip
            trained.append((len(rows), told.weights))
        total = sum(count for count, _ in trained)
        weights = {
            name: np.sum([np.float32(count / total) * each[name] for count, each in trained], axis=0)
            for name in weights
        }
    return mlp.evaluate(weights, *digits.load("test"))["accuracy"]


@pytest.mark.parametrize("seed", [1, 2])
def test_averaging_comes_within_three_points_of_one_machine_with_everything(seed: int) -> None:
    x, y = digits.load("train")
    passes = ROUNDS * EPOCHS * len(x)
    alone = mlp.central(mlp.initial(SIZES, seed), x, y, passes=passes, batch_size=10, lr=0.1, seed=seed)
    central = mlp.evaluate(alone.weights, *digits.load("test"))["accuracy"]
    assert central > 0.95
    assert averaged("iid", seed) > central - 0.03


def test_one_class_for_each_client_is_harder() -> None:
    """As in the literature: the ordering is known, the distance depends on the set."""
    assert averaged("classes:1", 1) < averaged("iid", 1) - 0.03
