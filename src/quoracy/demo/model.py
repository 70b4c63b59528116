"""A small real model, in plain Python: softmax regression on points of a few classes, made from a seed.

Every rank holds a part of the points. A step needs the gradients of all of them, added in the order of ranks, so that
everybody computes the very same numbers.
"""

from __future__ import annotations

import hashlib
import math
import random
import struct
from typing import Final

FEATURES: Final = 6
CLASSES: Final = 4
POINTS: Final = 40
"""Of each rank."""
RATE: Final = 0.5

Weights = list[float]
"""One row of features and a bias for each class, one after the other."""
Points = list[tuple[list[float], int]]


def fresh() -> Weights:
    return [0.0] * (CLASSES * (FEATURES + 1))


def points_of(rank: int) -> Points:
    """What this rank has measured: around the middle of each class, with noise."""
    middles = random.Random("middles")  # noqa: S311 - no secret
    centres = [[middles.uniform(-1, 1) for _ in range(FEATURES)] for _ in range(CLASSES)]
    own = random.Random(f"rank {rank}")  # noqa: S311
    labels = [own.randrange(CLASSES) for _ in range(POINTS)]
    return [([own.gauss(x, 0.4) for x in centres[label]], label) for label in labels]


def gradient(weights: Weights, points: Points) -> tuple[Weights, float]:
    """The mean gradient of these points, and their mean loss."""
    down = fresh()
    loss = 0.0
    width = FEATURES + 1
    for features, label in points:
        inputs = [*features, 1.0]
        scores = [sum(w * x for w, x in zip(weights[k * width :], inputs, strict=False)) for k in range(CLASSES)]
        top = max(scores)
        powers = [math.exp(score - top) for score in scores]
        total = sum(powers)
        loss -= math.log(powers[label] / total)
        for k in range(CLASSES):
            error = powers[k] / total - (k == label)
            for i, x in enumerate(inputs):
                down[k * width + i] += error * x
    return [value / len(points) for value in down], loss / len(points)


def step(weights: Weights, gradients: list[Weights]) -> Weights:
    means = [sum(column) / len(gradients) for column in zip(*gradients, strict=True)]
    return [w - RATE * g for w, g in zip(weights, means, strict=True)]


def mark(weights: Weights) -> str:
    """The same for the same numbers, to the last bit."""
    return hashlib.sha256(struct.pack(f">{len(weights)}d", *weights)).hexdigest()[:16]
