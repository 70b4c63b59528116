"""A multi-layer perceptron in numpy: enough of a trainer to run real federated learning with no framework installed.

Dense layers with ReLU between them, softmax and cross-entropy at the end, plain SGD, single precision. Weights are
named tensors, ``dense_1.weight`` (inputs x outputs), ``dense_1.bias``, ``dense_2.weight`` and so on.

The same weights, samples and seed give the same bits on one machine. Between machines they may differ in the last bit:
the order in which a BLAS adds up depends on the processor and on how many threads it uses. Batches of ten are far too
small to share: with two threads an epoch takes twice as long or more. The number of threads is read when numpy is first
imported, so whoever starts the process must set it: put ``ONE_THREAD`` into its environment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from quoracy.core.errors import ConfigError
from quoracy.learn.draws import INITIAL, TRAIN, fractions, order

Array = npt.NDArray[np.float32]
Weights = dict[str, Array]

TWO_NN: Final = (784, 200, 200, 10)
"""The "2NN" of McMahan and others (2017): 199,210 parameters."""
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
AT_ONCE: Final = 1_000
"""Samples evaluated together: enough to keep the processor busy, and few megabytes whatever the set."""


class Trained(NamedTuple):
    """New weights, and the mean loss of each epoch, as measured while it went on."""

    weights: Weights
    losses: list[float]


def initial(sizes: Sequence[int], seed: int) -> Weights:
    """Weights for layers of these sizes, the inputs first: uniform as Glorot and Bengio (2010) advise, biases 0."""
    if len(sizes) < 2 or min(sizes) < 1:
        raise ConfigError("sizes", sizes, "at least inputs and outputs, each at least 1")
    weights: Weights = {}
    for layer, (inputs, outputs) in enumerate(pairwise(sizes), 1):
        limit = np.float32(math.sqrt(6 / (inputs + outputs)))
        drawn = fractions(inputs * outputs, INITIAL, seed, layer).reshape(inputs, outputs)
        weights[f"dense_{layer}.weight"] = (drawn * np.float32(2) - np.float32(1)) * limit
        weights[f"dense_{layer}.bias"] = np.zeros(outputs, dtype=np.float32)
    return weights


def sizes_of(weights: Weights) -> list[int]:
    """Of the layers, the inputs first. Refuses tensors that are not such a model."""
    sizes: list[int] = []
    for layer in range(1, len(weights) // 2 + 1):
        matrix, bias = weights.get(f"dense_{layer}.weight"), weights.get(f"dense_{layer}.bias")
        if matrix is None or bias is None or matrix.ndim != 2 or bias.shape != matrix.shape[1:]:
            raise ConfigError("weights", sorted(weights), f"dense_{layer}.weight and dense_{layer}.bias must fit")
        if sizes and sizes[-1] != matrix.shape[0]:
            raise ConfigError("weights", matrix.shape, f"dense_{layer}.weight must have {sizes[-1]} rows")
        sizes += matrix.shape if not sizes else matrix.shape[1:]
    if not sizes or len(weights) % 2:
        raise ConfigError("weights", sorted(weights), "a weight and a bias for each layer, dense_1 first")
    return sizes


def train(
    weights: Weights,
    x: Array,
    y: npt.NDArray[Any],
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    seed: int,
    mu: float = 0.0,
    epoch_base: int = 0,
) -> Trained:
    """SGD over all samples, ``epochs`` times, each time in another order. ``batch_size`` 0: all at once. ``mu``: how
    strongly the weights are pulled back to where they started (FedProx). ``epoch_base``: epochs trained before this
    call; round after round with one seed, no two epochs have the same order."""
    if epochs < 0 or epoch_base < 0:
        raise ConfigError("epochs", epochs if epochs < 0 else epoch_base, "a whole number, 0 or greater")
    orders = (order(len(x), TRAIN, seed, epoch) for epoch in range(epoch_base, epoch_base + epochs))
    return _descend(weights, x, y, orders, batch_size, lr, mu)


def central(
    weights: Weights, x: Array, y: npt.NDArray[Any], *, passes: int, batch_size: int, lr: float, seed: int
) -> Trained:
    """What the same model learns if one machine has all samples, and looks at ``passes`` of them: rounds x clients x
    samples of each x epochs, to compare with. Whole epochs, and a part of one at the end."""
    if passes < 0:
        raise ConfigError("passes", passes, "a whole number, 0 or greater")
    whole, rest = divmod(passes, max(1, len(x)))
    lengths = [len(x)] * whole + [rest] * (rest > 0)
    orders = (order(len(x), TRAIN, seed, epoch)[:length] for epoch, length in enumerate(lengths))
    return _descend(weights, x, y, orders, batch_size, lr, 0.0)


def evaluate(weights: Weights, x: Array, y: npt.NDArray[Any]) -> dict[str, float]:
    """The share of samples whose class is found, and the mean cross-entropy."""
    classes = _checked(weights, x, y)
    net = Net(weights, min(AT_ONCE, len(x)))
    right, loss = 0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # weights may be anybody's; the loss tells
        for start in range(0, len(x), AT_ONCE):
            wanted = classes[start : start + AT_ONCE]
            scores = net.forward(x[start : start + AT_ONCE])
            right += int(np.count_nonzero(scores.argmax(axis=1) == wanted))
            loss += softmax_loss(scores, wanted)
    return {"accuracy": right / len(x), "loss": loss / len(x)}


def softmax_loss(scores: Array, wanted: npt.NDArray[np.int64]) -> float:
    """The sum of the cross-entropies. The scores become probabilities, in place."""
    scores -= scores.max(axis=1, keepdims=True)
    rows = np.arange(len(wanted))
    chosen = scores[rows, wanted]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1, keepdims=True)
    scores /= sums
    return float(np.log(sums).sum(dtype=np.float64) - chosen.sum(dtype=np.float64))


class Net:
    """The weights in one stretch of memory, and room for all that is computed from a batch: made once, so that a batch
    makes nothing. One stretch, because then a step is one subtraction and not one for each tensor."""

    def __init__(self, weights: Weights, at_most: int) -> None:
        self.sizes = sizes_of(weights)
        self.names = [f"dense_{i}.{kind}" for i in range(1, len(self.sizes)) for kind in ("weight", "bias")]
        self.flat = np.concatenate([weights[name].ravel() for name in self.names], dtype=np.float32)
        self.step = np.empty_like(self.flat)
        self._layers = self._views(self.flat)
        self._steps = self._views(self.step)
        self._out = [np.empty((at_most, size), dtype=np.float32) for size in self.sizes[1:]]
        self._back = [np.empty((at_most, size), dtype=np.float32) for size in self.sizes[1:-1]]
        self._alive = [np.empty((at_most, size), dtype=np.bool_) for size in self.sizes[1:-1]]
        self._ones = np.ones(at_most, dtype=np.float32)

    def _views(self, flat: Array) -> list[tuple[Array, Array]]:
        views, at = [], 0
        for inputs, outputs in pairwise(self.sizes):
            end = at + inputs * outputs
            views.append((flat[at:end].reshape(inputs, outputs), flat[end : end + outputs]))
            at = end + outputs
        return views

    def forward(self, x: Array) -> Array:
        """The scores of each class, before the softmax. Overwritten by the next batch."""
        last = len(self._layers) - 1
        below = x
        for layer, (matrix, bias) in enumerate(self._layers):
            out = self._out[layer][: len(x)]
            np.matmul(below, matrix, out=out)
            out += bias
            if layer < last:
                np.maximum(out, np.float32(0), out=out)
            below = out
        return below

    def backward(self, x: Array, slope: Array) -> None:
        """Fill ``step`` from the slope of the loss by the scores, which is scaled already by whoever calls."""
        for layer in range(len(self._layers) - 1, -1, -1):
            below = self._out[layer - 1][: len(x)] if layer else x
            matrix_step, bias_step = self._steps[layer]
            np.matmul(below.T, slope, out=matrix_step)
            np.matmul(self._ones[: len(x)], slope, out=bias_step)
            if layer:
                back = self._back[layer - 1][: len(x)]
                np.matmul(slope, self._layers[layer][0].T, out=back)
                alive = self._alive[layer - 1][: len(x)]
                np.greater(below, np.float32(0), out=alive)
                np.multiply(back, alive, out=back)
                slope = back

    def weights(self) -> Weights:
        """As they are now, where they are."""
        tensors = [tensor for layer in self._layers for tensor in layer]
        return dict(zip(self.names, tensors, strict=True))


def _descend(
    weights: Weights,
    x: Array,
    y: npt.NDArray[Any],
    orders: Iterable[npt.NDArray[np.int64]],
    batch_size: int,
    lr: float,
    mu: float,
) -> Trained:
    classes = _checked(weights, x, y)
    for field, value, good, fix in (
        ("batch_size", batch_size, batch_size >= 0, "a whole number; 0 for all samples at once"),
        ("lr", lr, math.isfinite(lr) and lr > 0, "greater than 0"),
        ("mu", mu, math.isfinite(mu) and mu >= 0, "0 for none, or greater"),
    ):
        if not good:
            raise ConfigError(field, value, fix)
    size = min(batch_size or len(x), len(x))
    net = Net(weights, size)
    start = net.flat.copy()
    losses = []
    with np.errstate(over="ignore", invalid="ignore"):  # looked at once, at the end of an epoch
        for epoch, rows in enumerate(orders):
            losses.append(_epoch(net, x, classes, rows, size, lr, mu, start) / len(rows))
            if not math.isfinite(losses[-1]) or not np.isfinite(net.flat).all():
                raise ConfigError("lr", lr, f"training ran away to infinity in epoch {epoch}: a smaller one")
    return Trained(net.weights(), losses)


def _epoch(
    net: Net,
    x: Array,
    classes: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    size: int,
    lr: float,
    mu: float,
    start: Array,
) -> float:
    room = np.empty((size, x.shape[1]), dtype=np.float32)
    pull = np.empty_like(start)
    each = np.arange(size)
    loss = 0.0
    for at in range(0, len(rows), size):
        chosen = rows[at : at + size]
        wanted = classes[chosen]
        batch = room[: len(chosen)]
        np.take(x, chosen, axis=0, out=batch, mode="clip")  # "raise" would go through another copy
        slope = net.forward(batch)
        loss += softmax_loss(slope, wanted)
        slope[each[: len(chosen)], wanted] -= np.float32(1)
        slope *= np.float32(lr / len(chosen))
        net.backward(batch, slope)
        if mu:
            np.subtract(net.flat, start, out=pull)
            pull *= np.float32(lr * mu)
            net.step += pull
        net.flat -= net.step
    return loss


def _checked(weights: Weights, x: Array, y: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The classes, if the samples are such as the model takes."""
    sizes = sizes_of(weights)
    if x.ndim != 2 or x.shape[1] != sizes[0] or x.dtype != np.float32:
        raise ConfigError("x", (x.shape, str(x.dtype)), f"float32 of shape (samples, {sizes[0]})")
    if len(x) == 0 or y.shape != (len(x),):
        raise ConfigError("y", y.shape, f"one class for each of {len(x)} samples, and at least one sample")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= sizes[-1]:
        shown = f"{y.dtype} from {y.min()} to {y.max()}"
        raise ConfigError("y", shown, f"whole numbers from 0 to {sizes[-1] - 1}")
    return y.astype(np.int64, copy=False)
