"""Every rule once more, straight from its paper and as simple as can be: vectors of float64, loops, no slices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Vectors = list[Vector]


def fedavg(updates: Vectors, samples: list[int]) -> Vector:
    return np.asarray(sum(n / sum(samples) * w for n, w in zip(samples, updates, strict=True)))


def fedavgm(w: Vector, rounds: list[tuple[Vectors, list[int]]], server_lr: float, momentum: float) -> Vector:
    v = np.zeros_like(w)
    for updates, samples in rounds:
        v = momentum * v + (fedavg(updates, samples) - w)
        w = w + server_lr * v
    return w


def fedopt(w: Vector, rounds: list[tuple[Vectors, list[int]]], rule: str, settings: dict[str, Any]) -> Vector:
    """Reddi et al., algorithm 2."""
    lr, b1, tau = settings["server_lr"], settings["beta1"], settings["tau"]
    m = np.zeros_like(w)
    v = np.full_like(w, tau**2)
    for updates, samples in rounds:
        delta = fedavg(updates, samples) - w
        m = b1 * m + (1 - b1) * delta
        if rule == "fedadagrad":
            v = v + delta**2
        elif rule == "fedyogi":
            v = v - (1 - settings["beta2"]) * delta**2 * np.sign(v - delta**2)
        else:
            v = settings["beta2"] * v + (1 - settings["beta2"]) * delta**2
        w = w + lr * m / (np.sqrt(v) + tau)
    return w


def median(updates: Vectors) -> Vector:
    return np.array([_median([float(u[i]) for u in updates]) for i in range(len(updates[0]))])


def _median(values: list[float]) -> float:
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def trimmed_mean(updates: Vectors, out: int) -> Vector:
    kept = [sorted(float(u[i]) for u in updates)[out : len(updates) - out] for i in range(len(updates[0]))]
    return np.array([sum(values) / len(values) for values in kept])


def krum_scores(updates: Vectors, f: int) -> list[float]:
    """Of i the sum over its n - f - 2 closest of the squared distances."""
    found = []
    for i, one in enumerate(updates):
        distances = sorted(float(((one - other) ** 2).sum()) for j, other in enumerate(updates) if j != i)
        found.append(sum(distances[: max(len(updates) - f - 2, 1)]))
    return found


def krum(updates: Vectors, f: int) -> int:
    scores = krum_scores(updates, f)
    return scores.index(min(scores))


def multi_krum(updates: Vectors, f: int, m: int) -> Vector:
    scores = krum_scores(updates, f)
    best = sorted(range(len(updates)), key=lambda i: (scores[i], i))[:m]
    return np.asarray(sum(updates[i] for i in best)) / m


def bulyan(updates: Vectors, f: int) -> Vector:
    left = list(updates)
    chosen: Vectors = []
    theta = len(updates) - 2 * f
    while len(chosen) < theta:
        chosen.append(left.pop(krum(left, f)))
    return np.array([_nearest([float(u[i]) for u in chosen], theta - 2 * f) for i in range(len(updates[0]))])


def _nearest(values: list[float], beta: int) -> float:
    """The mean of the beta values with the least sum of distances to the median; of several such the smallest."""
    # The value with the least sum of distances to all others, the lower of two.
    middle = min(values, key=lambda m: (sum(abs(v - m) for v in values), m))
    sets = itertools.combinations(sorted(values), beta)
    best = min(sets, key=lambda some: (sum(abs(v - middle) for v in some), some))
    return sum(best) / beta
