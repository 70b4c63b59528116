"""What happens to a rank, told as it happens: to a callback, and to the log of the program.

The log is Python's, under ``quoracy.ranks``: stages are for debugging, records are worth a line, and that somebody was
given up is a warning. ``QUORACY_LOG=info`` (or debug, warn, error) shows it on standard error, in programs that have
not set up a log themselves.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from quoracy.core.codec import said_s
from quoracy.core.errors import ConfigError
from quoracy.core.ranks.state import Decision

log = logging.getLogger("quoracy.ranks")
LEVELS: Final = {
    "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "warning": logging.WARNING,
    "error": logging.ERROR,
}  # fmt: skip


class News(msgspec.Struct, frozen=True):
    """One happening, as this rank sees it."""

    what: Literal["stage", "decision", "joined", "left", "store-lost"]
    at_s: float
    """On the monotonic clock of this machine."""
    text: str
    stage: str = ""
    decision: Decision | None = None
    rank: int = -1
    """Who joined or left."""


OnNews = Callable[[News], None]


def show_log() -> None:
    """As ``QUORACY_LOG`` wants it. Once: a second rank in the same process does not make every line twice."""
    wanted = os.environ.get("QUORACY_LOG", "").strip().lower()
    if not wanted:
        return
    if wanted not in LEVELS:
        raise ConfigError("QUORACY_LOG", wanted, f"one of: {', '.join(LEVELS)}")
    log.setLevel(LEVELS[wanted])
    if not log.handlers and not logging.getLogger().handlers:
        shown = logging.StreamHandler()
        shown.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
        log.addHandler(shown)


class Teller:
    def __init__(self, rank: int, on_news: OnNews | None) -> None:
        self._rank = rank
        self._on_news = on_news

    def stage(self, name: str) -> None:
        log.debug("rank %d: %s", self._rank, name)
        self._tell(News("stage", time.monotonic(), name, stage=name))

    def decision(self, decision: Decision) -> None:
        text = decided(decision)
        log.log(logging.WARNING if decision.gone else logging.INFO, "rank %d: %s", self._rank, text)
        self._tell(News("decision", time.monotonic(), text, decision=decision))

    def came(self, rank: str, incarnation: int) -> None:
        text = f"rank {rank} has come, as its life {incarnation}"
        log.info("rank %d: %s", self._rank, text)
        self._tell(News("joined", time.monotonic(), text, rank=int(rank)))

    def lost(self, why: str) -> None:
        log.warning("rank %d: the store was lost: %s", self._rank, why)
        self._tell(News("store-lost", time.monotonic(), why))

    def left(self, rank: str, reason: str) -> None:
        text = f"rank {rank} has left: {reason or 'it gave no reason'}"
        log.info("rank %d: %s", self._rank, text)
        self._tell(News("left", time.monotonic(), text, rank=int(rank)))

    def _tell(self, news: News) -> None:
        if self._on_news is not None:
            self._on_news(news)


def decided(decision: Decision) -> str:
    """A record in a sentence."""
    said = [f"attempt {decision.attempt} of iteration {decision.number} {decision.outcome} by rank {decision.decider}"]
    if decision.against:
        said.append(f"against: {', '.join(decision.against)}")
    said += [f"rank {rank} is given up: {why}" for rank, why in decision.gone]
    if decision.came:
        said.append(f"counted in: {', '.join(decision.came)}")
    said.append(f"{len(decision.members)} go on")
    if decision.last_to_come:
        waited = f", {said_s(decision.longest_wait_us)} after the first" if decision.longest_wait_us else ""
        said.append(f"last to come: {decision.last_to_come}{waited}")
    return "; ".join(said)
