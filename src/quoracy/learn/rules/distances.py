"""How far updates are from each other, added up slice by slice, and what Krum makes of it.

With x the difference of an update to the model the round began with, |x - y|^2 is |x|^2 + |y|^2 - 2xy, and all products
of a slice are one multiplication of matrices in float64. The model is what everybody began with, so that honest
differences are small; a liar far away spoils only its own distances, which are far in any case.

BLAS may round the last bits differently on another processor. So that the same update is chosen there, distances that
rounding could have made are none, scores are compared with 36 bits, and between equals the first participant wins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quoracy.learn.rules.base import Slice

Matrix = NDArray[np.float64]


class Distances:
    def __init__(self) -> None:
        self._products: Matrix | None = None
        self._buffer: Matrix = np.empty(0)

    def add(self, piece: Slice) -> None:
        count, length = len(piece.views), len(piece.previous)
        if self._buffer.size < count * length:
            self._buffer = np.empty(count * length)
        moved = self._buffer[: count * length].reshape(count, length)
        for row, view in zip(moved, piece.views, strict=True):
            np.subtract(view, piece.previous, out=row, dtype=np.float64)
        products = moved @ moved.T
        self._products = products if self._products is None else self._products + products

    def squared(self) -> Matrix:
        """Between each and each; to oneself, infinitely far: nobody is their own neighbour."""
        assert self._products is not None
        norms = np.diagonal(self._products)
        both = norms[:, None] + norms[None, :]
        squared = both - self._products - self._products.T
        squared[squared <= 1e-12 * both] = 0.0
        np.fill_diagonal(squared, np.inf)
        return squared


def scores(squared: Matrix, byzantine: int) -> Matrix:
    """Of each the sum of the squared distances to its n - byzantine - 2 nearest neighbours (Blanchard et al. 2017).
    In a remainder with fewer than that, as in the last steps of Bulyan, the nearest one counts."""
    count = len(squared)
    nearest = min(max(count - byzantine - 2, 1), count - 1)
    summed: Matrix = np.sort(squared, axis=1)[:, :nearest].cumsum(axis=1)[:, -1] if nearest else np.zeros(count)
    return _rounded(summed)


def _rounded(values: Matrix) -> Matrix:
    fraction, exponent = np.frexp(values)
    rounded: NDArray[Any] = np.ldexp(np.rint(np.ldexp(fraction, 36)), exponent - 36)
    return rounded
