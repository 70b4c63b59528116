"""A perceptron in numpy as a trainer: real training with nothing installed.

Hyper-parameters beside those of the optimizer: ``hidden``, the sizes of the hidden layers (32, or "200,200");
``inputs`` and ``classes``, for samples of other sizes. Samples are ``x`` (float32, one row each) and ``y`` (whole
numbers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from quoracy.core.bounds import whole
from quoracy.core.errors import ConfigError
from quoracy.learn import digits as digits_set
from quoracy.learn import fashion as fashion_set
from quoracy.learn import mlp
from quoracy.learn.witnessed import rehearsal
from quoracy.learn.witnessed.gradient import GradientTrainer
from quoracy.learn.witnessed.optimizers import HYPER
from quoracy.learn.witnessed.source import digits_source, fashion_source
from quoracy.learn.witnessed.trainer import Array, Result, RunTask, Samples, Source, Weights

MAX_HIDDEN: Final = 16
MAX_SIZE: Final = 2**24
"""Of one layer."""
AT_ONCE: Final = 64
"""Batches that are in memory together."""
KNOWN: Final = (*HYPER, "optimizer", "encoding", "topk", "block", "hidden", "inputs", "classes")


class MlpTrainer(GradientTrainer):
    def __init__(self, task: RunTask, source: Source, inputs: int, hidden: Any, classes: int) -> None:
        super().__init__(task)
        for name in task.hyper:
            if name not in KNOWN:
                raise ConfigError(f"hyper.{name}", task.hyper[name], f"this trainer knows: {', '.join(KNOWN)}")
        self.source = source
        self.sizes = sizes_of(task.hyper, inputs, hidden, classes)

    def initial(self) -> Weights:
        return dict(mlp.initial(self.sizes, self.task.seed))

    def train(self, batch_ids: Sequence[int]) -> Result:
        size, total = self.task.batch_size, len(batch_ids) * self.task.batch_size
        net = mlp.Net(self.model, size)
        slope = np.zeros_like(net.step)
        loss = 0.0
        for first in range(0, len(batch_ids), AT_ONCE):
            x, y = self._checked(self.source.samples(batch_ids[first : first + AT_ONCE]))
            for at in range(0, len(x), size):
                loss += _add_slope(net, x[at : at + size], y[at : at + size], np.float32(1 / total))
                slope += net.step
                self.task.progress()
        return Result(_named(net, slope), total, loss / total)

    def evaluate(self) -> dict[str, float]:
        samples = self.source.held_out()
        return {} if samples is None else mlp.evaluate(self.model, *self._checked(samples))

    def _checked(self, samples: Samples) -> tuple[mlp.Array, Array]:
        """Raises ConfigError for samples that are not such as the model takes."""
        for name in ("x", "y"):
            if name not in samples:
                raise ConfigError("samples", sorted(samples), f"there must be an array {name!r}")
        x, y = np.ascontiguousarray(samples["x"], np.float32), samples["y"]
        if x.ndim != 2 or x.shape[1] != self.sizes[0]:
            raise ConfigError("hyper.inputs", self.sizes[0], f"x has shape {x.shape}: as many inputs as x has columns")
        if y.shape != (len(x),) or y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= self.sizes[-1]:
            told = (
                f"y is {y.dtype} of shape {y.shape}: one whole number below hyper.classes for each of {len(x)} samples"
            )
            raise ConfigError("hyper.classes", self.sizes[-1], told)
        return x, y.astype(np.int64, copy=False)


def digits(task: RunTask) -> MlpTrainer:
    """1,442 handwritten digits of 64 pixels, unless the run names other samples."""
    source = task.source or digits_source(task.seed, task.batch_size)
    return MlpTrainer(task, source, digits_set.FEATURES, 32, digits_set.CLASSES)


def fashion(task: RunTask) -> MlpTrainer:
    """60,000 pictures of clothes of 784 pixels, unless the run names other samples."""
    source = task.source or fashion_source(task.seed, task.batch_size)
    return MlpTrainer(task, source, fashion_set.FEATURES, "200,200", fashion_set.CLASSES)


def alone(task: RunTask, rounds: Iterable[Sequence[int]]) -> dict[str, float]:
    """What one machine gets on the same samples of digits: a step for each of the rounds, over its batches."""
    return rehearsal.alone(digits, task, rounds)


def sizes_of(hyper: Mapping[str, Any], inputs: int, hidden: Any, classes: int) -> tuple[int, ...]:
    """Of all layers, the inputs first. Raises ConfigError."""
    said = str(hyper.get("hidden", hidden)).replace(" ", "")
    parts = said.split(",") if said else []
    if len(parts) > MAX_HIDDEN or not all(whole(part, MAX_SIZE) for part in parts):
        fix = (
            f"the sizes of at most {MAX_HIDDEN} layers, each from 1 to {MAX_SIZE}, such as 32 or '200,200'; '' for none"
        )
        raise ConfigError("hyper.hidden", hyper.get("hidden"), fix)
    ends = []
    for name, otherwise in (("inputs", inputs), ("classes", classes)):
        value = hyper.get(name, otherwise)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIZE:
            raise ConfigError(f"hyper.{name}", value, f"a whole number from 1 to {MAX_SIZE}")
        ends.append(value)
    return ends[0], *(int(part) for part in parts), ends[1]


def _add_slope(net: mlp.Net, x: mlp.Array, wanted: Array, scale: np.float32) -> float:
    """The slope of one batch, in ``net.step``; returns the sum of its losses."""
    with np.errstate(over="ignore", invalid="ignore"):  # the loss tells
        scores = net.forward(x)
        loss = mlp.softmax_loss(scores, wanted)
        scores[np.arange(len(wanted)), wanted] -= np.float32(1)
        scores *= scale
        net.backward(x, scores)
    return loss


def _named(net: mlp.Net, flat: mlp.Array) -> Weights:
    named: Weights = {}
    at = 0
    for name, tensor in net.weights().items():
        named[name] = flat[at : at + tensor.size].reshape(tensor.shape)
        at += tensor.size
    return named
