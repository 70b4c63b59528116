"""What a member of a witnessed run brings to train with, and what it is given.

A trainer is made by calling ``module:Trainer`` with a ``RunTask``, once in the life of a process. Then:

    load      before the first round, and again whenever this member has to catch up with the others
    train     the batches of an assignment; its result is sent to the others
    apply     the results that count, in the order in which they count, this member's own among them
    weights   the model as it is: hashed every round, handed to newcomers, stored at the end of an epoch
    evaluate  numbers for people

Everybody applies the same results in the same order, and must end with the same bits. So ``apply`` and the weights that
``load(None)`` makes may only use what gives the same bits everywhere; ``GradientTrainer`` does. ``train`` is free of
that: its result is made by one member and sent to all. But it must not change the model.

All calls come one at a time, not always from the same thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.batches import rows

Array = NDArray[Any]
Weights = dict[str, Array]
Samples = dict[str, Array]
"""Arrays by name, with one row for each sample."""

OPTIMIZER: Final = "optimizer/"
BUFFER: Final = "buffer/"
METHODS: Final = ("load", "train", "apply", "weights", "evaluate")


@dataclass(frozen=True)
class Result:
    """What came of training some batches: usually the mean gradient over their samples."""

    arrays: Weights
    """One for each tensor that is trained, under its name and of its shape."""
    samples: int
    """So many were looked at. Results are weighed by it."""
    loss: float = 0.0
    """The mean over the samples."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further numbers for people. They stay with this member's heartbeats and do not travel with the result."""


class Source(Protocol):
    """Where samples come from. Everybody gets the same samples for the same batch."""

    def samples(self, batch_ids: Sequence[int]) -> Samples:
        """Those of these batches, batch after batch."""

    def held_out(self) -> Samples | None:
        """What nobody trains on, for ``evaluate``; None where there is none."""


def _no_news(_amount: int) -> None:
    pass


@dataclass(frozen=True)
class RunTask:
    """What a trainer is made from. All but ``member`` and ``device`` is the same for every member of the run."""

    run: str = "run"
    member: str = "member"
    seed: int = 0
    """Of the run's settings: for the weights to begin with, and the order of the samples."""
    batch_size: int = 32
    """Samples in a batch."""
    hyper: Mapping[str, Any] = field(default_factory=dict)
    """Of the run's settings, as they stand there."""
    source: Source | None = None
    """Where the run's settings name no data, the trainer brings its own."""
    device: str = "cpu"
    """Of this machine; for those who can choose."""
    on_progress: Callable[[int], None] = field(default=_no_news, repr=False, compare=False)

    def rows(self, batch_ids: Sequence[int], count: int) -> NDArray[np.int64]:
        """For a trainer with samples of its own: which of ``count`` samples these batches are."""
        return rows(batch_ids, self.batch_size, count, self.seed)

    def progress(self, amount: int = 1) -> None:
        """The training has moved: said now and then, a member that stands still is told from one that works."""
        self.on_progress(amount)

    def number(self, name: str, otherwise: float) -> float:
        """A hyper-parameter that is a number."""
        value = self.hyper.get(name, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"hyper.{name}", value, f"a number, such as {otherwise}")
        return float(value)


class Trainer(Protocol):
    """See above. ``GradientTrainer`` leaves three functions to write."""

    def load(self, weights: Weights | None) -> None:
        """Go on from these weights, as ``weights()`` of some member gave them; they may be kept and written to. None:
        from those a run begins with, the same on every machine. Refuse what does not fit, naming the tensor."""

    def train(self, batch_ids: Sequence[int]) -> Result:
        """Work on these batches from the model as it is, and leave the model as it is."""

    def apply(self, results: Iterable[Result]) -> None:
        """Change the model by these results, in this order. They may be made one by one while they are asked for, so
        that many of them need the room of one. None at all: the model stays what it is."""

    def weights(self) -> Weights:
        """All that the next ``apply`` depends on. What is trained stands under names of its own, the memory of an
        optimizer under ``optimizer/...``, and tensors that no result changes under ``buffer/...``. Whoever wants to
        keep an array beyond the next ``apply`` copies it."""

    def evaluate(self) -> dict[str, float]:
        """Numbers for people, such as the accuracy on samples that were held out. May be empty."""


Factory = Callable[[RunTask], Trainer]


def check_trainer(trainer: Any, name: str) -> Trainer:
    """Raises ConfigError, naming what is missing."""
    missing = [method for method in METHODS if not callable(getattr(trainer, method, None))]
    if missing:
        made = type(trainer).__name__
        raise ConfigError(
            "trainer", name, f"what it makes is a {made} without {', '.join(missing)}: a Trainer has them"
        )
    checked: Trainer = trainer
    return checked
