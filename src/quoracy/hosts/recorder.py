"""The thread that writes history: points are handed over by the event loop and written together, a second's worth at a
time. Nothing waits for it; if the disk cannot keep up, points are left out, counted, and told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from quoracy.config.settings import SeriesSettings
from quoracy.core.errors import QuoracyError
from quoracy.hosts.log import Log
from quoracy.hosts.metrics import Metrics
from quoracy.ports import Key, Point, Series, Tier
from quoracy.stores import MemorySeries, SqliteSeries

FLUSH_S: Final = 1.0
MAX_WAITING: Final = 100_000
"""Points. A minute of a large fleet: a disk that is so far behind does not catch up."""
TIDY_S: Final = 300.0
DRIFT_S: Final = 30.0
DAY_S: Final = 86_400.0
MEMORY_SHARE: Final = 6
"""In memory everything is kept for a sixth of the time: a bucket takes 200 bytes there, and 75 on disk."""


class Clocks:
    """When it is time to tidy: now and then, and not if the clock on the wall has gone another way than the one that
    cannot jump. A clock that is a month ahead for a minute must not cost a month of history."""

    def __init__(self, wall_s: float, steady_s: float) -> None:
        self._wall_s, self._steady_s = wall_s, steady_s

    def due(self, wall_s: float, steady_s: float) -> bool:
        past_s = steady_s - self._steady_s
        if past_s < TIDY_S:
            return False
        agree = abs(wall_s - self._wall_s - past_s) <= DRIFT_S
        self._wall_s, self._steady_s = wall_s, steady_s
        return agree


class Recorder:
    def __init__(self, series: Series, metrics: Metrics, log: Log, flush_s: float = FLUSH_S) -> None:
        self._series = series
        self._metrics = metrics
        self._log = log
        self._flush_s = flush_s
        self._queue: SimpleQueue[Sequence[Point] | None] = SimpleQueue()
        self._count = threading.Lock()
        self._waiting = 0
        self._clocks = Clocks(time.time(), time.monotonic())
        self._thread = threading.Thread(target=self._run, name="quoracy-recorder", daemon=True)
        self._thread.start()

    def put(self, points: Sequence[Point]) -> None:
        """Never blocks."""
        with self._count:
            full = self._waiting + len(points) > MAX_WAITING
            if not full:
                self._waiting += len(points)
        if full:
            self._leave_out("the disk is behind", f"{MAX_WAITING} points wait to be written", len(points))
        elif points:
            self._queue.put(points)

    def highest(self, run: str, name: str) -> float | None:
        """The largest number of this series, of those that are kept. Blocks; None if there is none, or nobody knows."""
        try:
            buckets = self._series.read(run, name, "", 0.0, time.time() + DAY_S, 10_000)
        except (QuoracyError, ValueError):
            return None
        return max((bucket.high for bucket in buckets), default=None)

    def waiting(self) -> int:
        return self._waiting

    def close(self) -> None:
        """What was handed over before is written first."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            first = self._queue.get()
            batch = list(first or ())
            open_ = first is not None
            deadline = time.monotonic() + self._flush_s
            while open_ and (left_s := deadline - time.monotonic()) > 0:
                try:
                    more = self._queue.get(timeout=left_s)
                except Empty:
                    break
                open_ = more is not None
                batch += more or ()
            self._write(batch)
            self._tidy()

    def _write(self, batch: list[Point]) -> None:
        try:
            refused = set(self._series.write(batch))
            if refused:
                points = sum(1 for point in batch if Key(point.run, point.name, point.subject) in refused)
                names = ", ".join(sorted({f"{key.name} of {key.subject or key.run}" for key in refused})[:3])
                why = f"no room for {len(refused)} more series, such as {names}: raise series.max_series_per_run"
                self._leave_out("no room", why, points)
        except (QuoracyError, ValueError) as error:
            self._leave_out("cannot be written", str(error), len(batch))
        finally:
            with self._count:
                self._waiting -= len(batch)

    def _tidy(self) -> None:
        now_s = time.time()
        if self._clocks.due(now_s, time.monotonic()):
            try:
                self._series.tidy(now_s)
            except (QuoracyError, ValueError) as error:
                self._log.once("history cannot be tidied", "", str(error))

    def _leave_out(self, sort: str, why: str, points: int) -> None:
        self._metrics.unkept(sort, points)
        self._log.once("history is incomplete", sort, why)


def open_series(folder: Path | None, settings: SeriesSettings, log: Log) -> Series:
    """The history beside the journal in that folder; without one, in memory. Never fails: history is for people, and
    must not keep a coordinator from starting."""
    tiers = tuple(Tier(*tier) for tier in settings.kept())
    per_run, in_all = settings.max_series_per_run, settings.max_series
    if folder is not None:
        try:
            return SqliteSeries(
                folder,
                tiers=tiers,
                max_series_per_run=per_run,
                max_series=in_all,
                say=lambda what: log.warn("history was damaged", why=what),
            )
        except (QuoracyError, OSError) as error:
            log.warn("history cannot be opened: this server keeps it in memory only", why=str(error))
    short = tuple(Tier(tier.width_s, max(tier.width_s, tier.keep_s // MEMORY_SHARE)) for tier in tiers)
    return MemorySeries(tiers=short, max_series_per_run=per_run, max_series=in_all)
