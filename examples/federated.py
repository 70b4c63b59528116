"""Takes part in a federated run: start several of these, under any names, against one coordinator.

quoracy serve &
quoracy run create lines --kind federated --set clients=3 --set rounds=20 --set 'hyper={"lr": 0.1}'
python examples/federated.py tcp://127.0.0.1:7700 north
"""

import sys

import numpy as np

import quoracy


def train(weights: dict[str, np.ndarray], task: quoracy.Task) -> tuple[dict[str, np.ndarray], int, dict[str, float]]:
    x = np.random.default_rng(len(task.participant)).uniform(-1, 1, 100)
    y = 3 * x + 1
    for epoch in range(task.epochs):
        error = weights["slope"] * x + weights["offset"] - y
        weights["slope"] -= task.hyper["lr"] * np.mean(error * x)
        weights["offset"] -= task.hyper["lr"] * np.mean(error)
        task.epoch(epoch, loss=np.mean(error**2))
    return weights, len(x), {"loss": np.mean(error**2)}


if __name__ == "__main__":
    start = {"slope": np.zeros(1), "offset": np.zeros(1)}
    print(quoracy.participate(sys.argv[1], train, run="lines", participant=sys.argv[2], initial=start))
