"""The same model, trained on one machine that has all samples: what rounds have to stand comparison with.

It is done in a process of its own: batches are far too small for threads to share, and how many threads there are is
decided when numpy is first imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

from quoracy.learn import mlp
from quoracy.learn.experiment import SIZES, Settings, source

POINTS: Final = 20
AT_ONCE: Final = 2


class Beside(msgspec.Struct, frozen=True):
    accuracy: float
    passes: int
    """Samples looked at: as many as all participants together."""
    points: list[tuple[float, float]]
    """Accuracy against rounds: after as many samples as those rounds had."""
    batch_size: int
    lr: float


class Wish(msgspec.Struct, frozen=True):
    settings: Settings
    rounds: int
    passes: int
    batch_size: int
    lr: float
    decay: list[tuple[int, float]]
    """From which round on the learning rate is which share of itself."""


def beside(
    settings: Settings,
    rows: list[dict[str, Any]],
    epochs: int,
    batch_size: int,
    lr: float,
    decay: Sequence[tuple[int, float]] = (),
) -> Beside:
    """``rows``: the history of the rounds, and ``epochs`` those of each in them."""
    passes = sum(row["samples"] for row in rows) * epochs
    wish = Wish(settings, len(rows), passes, batch_size, lr, list(decay))
    done = subprocess.run(
        [sys.executable, "-c", "from quoracy.demo.beside import main; main()"],
        input=msgspec.json.encode(wish),
        stdout=subprocess.PIPE,
        env=os.environ | mlp.ONE_THREAD,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Beside)


def best_beside(
    settings: Settings,
    rows: list[dict[str, Any]],
    epochs: int,
    tried: Sequence[tuple[int, float]],
    decay: Sequence[tuple[int, float]] = (),
) -> Beside:
    """Of several batch sizes and learning rates the one that ends best: whoever compares must not choose a weak
    opponent. Two at a time, each on one core."""
    with ThreadPoolExecutor(AT_ONCE) as two:
        found = list(two.map(lambda how: beside(settings, rows, epochs, how[0], how[1], decay), tried))
    return max(found, key=lambda one: one.accuracy)


def alone(wish: Wish) -> Beside:
    where = source(wish.settings.samples)
    x, y = where.load("train")
    held_out = where.load("test")
    weights = mlp.initial(SIZES[wish.settings.samples], wish.settings.seed)
    points = []
    done = 0
    for part in range(1, POINTS + 1):
        upto = wish.passes * part // POINTS
        began = wish.rounds * (part - 1) / POINTS
        share = min((share for number, share in wish.decay if number <= began), default=1.0)
        trained = mlp.central(
            weights, x, y, passes=upto - done, batch_size=wish.batch_size, lr=wish.lr * share,
            seed=wish.settings.seed + part,
        )  # fmt: skip
        weights, done = trained.weights, upto
        points.append((wish.rounds * part / POINTS, mlp.evaluate(weights, *held_out)["accuracy"]))
    return Beside(points[-1][1], wish.passes, points, wish.batch_size, wish.lr)


def main() -> None:
    sys.stdout.buffer.write(msgspec.json.encode(alone(msgspec.json.decode(sys.stdin.buffer.read(), type=Wish))))
