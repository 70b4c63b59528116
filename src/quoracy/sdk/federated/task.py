"""What a trainer is given beside the weights, what a participant tells while it goes on, and what it ends with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
import numpy as np

from quoracy.core.errors import ConfigError
from quoracy.core.federated.events import MAX_AXES, MAX_METRICS, MAX_NAME, MAX_NUMBERS, Metrics
from quoracy.core.federated.measured import SHOWN, BadMetric, shaped
from quoracy.sdk.client.errors import WorkerError, again
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.metrics import MAX_VALUE, check_metrics, check_number

log = logging.getLogger("quoracy")
MAX_EPOCHS: Final = MAX_NUMBERS
MAX_NAMES: Final = MAX_METRICS
"""Of lists in a history: as many as an entry of the journal has room for."""


class ParticipantNews(msgspec.Struct, frozen=True):
    """One happening, as a participant sees it."""

    what: Literal[
        "joined",
        "unreachable",
        "reachable",
        "later",
        "standby",
        "round",
        "epoch",
        "trained",
        "verdict",
        "warning",
        "over",
    ]
    text: str
    round: int = -1
    samples: int = 0
    metrics: dict[str, Any] = {}
    admitted: bool = False


OnNews = Callable[[ParticipantNews], None]


class Summary(msgspec.Struct, frozen=True):
    """How it went, for this process. Counted are verdicts that it was told."""

    run: str
    participant: str
    trained: int
    """Rounds it has trained in, whatever became of the updates."""
    admitted: int
    """Updates that count."""
    refused: tuple[tuple[int, str], ...]
    """Round and reason of each update that does not count: unfit, or too late."""
    ended: Literal["finished", "drained", "superseded"]
    reason: str


class Ledger:
    """What one training has reported. ``wanted`` tells whether anybody still waits for it."""

    def __init__(
        self,
        memory: Memory,
        wanted: Callable[[], bool],
        ended: Callable[[], WorkerError | None],
        on_epoch: Callable[[int, dict[str, float]], None],
    ) -> None:
        self.memory = memory
        self.on_epoch = on_epoch
        self.wanted = wanted
        self.ended = ended
        self.history: dict[str, list[float]] = {}
        self.warnings: list[str] = []
        """What was left out, and why. A bad metric costs the metric, never the training."""
        self._measured: frozenset[str] = frozenset()
        self._told: set[str] = set()
        self._hidden = False
        """Something has no room in a heartbeat, which was said."""

    def moved(self, amount: int) -> None:
        if (error := self.ended()) is not None:
            raise again(error)
        self.memory.progress(amount)

    def measure(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Shown with the next heartbeats. Returns those that are finite numbers."""
        finite: dict[str, float] = {}
        for name, value in metrics.items():
            try:
                number = check_number(name, value)
            except ConfigError as error:
                self._warn(name, f"{error.value} is no number")
                continue
            if abs(number) <= MAX_VALUE:
                finite[name] = number
            else:
                self._warn(name, f"{number} is left out until it is finite")
        shown = {name: number for name, number in finite.items() if self._may_show(name)}
        self.memory.measure(shown, self._measured & metrics.keys() - finite.keys())
        return finite

    def _may_show(self, name: str) -> bool:
        if name in self._measured:
            return True
        try:
            self._measured = check_metrics([name], self._measured)
        except ConfigError as error:
            if not self._hidden:
                log.warning("%s is not shown with heartbeats: %s", name, error.fix)
            self._hidden = True
            return False
        return True

    def note(self, metrics: dict[str, float]) -> None:
        for name, number in metrics.items():
            if name not in self.history and len(self.history) >= MAX_NAMES:
                self._warn(name, f"left out of the history, which has {MAX_NAMES} names")
                continue
            kept = self.history.setdefault(name, [])
            if len(kept) < MAX_EPOCHS:
                kept.append(number)
            else:
                self._warn(f"{name}, epoch {MAX_EPOCHS} and on", f"the history has {MAX_EPOCHS} numbers of each name")

    def _warn(self, name: str, why: str) -> None:
        """Once for each name."""
        if name not in self._told:
            self._told.add(name)
            self.warnings.append(f"{name[:SHOWN]}: {why}")
            log.warning("%s", self.warnings[-1])


