"""Trainers by name, for trying a federated run with real samples and nothing installed:
``quoracy.learn.trainers:digits`` and ``:fashion``.

Which samples a participant holds is said in a few letters: ``digits:3/10`` is the third of ten equal parts,
``fashion:classes:2:17/100`` the seventeenth of a hundred with two classes in each. The seed of the cut is the same for
everybody, so that no two participants hold the same sample.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol

import numpy.typing as npt

from quoracy.core.errors import ConfigError
from quoracy.learn import digits as digits_set
from quoracy.learn import fashion as fashion_set
from quoracy.learn import mlp
from quoracy.learn.partition import parse_partition, partitions

SEED: Final = 1
SETS: Final[dict[str, tuple[ModuleType, tuple[int, ...]]]] = {
    "digits": (digits_set, (digits_set.FEATURES, 32, digits_set.CLASSES)),
    "fashion": (fashion_set, mlp.TWO_NN),
}
HYPER: Final = {"lr": 0.05, "batch_size": 10, "mu": 0.0}
"""Where the run does not say."""

Trained = tuple[mlp.Weights, int, dict[str, float]]


class Task(Protocol):
    """As much of a participant's task as these trainers need."""

    @property
    def dataset(self) -> Any: ...
    @property
    def epochs(self) -> int: ...
    @property
    def epoch_base(self) -> int: ...
    @property
    def hyper(self) -> Mapping[str, Any]: ...
    def epoch(self, number: int, **metrics: Any) -> None: ...


class Part(NamedTuple):
    """Which samples, and how many parts there are."""

    name: str
    partition: str
    number: int
    """From 1 on."""
    of: int


def parse_part(text: Any, name: str) -> Part:
    """``NAME:NUMBER/OF`` or ``NAME:PARTITION:NUMBER/OF``. Raises ConfigError."""
    fix = f"write {name}:NUMBER/OF or {name}:PARTITION:NUMBER/OF, such as {name}:3/10 or {name}:classes:2:3/10"
    found = re.fullmatch(rf"{name}:(?:(.+):)?([0-9]{{1,6}})/([0-9]{{1,6}})", text if isinstance(text, str) else "")
    if found is None:
        raise ConfigError("dataset", text, fix)
    part = Part(name, found[1] or "iid", int(found[2]), int(found[3]))
    parse_partition(part.partition)
    if not 1 <= part.number <= part.of:
        raise ConfigError("dataset", text, f"the parts are numbered from 1 to {part.of}")
    return part


@lru_cache(4)
def samples_of(part: Part) -> tuple[mlp.Array, npt.NDArray[Any]]:
    where = SETS[part.name][0]
    rows = partitions(part.partition, where.labels("train"), part.of, SEED)[part.number - 1]
    x, y = where.load("train", rows)
    return x, y


def digits(weights: mlp.Weights, task: Task) -> Trained:
    """1,442 handwritten digits, which come with the package."""
    return _train("digits", weights, task)


def fashion(weights: mlp.Weights, task: Task) -> Trained:
    """60,000 pictures of clothes, from Debian's package dataset-fashion-mnist."""
    return _train("fashion", weights, task)


def initial(name: str) -> Callable[[], mlp.Weights]:
    """Weights to begin with; the same in every process."""
    return lambda: mlp.initial(SETS[name][1], SEED)


digits.initial = initial("digits")  # type: ignore[attr-defined]
fashion.initial = initial("fashion")  # type: ignore[attr-defined]


def _train(name: str, weights: mlp.Weights, task: Task) -> Trained:
    part = parse_part(task.dataset, name)
    x, y = samples_of(part)
    hyper = HYPER | {known: task.hyper[known] for known in HYPER if known in task.hyper}
    trained = mlp.train(
        weights, x, y, epochs=task.epochs, batch_size=int(hyper["batch_size"]), lr=float(hyper["lr"]),
        mu=float(hyper["mu"]), seed=part.number, epoch_base=task.epoch_base,
    )  # fmt: skip
    for epoch, loss in enumerate(trained.losses):
        task.epoch(epoch, loss=loss)
    return trained.weights, len(x), {"loss": trained.losses[-1]}
