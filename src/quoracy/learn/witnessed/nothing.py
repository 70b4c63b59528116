"""A trainer of nothing, for measuring everything else: always the same result, at once.

``hyper.size``: so many numbers the model and each result have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.trainer import Result, RunTask, Weights

NAME: Final = "nothing"
SIZE: Final = 8
MAX_SIZE: Final = 2**31
"""Of a model of 8 GiB."""


class Nothing:
    """Its model counts the results that were applied, so that its hash tells one step from the next."""

    def __init__(self, task: RunTask) -> None:
        size = task.number("size", SIZE)
        if not 1 <= size <= MAX_SIZE or size != int(size):
            raise ConfigError("hyper.size", size, f"a whole number from 1 to {MAX_SIZE}")
        self._batch_size = task.batch_size
        self._ones = np.ones(int(size), np.float32)
        self._model = np.zeros_like(self._ones)

    def load(self, weights: Weights | None) -> None:
        if weights is None:
            self._model = np.zeros_like(self._ones)
        elif set(weights) != {NAME} or weights[NAME].shape != self._ones.shape:
            raise ConfigError("weights", sorted(weights), f"one tensor {NAME!r} of {len(self._ones)} numbers")
        else:
            self._model = weights[NAME].astype(np.float32)

    def train(self, batch_ids: Sequence[int]) -> Result:
        return Result({NAME: self._ones}, len(batch_ids) * self._batch_size)

    def apply(self, results: Iterable[Result]) -> None:
        for result in results:
            np.add(self._model, result.arrays[NAME], out=self._model)

    def weights(self) -> Weights:
        return {NAME: self._model}

    def evaluate(self) -> dict[str, float]:
        return {}
