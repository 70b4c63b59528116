"""A worker that says what it measures: ``python examples/measured.py tcp://127.0.0.1:7700 200``, a few times at once,
with ``quoracy serve`` and ``quoracy top demo`` beside it."""

from __future__ import annotations

import sys

import quoracy


def train(url: str, steps: int) -> None:
    with quoracy.connect(url, run="demo") as worker:
        for step in range(worker.next_step("step"), steps):
            loss = 2.0 * 0.99**step  # train
            worker.report(step=step, loss=loss, learning_rate=1e-4)
            worker.barrier("step", step)


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]))
