"""What participants of an experiment train: a set cut into parts, the numpy perceptron, and some who lie.

``make`` is called once in each process that holds participants, and gives the function that trains for any of them. The
number at the end of a participant's id says which part it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
import numpy as np

from quoracy.core.errors import ConfigError
from quoracy.learn import digits, fashion, mlp
from quoracy.learn.partition import partitions

SIZES: Final = {"fashion-mnist": mlp.TWO_NN, "digits": (64, 32, 10)}
Lie = Literal["flip", "noise", "nan", "shape", "scale"]
Trained = tuple[mlp.Weights, int, dict[str, float], dict[str, list[float]]]
Trainer = Callable[[str, mlp.Weights | None, Any], Trained]
"""Participant, global weights (None: the initial ones are wanted), work -> weights, samples, metrics, history."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    samples: str = "fashion-mnist"
    partition: str = "iid"
    parts: int = 100
    seed: int = 1
    liars: int = 0
    """So many, the first ones, send what ``lie`` makes of their update."""
    lie: Lie = "flip"


def source(name: str) -> Any:
    if name not in SIZES:
        raise ConfigError("samples", name, f"choose one of: {', '.join(SIZES)}")
    return fashion if name == "fashion-mnist" else digits


def make(arguments: dict[str, Any]) -> Trainer:
    settings = msgspec.convert(arguments, Settings)
    where = source(settings.samples)
    rows = partitions(settings.partition, where.labels("train"), settings.parts, settings.seed)
    held: dict[int, Any] = {}

    def train(member: str, weights: mlp.Weights | None, work: Any) -> Trained:
        part = int(member.rpartition("-")[2])
        if weights is None:
            return mlp.initial(SIZES[settings.samples], settings.seed), 0, {}, {}
        if part not in held:
            x, y = _whole(settings.samples)
            held[part] = x[rows[part]], y[rows[part]]
        x, _ = held[part]
        new, losses = _trained(settings, weights, held[part], work, part)
        sent = lied(settings.lie, weights, new, part) if part < settings.liars else new
        return sent, len(x), {"loss": losses[-1]} if losses else {}, {"loss": losses} if losses else {}

    return train


def _trained(
    settings: Settings, weights: mlp.Weights, held: Any, work: Any, seed: int
) -> tuple[mlp.Weights, list[float]]:
    """A model that liars have led astray cannot always be trained any more: then it is sent back as it came."""
    hyper = work.hyper
    try:
        return mlp.train(
            weights, *held, epochs=work.epochs, batch_size=int(hyper.get("batch_size", 10)),
            lr=float(hyper.get("lr", 0.05)), seed=seed, mu=float(hyper.get("mu", 0.0)), epoch_base=work.epoch_base,
        )  # fmt: skip
    except ConfigError:
        if not settings.liars:
            raise
        return dict(weights), []


def lied(lie: Lie, before: mlp.Weights, after: mlp.Weights, seed: int) -> mlp.Weights:
    """What somebody sends who wants to do harm."""
    match lie:
        case "flip":
            return {name: before[name] - 5 * (after[name] - before[name]) for name in after}
        case "noise":
            drawn = np.random.Generator(np.random.PCG64(seed))
            return {name: after[name] + drawn.normal(0, 1, after[name].shape).astype(np.float32) for name in after}
        case "nan":
            return {name: np.full_like(value, np.nan) for name, value in after.items()}
        case "shape":
            return {name: value.reshape(-1) for name, value in after.items()}
        case "scale":
            return {name: value * np.float32(1e6) for name, value in after.items()}


@lru_cache(1)
def _whole(name: str) -> Any:
    """Read once in a process: it holds many parts, and unpacking the set for each takes longer than training."""
    return source(name).load("train")


@lru_cache(2)
def _held_out(name: str) -> Any:
    return source(name).load("test")


def evaluate_fashion(weights: mlp.Weights, _task: Any = None) -> dict[str, float]:
    """For ``evaluation``: accuracy and loss on the pictures that nobody trains on."""
    return _finite(mlp.evaluate(weights, *_held_out("fashion-mnist")))


def evaluate_digits(weights: mlp.Weights, _task: Any = None) -> dict[str, float]:
    return _finite(mlp.evaluate(weights, *_held_out("digits")))


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    """The loss of a model that liars have led astray may be none."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


EVALUATIONS: Final = {
    "fashion-mnist": f"{__name__}:{evaluate_fashion.__name__}",
    "digits": f"{__name__}:{evaluate_digits.__name__}",
}