@dataclass(frozen=True)
class Task:
    """What to train: given to the trainer beside the weights."""

    run: str
    participant: str
    round: int
    rounds: int
    """So many there will be at most."""
    epochs: int
    """Passes over the samples to make now."""
    epoch_base: int
    """Passes made in the rounds before."""
    hyper: Mapping[str, Any]
    """Hyper-parameters of this round, as the run's settings name them: lr, batch_size, and mu of FedProx."""
    dataset: Any = None
    """What ``participate`` was given under this name."""
    _ledger: Ledger | None = field(default=None, repr=False, compare=False)

    def progress(self, amount: int = 1, *, metrics: Mapping[str, Any] | None = None) -> None:
        """The training has moved. Costs about a microsecond: call it for every batch, and a participant that stands
        still is told from one that works. ``metrics``: at most 16 numbers, such as the loss so far, for people. Raises
        ``Draining`` once SIGTERM has come and ``drain_s`` are over: the place was handed back; ``Superseded`` when a
        newer process has it."""
        if self._ledger is not None:
            self._ledger.moved(amount)
            if metrics:
                self._ledger.measure(metrics)

    def epoch(self, number: int, **metrics: Any) -> None:
        """Epoch ``number`` of this round is over, counted from 0. Its numbers go into this participant's history of the
        round: at most 32 names, and 256 numbers of each. What is no finite number is left out, with a warning."""
        if number < 0:
            raise ConfigError("epoch", number, "a whole number from 0 on")
        if self._ledger is not None:
            self._ledger.moved(1)
            self._ledger.memory.report(epoch=self.epoch_base + number + 1)
            finite = self._ledger.measure(metrics)
            self._ledger.note(finite)
            self._ledger.on_epoch(number, finite)

    def dropped(self) -> bool:
        """The round has gone on without this participant: whatever is trained now is for nothing. Cheap."""
        return self._ledger is not None and not self._ledger.wanted()


class Returned(msgspec.Struct, frozen=True):
    """The metrics that a trainer returned, as they can be sent."""

    small: Metrics
    """Numbers and arrays that go with the offer."""
    large: dict[str, Any]
    """Arrays that are brought as an object."""
    warnings: list[str]


def returned_metrics(metrics: Any) -> Returned:
    """Numbers, and arrays of any shape: numpy's, torch's, lists in lists. What is none of these, or has numbers that
    are not finite, is left out: a training is not lost over it."""
    small: Metrics = {}
    large: dict[str, Any] = {}
    warnings: list[str] = []
    if metrics is not None and not isinstance(metrics, Mapping):
        return Returned({}, {}, [f"metrics: {type(metrics).__name__} is no dict of names and numbers, and is left out"])
    for name, value in (metrics or {}).items():
        try:
            if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
                raise BadMetric(f"a name has 1 to {MAX_NAME} characters")
            array = _array(value)
            kept: dict[str, Any] = small if array.size <= MAX_NUMBERS and array.ndim <= MAX_AXES else large
            if len(kept) >= MAX_METRICS:
                raise BadMetric(f"at most {MAX_METRICS} names are kept")
            kept[name] = shaped(array.shape, array.astype(float).ravel().tolist()) if kept is small else array
        except BadMetric as error:
            warnings.append(f"metrics.{str(name)[:SHOWN]} is left out: {error}")
    return Returned(small, large, warnings)


def _array(value: Any) -> Any:
    """As one of numpy. Raises BadMetric."""
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except Exception as error:  # whatever it is that somebody calls a metric
        raise BadMetric(f"{type(value).__name__} is no number and no array: {str(error)[:SHOWN]}") from None
    if array.dtype.kind not in "biuf":
        raise BadMetric(f"{repr(value)[:SHOWN]} is no number and no array of numbers")
    if array.ndim > 1 and not array.size:
        raise BadMetric("it has no numbers")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    wide = array.dtype == np.float64
    if not np.isfinite(array).all() or (wide and bool((np.abs(array) > MAX_VALUE).any())):
        raise BadMetric("it has numbers that are not finite, or too large")
    return array


__all__ = ["Ledger", "OnNews", "ParticipantNews", "Returned", "Summary", "Task", "returned_metrics"]
