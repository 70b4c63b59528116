"""From a mean gradient to the next weights, the same to the last bit on every machine.

Only operations whose result IEEE 754 fixes are used, element by element: add, subtract, multiply, divide, square root,
conversions between float32 and float64, minimum and maximum against a bound above 0. numpy does them in scalar code, in
SSE, AVX-512 or NEON with the same bits (on 64-bit processors). What is *not* fixed, and must not be used here: exp,
log, tanh, power, sin (other bits from one instruction set to the next), sum, mean, dot and norm (the order of additions
is anybody's), and matmul (so many threads, so many orders). Not even ``beta ** step``: the powers that Adam needs are
kept and multiplied on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np

from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.learn.witnessed.trainer import Array, Weights

NAMES: Final = ("sgd", "adam")
HYPER: Final[dict[str, float]] = {
    "lr": 0.05, "momentum": 0.9, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8, "clip": 0.0,
}  # fmt: skip
"""Where the run does not say."""
ADAM_LR: Final = 0.001


class Optimizer(Protocol):
    def memory(self, weights: Weights) -> Weights:
        """What it remembers at the beginning, by names within ``optimizer/``."""

    def begin(self, memory: Weights) -> None:
        """One more step: what is the same for all numbers."""

    def step(self, name: str, place: slice, weights: Array, slope: Array, memory: Weights) -> None:
        """Change some of the weights of one tensor in place. ``slope`` is theirs, and may be overwritten."""


class Sgd:
    """v = momentum * v + slope; w = w - lr * v."""

    def __init__(self, lr: float, momentum: float) -> None:
        self.lr, self.momentum = lr, momentum

    def memory(self, weights: Weights) -> Weights:
        if not self.momentum:
            return {}
        return {f"momentum/{name}": np.zeros_like(array) for name, array in weights.items()}

    def begin(self, memory: Weights) -> None:
        pass

    def step(self, name: str, place: slice, weights: Array, slope: Array, memory: Weights) -> None:
        number = weights.dtype.type
        if self.momentum:
            velocity = memory[f"momentum/{name}"].reshape(-1)[place]
            np.multiply(velocity, number(self.momentum), out=velocity)
            np.add(velocity, slope, out=velocity)
            slope = np.multiply(velocity, number(self.lr), out=slope)
        else:
            np.multiply(slope, number(self.lr), out=slope)
        np.subtract(weights, slope, out=weights)


class Adam:
    """Kingma and Ba (2015), with the powers of both betas kept in double precision."""

    def __init__(self, lr: float, beta_1: float, beta_2: float, epsilon: float) -> None:
        self.lr, self.betas, self.epsilon = lr, (beta_1, beta_2), epsilon

    def memory(self, weights: Weights) -> Weights:
        kept: Weights = {"powers": np.ones(2, np.float64)}
        for name, array in weights.items():
            kept[f"first/{name}"] = np.zeros_like(array)
            kept[f"second/{name}"] = np.zeros_like(array)
        return kept

    def begin(self, memory: Weights) -> None:
        np.multiply(memory["powers"], np.array(self.betas, np.float64), out=memory["powers"])

    def step(self, name: str, place: slice, weights: Array, slope: Array, memory: Weights) -> None:
        number = weights.dtype.type
        first, second = (memory[f"{moment}/{name}"].reshape(-1)[place] for moment in ("first", "second"))
        beta_1, beta_2 = self.betas
        left_1, left_2 = (1.0 - float(power) for power in memory["powers"])
        square = np.multiply(slope, slope)
        for moment, beta, new in ((first, beta_1, slope), (second, beta_2, square)):
            np.multiply(moment, number(beta), out=moment)
            np.multiply(new, number(1.0 - beta), out=new)
            np.add(moment, new, out=moment)
        np.divide(second, number(left_2), out=square)
        np.sqrt(square, out=square)
        np.add(square, number(self.epsilon), out=square)
        np.multiply(first, number(self.lr / left_1), out=slope)
        np.divide(slope, square, out=slope)
        np.subtract(weights, slope, out=weights)


def optimizer_of(hyper: Mapping[str, Any]) -> Optimizer:
    """As the run's hyper-parameters name it. Raises ConfigErrors with all that is wrong."""
    name = hyper.get("optimizer", NAMES[0])
    wrong = [] if name in NAMES else [ConfigError("hyper.optimizer", name, f"one of: {', '.join(NAMES)}")]
    usual = HYPER | ({"lr": ADAM_LR} if name == "adam" else {})
    found = {known: hyper.get(known, otherwise) for known, otherwise in usual.items()}
    for known, value in found.items():
        plain = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not plain or not (value > 0 if known in ("lr", "epsilon") else value >= 0):
            least = "above 0" if known in ("lr", "epsilon") else "0 or greater"
            wrong.append(ConfigError(f"hyper.{known}", value, f"a number {least}, such as {usual[known]}"))
        elif known in ("momentum", "beta_1", "beta_2") and value >= 1:
            wrong.append(ConfigError(f"hyper.{known}", value, f"below 1, such as {usual[known]}"))
    if wrong:
        raise ConfigErrors(wrong)
    if name == "adam":
        return Adam(found["lr"], found["beta_1"], found["beta_2"], found["epsilon"])
    return Sgd(found["lr"], found["momentum"])
