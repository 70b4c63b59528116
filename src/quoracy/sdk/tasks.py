"""What a trainer is given beside the weights, what a participant tells while it goes on, and what it ends with."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from quoracy.core.errors import ConfigError
from quoracy.sdk.errors import WorkerError, again
from quoracy.sdk.metrics import MAX_VALUE, check_metrics, check_number
from quoracy.sdk.page import Page

log = logging.getLogger("quoracy")
MAX_EPOCHS: Final = 256
MAX_NAMES: Final = 32
"""Of metrics, and of lists in a history: as many as an entry of the journal has room for."""


class ParticipantNews(msgspec.Struct, frozen=True):
    """One happening, as a participant sees it."""

    what: Literal[
        "joined", "unreachable", "reachable", "later", "standby", "round", "epoch", "trained", "verdict", "over"
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
        page: Page,
        wanted: Callable[[], bool],
        ended: Callable[[], WorkerError | None],
        on_epoch: Callable[[int, dict[str, float]], None],
    ) -> None:
        self.page = page
        self.on_epoch = on_epoch
        self.wanted = wanted
        self.ended = ended
        self.history: dict[str, list[float]] = {}
        self._measured: frozenset[str] = frozenset()
        self._told: set[str] = set()

    def moved(self, amount: int) -> None:
        if (error := self.ended()) is not None:
            raise again(error)
        self.page.progress(amount)

    def measure(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Shown with the next heartbeats. Returns those that are finite."""
        if unknown := metrics.keys() - self._measured:
            self._measured = check_metrics(unknown, self._measured)
        numbers = {name: check_number(name, value) for name, value in metrics.items()}
        finite = {name: number for name, number in numbers.items() if abs(number) <= MAX_VALUE}
        for name in numbers.keys() - finite.keys() - self._told:
            self._told.add(name)
            log.warning("%s is %s: left out until it is finite", name, numbers[name])
        self.page.measure(finite, numbers.keys() - finite.keys())
        return finite

    def note(self, metrics: dict[str, float]) -> None:
        for name, number in metrics.items():
            kept = self.history.setdefault(name, [])
            if len(kept) < MAX_EPOCHS:
                kept.append(number)


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
        """Epoch ``number`` of this round is over, counted from 0. Its numbers go into the round's history."""
        if number < 0:
            raise ConfigError("epoch", number, "a whole number from 0 on")
        if self._ledger is not None:
            self._ledger.moved(1)
            self._ledger.page.report(epoch=self.epoch_base + number + 1)
            finite = self._ledger.measure(metrics)
            self._ledger.note(finite)
            self._ledger.on_epoch(number, finite)

    def dropped(self) -> bool:
        """The round has gone on without this participant: whatever is trained now is for nothing. Cheap."""
        return self._ledger is not None and not self._ledger.wanted()


def checked_metrics(metrics: Any) -> dict[str, float | list[float]]:
    """What a trainer returned, as it can be sent: numbers and lists of numbers, the finite ones. Raises ConfigError."""
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise ConfigError("metrics", repr(metrics)[:80], "a dict of numbers, or of lists of numbers")
    if len(metrics) > MAX_NAMES:
        raise ConfigError("metrics", len(metrics), f"at most {MAX_NAMES} names")
    kept: dict[str, float | list[float]] = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or not 1 <= len(name) <= 64:
            raise ConfigError("metrics", name, "names of 1 to 64 characters")
        if isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0:
            numbers = [check_number(name, number) for number in value]
            if len(numbers) > MAX_EPOCHS:
                raise ConfigError(
                    name, f"{len(numbers)} numbers", f"at most {MAX_EPOCHS}: larger ones belong elsewhere"
                )
            if all(map(_sendable, numbers)):
                kept[name] = numbers
        elif _sendable(number := check_number(name, value)):
            kept[name] = number
    return kept


def _sendable(number: float) -> bool:
    return math.isfinite(number) and abs(number) <= MAX_VALUE


__all__ = ["Ledger", "OnNews", "ParticipantNews", "Summary", "Task", "checked_metrics"]
