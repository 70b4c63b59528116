"""Series in memory: for tests, and for coordinators that keep nothing else on disk either.

Up to 11,520 buckets a series with the default tiers, about 200 bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

from quoracy.ports.series import MAX_SERIES, MAX_SERIES_PER_RUN, TIERS, Bucket, Key, Point, Tier
from quoracy.stores.limits import run_name
from quoracy.stores.tiers import Sum, check_points, check_span, check_tiers, coarsen, key_of, pick, start_of, sum_of


class _Curve:
    """One series: per tier its buckets by the time at which they begin."""

    def __init__(self, tiers: int) -> None:
        self.tiers: list[dict[int, Sum]] = [{} for _ in range(tiers)]
        self.newest_s = 0.0


class Drawer:
    """What a disk is to the other stores: several handles on one drawer are several processes on one file."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.curves: dict[Key, _Curve] = {}


class MemorySeries:
    def __init__(
        self,
        drawer: Drawer | None = None,
        *,
        tiers: Sequence[Tier] = TIERS,
        max_series_per_run: int = MAX_SERIES_PER_RUN,
        max_series: int = MAX_SERIES,
    ) -> None:
        self.drawer = drawer or Drawer()
        self._tiers = check_tiers(tiers)
        self._max_per_run = max_series_per_run
        self._max = max_series
        self._closed = False

    def write(self, points: Sequence[Point]) -> list[Key]:
        check_points(points)
        refused: dict[Key, None] = {}
        with self._open():
            for point in points:
                curve = self._curve(key_of(point), point.at_s)
                if curve is None:
                    refused[key_of(point)] = None
                    continue
                held = sum_of(point)
                curve.newest_s = max(curve.newest_s, held.at_s)
                for tier, buckets in zip(self._tiers, curve.tiers, strict=True):
                    start_s = start_of(point.at_s, tier.width_s)
                    before = buckets.get(start_s)
                    buckets[start_s] = held if before is None else before.plus(held)
        return list(refused)

    def read(
        self, run: str, name: str, subject: str, since_s: float, until_s: float, max_points: int = 500
    ) -> list[Bucket]:
        check_span(since_s, until_s, max_points)
        with self._open():
            curve = self.drawer.curves.get(Key(run, name, subject))
            if curve is None or until_s < since_s:
                return []
            index = pick(self._tiers, since_s, until_s, max_points, lambda index: min(curve.tiers[index], default=None))
            width_s = self._tiers[index].width_s
            first, last = start_of(since_s, width_s), start_of(until_s, width_s)
            buckets = curve.tiers[index]
            found = [(start, buckets[start]) for start in sorted(buckets) if first <= start <= last]
            return coarsen(found, width_s, since_s, until_s, max_points)

    def names(self, run: str) -> list[tuple[str, str]]:
        run_name(run)
        with self._open():
            return sorted((key.name, key.subject) for key in self.drawer.curves if key.run == run)

    def drop(self, run: str) -> None:
        run_name(run)
        with self._open():
            for key in [key for key in self.drawer.curves if key.run == run]:
                del self.drawer.curves[key]

    def tidy(self, now_s: float) -> None:
        with self._open():
            for key, curve in list(self.drawer.curves.items()):
                for tier, buckets in zip(self._tiers, curve.tiers, strict=True):
                    for start_s in [start for start in buckets if start + tier.width_s <= now_s - tier.keep_s]:
                        del buckets[start_s]
                if not any(curve.tiers):
                    del self.drawer.curves[key]

    def close(self) -> None:
        self._closed = True

    def _open(self) -> RLock:
        if self._closed:
            raise ValueError("this store is closed")
        return self.drawer.lock

    def _curve(self, key: Key, at_s: float) -> _Curve | None:
        """The series, begun if there is room or if one that rests gives way."""
        curves = self.drawer.curves
        if key in curves:
            return curves[key]
        own = [other for other in curves if other.run == key.run]
        full = own if len(own) >= self._max_per_run else list(curves) if len(curves) >= self._max else []
        if full:
            stalest = min(full, key=lambda other: curves[other].newest_s)
            if curves[stalest].newest_s >= at_s - self._tiers[0].keep_s:
                return None
            del curves[stalest]
        curve = curves[key] = _Curve(len(self._tiers))
        return curve
