"""Participants with nothing to train: they send the weights back, with one number changed, so that every update is new.

``make`` is what crowds take. As a program, ``python -m quoracy.bench.nothing URL RUN NAME SIZE_BYTES CACHE``, it is one
participant in a process of its own. With a folder as its cache it moves weights through the HTTP API, as one that
cannot reach the object store; with "" it uses the store itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import quoracy

TENSORS = 8


def model(size_bytes: int) -> dict[str, Any]:
    """A few tensors that take so much together."""
    drawn = np.random.Generator(np.random.PCG64(1))
    return {f"layer_{i}": drawn.random(size_bytes // 4 // TENSORS, dtype=np.float32) for i in range(TENSORS)}


def touched(weights: dict[str, Any], member: str, number: int) -> dict[str, Any]:
    first = np.array(weights["layer_0"])
    first[0] = int(member.rpartition("-")[2]) + number / 1000
    return weights | {"layer_0": first}


def make(arguments: dict[str, Any]) -> Callable[[str, Any, Any], tuple[dict[str, Any], int, dict[str, float], Any]]:
    def train(member: str, weights: Any, work: Any) -> tuple[dict[str, Any], int, dict[str, float], Any]:
        if weights is None:
            return model(arguments["size_bytes"]), 0, {}, {}
        return touched(weights, member, work.round), 1, {}, {}

    return train


def main(url: str, run: str, name: str, size_bytes: int, cache: str) -> None:
    def train(weights: dict[str, Any], task: quoracy.Task) -> tuple[dict[str, Any], int, dict[str, float]]:
        return touched(weights, name, task.round), 1, {}

    quoracy.participate(
        url, train, run=run, participant=name, initial=lambda: model(size_bytes),
        weights="http" if cache else "store", cache=cache or None,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
