"""Results in, the next model out: the same bits on every machine.

The mean gradient is added up result by result in the order in which they count, each weighed by its samples, element by
element in double precision; then the optimizer takes one step. Nothing here depends on threads, on the instruction set,
on where arrays lie in memory, or on how many results are there at a time. What may be used is said in ``optimizers``.

Two things would still tell machines apart and are dealt with. A processor that was told to take tiny numbers for 0
(as a library compiled for speed, or torch.set_flush_denormal, may do for a thread) is found out and refused. And what
has no number after a step is made *the same* no number, since its sign is the processor's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from quoracy.core.errors import ConfigError
from quoracy.learn.header import BadTensors, Layout, difference
from quoracy.learn.slices import ALONE, pieces
from quoracy.learn.witnessed.optimizers import HYPER, optimizer_of
from quoracy.learn.witnessed.packing import layout_of_arrays
from quoracy.learn.witnessed.trainer import BUFFER, OPTIMIZER, Array, Result, Weights

TINY: Final = np.array([1e-40], np.float32)
"""Too small for a number of full precision, and not 0."""


class Mean:
    """The mean of results, weighed by their samples, as far as they have come."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.samples = 0
        self.results = 0
        self._sums: Weights = {}

    def add(self, result: Result) -> None:
        made = {name: ("F32", array.shape) for name, array in result.arrays.items()}
        if found := difference(made, self.layout):
            raise BadTensors(f"result {self.results}: {found}")
        if result.samples < 1:
            raise ConfigError("samples", result.samples, "at least 1 in every result")
        weight = np.float64(result.samples)
        for name, array in result.arrays.items():
            flat = array.reshape(-1)
            if name not in self._sums:
                self._sums[name] = np.zeros(flat.size, np.float64)
            total = self._sums[name]
            for start, stop in pieces(flat.size, ALONE):
                piece = flat[start:stop].astype(np.float64)
                np.multiply(piece, weight, out=piece)
                np.add(total[start:stop], piece, out=total[start:stop])
        self.samples += result.samples
        self.results += 1

    def slope(self, name: str, start: int, stop: int, like: Array) -> Array:
        """Some of the means of one tensor, in the type of ``like``."""
        return np.divide(self._sums[name][start:stop], np.float64(self.samples)).astype(like.dtype)


class Descent:
    """A model and its optimizer. Names under ``optimizer/`` are the optimizer's, those under ``buffer/`` are carried
    along, and all others are trained."""

    def __init__(self, hyper: Mapping[str, Any]) -> None:
        self._optimizer = optimizer_of(hyper)
        self._clip = float(hyper.get("clip", HYPER["clip"]))
        self.trained: Weights = {}
        self._buffers: Weights = {}
        self._memory: Weights = {}

    def load(self, weights: Weights) -> None:
        """Go on from these, of which copies are kept. Without any name under ``optimizer/`` its memory begins anew.
        Raises ConfigError, naming the tensor that does not fit."""
        trained = {name: array for name, array in weights.items() if not name.startswith((OPTIMIZER, BUFFER))}
        for name, array in trained.items():
            if array.dtype not in (np.float32, np.float64):
                raise ConfigError(name, str(array.dtype), "tensors that are trained are of float32 or float64")
        # In one piece each, whatever they are views of: a step works on them as on one row of numbers.
        trained = {name: _own(array) for name, array in trained.items()}
        fresh = self._optimizer.memory(trained)
        given = {name.removeprefix(OPTIMIZER): array for name, array in weights.items() if name.startswith(OPTIMIZER)}
        if given and (found := difference(layout_of_arrays(given), layout_of_arrays(fresh))):
            raise ConfigError("optimizer", found, "load what weights() gave, under the same hyper-parameters")
        self.trained = trained
        self._buffers = {name: _own(array) for name, array in weights.items() if name.startswith(BUFFER)}
        self._memory = {name: _own(array) for name, array in given.items()} or fresh

    def apply(self, results: Iterable[Result]) -> None:
        """One step along their mean, in place. None: no step."""
        check_exact()
        mean = Mean({name: ("F32", array.shape) for name, array in self.trained.items()})
        for result in results:
            mean.add(result)
        if not mean.results:
            return
        # What runs away to infinity does so for everybody alike, and shows in the loss.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            self._optimizer.begin(self._memory)
            for name, array in self.trained.items():
                flat = array.reshape(-1)
                for start, stop in pieces(flat.size, ALONE):
                    slope = mean.slope(name, start, stop, flat)
                    if self._clip:
                        bound = flat.dtype.type(self._clip)
                        np.minimum(np.maximum(slope, -bound, out=slope), bound, out=slope)
                    self._optimizer.step(name, slice(start, stop), flat[start:stop], slope, self._memory)
            for array in (*self.trained.values(), *self._memory.values()):
                _same_nan(array)

    def weights(self) -> Weights:
        """The arrays themselves, which the next ``apply`` changes."""
        return {**self.trained, **self._buffers, **{OPTIMIZER + name: array for name, array in self._memory.items()}}


def check_exact() -> None:
    """Raises ConfigError in a thread that takes tiny numbers for 0."""
    if not np.multiply(TINY, np.float32(1))[0] > 0:
        fix = (
            "no torch.set_flush_denormal(True), and no library built with -ffast-math: this model would be another one"
        )
        raise ConfigError("floating point", "numbers below 1.2e-38 are taken for 0 in this thread", fix)


def _own(array: Array) -> Array:
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _same_nan(array: Array) -> None:
    flat = array.reshape(-1)
    for start, stop in pieces(flat.size, ALONE):
        piece = flat[start:stop]
        if not np.isfinite(piece).all():
            piece[np.isnan(piece)] = np.nan
