"""The suite of series can fail: each of these breaks one promise, and the check for that promise says so."""

from __future__ import annotations

import msgspec
import pytest

from quoracy.ports import Bucket, Tier
from quoracy.stores import Drawer, MemorySeries
from quoracy.testing import SERIES_CHECKS, SUITE_IN_ALL, SUITE_PER_RUN, SUITE_TIERS

SMALL = {"tiers": SUITE_TIERS, "max_series_per_run": SUITE_PER_RUN, "max_series": SUITE_IN_ALL}


class LosesALateTier(MemorySeries):
    """A point older than the newest goes into the finest tier only."""

    def write(self, points):
        newest = {key: curve.newest_s for key, curve in self.drawer.curves.items()}
        refused = super().write(points)
        for key, curve in self.drawer.curves.items():
            if newest.get(key, 0.0) > points[-1].at_s:
                start_s = int(points[-1].at_s) // 10 * 10
                curve.tiers[1].pop(start_s, None)
        return refused


class CountsTwiceInCoarseTiers(MemorySeries):
    def write(self, points):
        refused = super().write(points)
        for curve in self.drawer.curves.values():
            for start_s, held in curve.tiers[-1].items():
                curve.tiers[-1][start_s] = msgspec.structs.replace(held, count=held.count + 1)
        return refused


class TakesTheLastWrittenForTheLast(MemorySeries):
    def write(self, points):
        refused = super().write(points)
        for point in points:
            curve = self.drawer.curves.get((point.run, point.name, point.subject))
            for tier, buckets in zip(self._tiers, curve.tiers if curve else [], strict=bool(curve)):
                start_s = int(point.at_s) // tier.width_s * tier.width_s
                buckets[start_s] = msgspec.structs.replace(buckets[start_s], last=float(point.value))
        return refused


class AlwaysAnswersBySeconds(MemorySeries):
    def read(self, run, name, subject, since_s, until_s, max_points=500):
        return super().read(run, name, subject, since_s, until_s, 100_000)


class NeverForgets(MemorySeries):
    def tidy(self, now_s):
        self._open()


class ForgetsAllTiersAtOnce(MemorySeries):
    def tidy(self, now_s):
        self._tiers, kept = tuple(Tier(tier.width_s, 60) for tier in self._tiers), self._tiers
        super().tidy(now_s)
        self._tiers = kept


class GivesEmptyBuckets(MemorySeries):
    def read(self, run, name, subject, since_s, until_s, max_points=500):
        found = super().read(run, name, subject, since_s, until_s, max_points)
        return [*found, Bucket(int(until_s), 1, 0, 0.0, 0.0, 0.0, 0.0)] if found else found


class KeepsWhatCameBeforeAWrongOne(MemorySeries):
    def write(self, points):
        try:
            return super().write(points)
        except ValueError:
            super().write(points[:1])
            raise


class LetsEverybodyIn(MemorySeries):
    def __init__(self, drawer, **limits):
        super().__init__(drawer, tiers=limits["tiers"])


class NobodyGivesWay(MemorySeries):
    def _curve(self, key, at_s):
        return super()._curve(key, 0.0)


class RefusesWithoutAName(MemorySeries):
    def write(self, points):
        super().write(points)
        return []


class ForgetsAtTheEnd(MemorySeries):
    def close(self):
        super().close()
        self.drawer.curves.clear()


class IgnoresCounts(MemorySeries):
    def write(self, points):
        return super().write([msgspec.structs.replace(point, count=min(point.count, 1)) for point in points])


class WorksAfterClosing(MemorySeries):
    def _open(self):
        return self.drawer.lock


class DropsNothing(MemorySeries):
    def drop(self, run):
        self._open()


class IgnoresCaseInNames(MemorySeries):
    def write(self, points):
        return super().write([msgspec.structs.replace(point, subject=point.subject.lower()) for point in points])


@pytest.mark.parametrize(
    ("series", "fact"),
    [
        (LosesALateTier, "a_clock_that_jumps_back_spoils_nothing"),
        (CountsTwiceInCoarseTiers, "a_coarse_bucket_is_the_sum_of_its_parts"),
        (TakesTheLastWrittenForTheLast, "a_clock_that_jumps_back_spoils_nothing"),
        (AlwaysAnswersBySeconds, "a_span_that_is_long_is_answered_by_a_coarser_tier"),
        (AlwaysAnswersBySeconds, "a_coarse_bucket_is_the_sum_of_its_parts"),
        (NeverForgets, "what_is_older_than_a_tier_keeps_is_gone"),
        (ForgetsAllTiersAtOnce, "what_is_older_than_a_tier_keeps_is_gone"),
        (GivesEmptyBuckets, "what_was_written_can_be_read"),
        (KeepsWhatCameBeforeAWrongOne, "a_number_that_is_none_is_refused_by_name"),
        (LetsEverybodyIn, "the_next_series_is_refused_by_name"),
        (RefusesWithoutAName, "the_next_series_is_refused_by_name"),
        (NobodyGivesWay, "a_series_that_rests_gives_way"),
        (ForgetsAtTheEnd, "points_survive_closing_and_opening"),
        (ForgetsAtTheEnd, "many_may_write_at_once"),
        (IgnoresCounts, "a_fleet_is_one_point"),
        (WorksAfterClosing, "closing_twice_is_fine_and_nothing_works_afterwards"),
        (DropsNothing, "a_dropped_run_is_gone_and_may_come_back"),
        (IgnoresCaseInNames, "any_name_is_only_a_name"),
    ],
)
def test_a_broken_promise_is_noticed(series, fact):
    drawer = Drawer()
    (check,) = [check for check in SERIES_CHECKS if check.__name__ == fact]
    with pytest.raises((AssertionError, ValueError)):
        check(lambda: series(drawer, **SMALL))


def test_every_check_has_a_series_that_fails_it():
    """The list above names them all."""
    (marks,) = [mark for mark in test_a_broken_promise_is_noticed.pytestmark if mark.name == "parametrize"]
    assert {fact for _, fact in marks.args[1]} == {check.__name__ for check in SERIES_CHECKS}
