"""The suite that every series store must pass; see ``quoracy.testing.journal`` for how to use it.

Open the store with ``SUITE_TIERS``, ``SUITE_PER_RUN`` and ``SUITE_IN_ALL``, so that its bounds are reached soon.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from random import Random
from typing import Final

from quoracy.ports import MAX_VALUE, Bucket, Key, Point, Series, Tier
from quoracy.ports.series import MAX_SERIES_NAME_BYTES
from quoracy.testing.expect import Together, equal, opened, raises, true
from quoracy.testing.journal_reads import ODD_NAMES

SUITE_TIERS: Final = (Tier(1, 60), Tier(10, 600), Tier(60, 3600))
SUITE_PER_RUN: Final = 8
SUITE_IN_ALL: Final = 12
NOON_S: Final = 1_700_000_000 // 3600 * 3600
"""Some full hour."""
FAR_S: Final = 2.0**33

OpenSeries = Callable[[], Series]
SeriesCheck = Callable[[OpenSeries], None]


def _point(at_s: float, value: float, name: str = "loss", subject: str = "") -> Point:
    return Point("r", name, subject, at_s, value)


def _all(series: Series, max_points: int, name: str = "loss", subject: str = "") -> list[Bucket]:
    """Every bucket around noon."""
    return series.read("r", name, subject, NOON_S - 1800, NOON_S + 1799, max_points)


def _added(buckets: list[Bucket], width_s: int) -> list[Bucket]:
    """Those buckets made into wider ones, by hand."""
    wide: dict[int, list[Bucket]] = {}
    for bucket in buckets:
        wide.setdefault(bucket.start_s // width_s * width_s, []).append(bucket)
    return [
        Bucket(
            start_s,
            width_s,
            sum(part.count for part in parts),
            min(part.low for part in parts),
            max(part.high for part in parts),
            sum(part.total for part in parts),
            parts[-1].last,
        )
        for start_s, parts in sorted(wide.items())
    ]


def what_was_written_can_be_read(open_series: OpenSeries) -> None:
    with opened(open_series) as series, opened(open_series) as other:
        equal(series.write([_point(NOON_S + 0.25, 4.0), _point(NOON_S + 0.5, 1.0)]), [], "refused")
        equal(series.write([_point(NOON_S + 0.75, 3.0), _point(NOON_S + 2, -1.5)]), [], "refused")
        wanted = [Bucket(NOON_S, 1, 3, 1.0, 4.0, 8.0, 3.0), Bucket(NOON_S + 2, 1, 1, -1.5, -1.5, -1.5, -1.5)]
        equal(other.read("r", "loss", "", NOON_S, NOON_S + 9, 10), wanted, "buckets, without the empty ones")
        equal(other.read("r", "loss", "", NOON_S + 1, NOON_S + 1.9, 10), [], "between two")
        equal(other.read("r", "loss", "", NOON_S + 0.9, NOON_S + 1, 10), wanted[:1], "a bucket begun before the span")
        equal(other.read("r", "loss", "", NOON_S + 2, NOON_S, 10), [], "a span that ends before it begins")
        equal(other.read("r", "loss", "nobody", NOON_S, NOON_S + 9, 10), [], "a series that is not there")


def points_survive_closing_and_opening(open_series: OpenSeries) -> None:
    with opened(open_series) as series:
        series.write([_point(NOON_S, 1.0), _point(NOON_S, 2.0, "cpu", "w1")])
    with opened(open_series) as series:
        equal(series.names("r"), [("cpu", "w1"), ("loss", "")], "names after opening again")
        series.write([_point(NOON_S, 4.0)])
        equal(_all(series, 3600), [Bucket(NOON_S, 1, 2, 1.0, 4.0, 5.0, 4.0)], "written before and after")


def a_coarse_bucket_is_the_sum_of_its_parts(open_series: OpenSeries) -> None:
    """Halves and quarters, so that sums are exact in any order."""
    dice = Random(7)  # noqa: S311 - repeatable on purpose
    with opened(open_series) as series:
        for _ in range(40):
            series.write([_point(NOON_S + dice.randrange(2400) / 4, dice.randrange(-400, 400) / 4) for _ in range(20)])
        fine = _all(series, 3600)
        equal((len({bucket.width_s for bucket in fine}), fine[0].width_s), (1, 1), "widths")
        for tier in SUITE_TIERS[1:]:
            most = 3600 // tier.width_s
            equal(_all(series, most), _added(fine, tier.width_s), f"buckets of {tier.width_s} s")
        few = _all(series, 20)
        true(1 < len(few) <= 20, f"{len(few)} buckets, at most 20")
        equal(few, _added(fine, few[0].width_s), f"buckets of {few[0].width_s} s")


def a_span_that_is_long_is_answered_by_a_coarser_tier(open_series: OpenSeries) -> None:
    with opened(open_series) as series:
        series.write([_point(NOON_S + second, second) for second in range(0, 600, 5)])
        for span_s, most, width_s in ((59, 60, 1), (60, 60, 10), (599, 60, 10), (600, 60, 60), (599, 600, 1)):
            found = series.read("r", "loss", "", NOON_S, NOON_S + span_s, most)
            equal({bucket.width_s for bucket in found}, {width_s}, f"widths for {span_s} s in {most} buckets")
            true(len(found) <= most, f"{len(found)} buckets, at most {most}")
        equal(series.read("r", "loss", "", NOON_S, NOON_S + 599, 1)[0].count, 120, "all in one bucket")


def what_is_older_than_a_tier_keeps_is_gone(open_series: OpenSeries) -> None:
    with opened(open_series) as series:
        series.write([_point(NOON_S + second, 1.0) for second in range(0, 1200, 2)])
        series.write([_point(NOON_S, 1.0, "old")])
        series.tidy(NOON_S + 1200)
        recent = series.read("r", "loss", "", NOON_S + 1150, NOON_S + 1200, 3600)
        equal([bucket.width_s for bucket in recent], [1] * 25, "the last minute, by the second")
        middle = series.read("r", "loss", "", NOON_S + 700, NOON_S + 1200, 3600)
        equal([bucket.width_s for bucket in middle], [10] * 50, "the last ten minutes")
        every = series.read("r", "loss", "", NOON_S, NOON_S + 1200, 3600)
        equal([bucket.width_s for bucket in every], [60] * 20, "all of it")
        equal(sum(bucket.count for bucket in every), 600, "points")
        series.tidy(NOON_S + 3700)
        equal(series.names("r"), [("loss", "")], "a series without a bucket is none")
        series.tidy(NOON_S + 10_000)
        equal(series.names("r"), [], "after a long time")


def a_clock_that_jumps_back_spoils_nothing(open_series: OpenSeries) -> None:
    """A point belongs into the bucket of its own time, and the latest in time is the last of its bucket."""
    times = [0.0, 5.5, 9.0, 4.5, 4.75, 9.0, 12.0, 2.0]
    with opened(open_series) as series:
        for value, at_s in enumerate(times):
            series.write([_point(NOON_S + at_s, value)])
        fine = _all(series, 3600)
        equal([bucket.start_s - NOON_S for bucket in fine], [0, 2, 4, 5, 9, 12], "seconds, in order")
        equal([bucket.last for bucket in fine], [0, 7, 4, 1, 5, 6], "the last of each")
        equal(_all(series, 360), _added(fine, 10), "buckets of 10 s")
        series.write([_point(FAR_S, 1.0)])
        equal(_all(series, 3600), fine, "after a clock that was far ahead")


def a_fleet_is_one_point(open_series: OpenSeries) -> None:
    """With a count, a point is the mean of so many numbers."""
    with opened(open_series) as series:
        series.write([Point("r", "cpu", "", NOON_S, 0.5, 4, 0.25, 1.0), Point("r", "cpu", "", NOON_S, 0.75, 2)])
        wanted = [Bucket(NOON_S, 1, 6, 0.25, 1.0, 3.5, 0.75)]
        equal(_all(series, 3600, "cpu"), wanted, "buckets")


def a_number_that_is_none_is_refused_by_name(open_series: OpenSeries) -> None:
    good = _point(NOON_S, 1.0)
    wrong = [_point(NOON_S, value) for value in (float("nan"), float("inf"), -float("inf"), MAX_VALUE * 2)]
    wrong += [_point(at_s, 1.0) for at_s in (-1.0, float("nan"), float("inf"))]
    wrong += [Point("r", "loss", "", NOON_S, 1.0, count) for count in (0, -1)]
    wrong += [Point("r", "loss", "", NOON_S, 1.0, 2, float("nan")), Point("r", "loss", "", NOON_S, 1.0, 2, 0.0, 1e308)]
    with opened(open_series) as series:
        for point in wrong:
            error = raises(ValueError, f"{point}", series.write, [good, point])
            true("loss" in str(error), f"{error} names the series")
        long = "x" * (MAX_SERIES_NAME_BYTES + 1)
        for point in (_point(NOON_S, 1.0, ""), _point(NOON_S, 1.0, long), _point(NOON_S, 1.0, "x", long)):
            raises(ValueError, "a name outside the limits", series.write, [good, point])
        raises(ValueError, "a run without a name", series.write, [good, Point("", "loss", "", NOON_S, 1.0)])
        for most in (0, -1):
            raises(ValueError, f"max_points = {most}", series.read, "r", "loss", "", NOON_S, NOON_S, most)
        raises(ValueError, "a span without an end", series.read, "r", "loss", "", NOON_S, float("inf"), 10)
        equal(series.names("r"), [], "names")
        series.write([_point(NOON_S, MAX_VALUE), _point(NOON_S, MAX_VALUE)])
        equal(_all(series, 3600)[0].total, 2 * MAX_VALUE, "the sum of the largest")


def the_next_series_is_refused_by_name(open_series: OpenSeries) -> None:
    with opened(open_series) as series:
        for i in range(SUITE_PER_RUN):
            equal(series.write([_point(NOON_S, i, "step", f"w{i}")]), [], f"series {i}")
        refused = series.write([_point(NOON_S, 1.0), _point(NOON_S + 1, 2.0), _point(NOON_S, 9.0, "step", "w0")])
        equal(refused, [Key("r", "loss", "")], "the series that found no room")
        equal(_all(series, 3600), [], "what was refused")
        equal(_all(series, 3600, "step", "w0")[0].count, 2, "a point beside a refused one")
        others = [Point("s", "loss", f"w{i}", NOON_S, 1.0) for i in range(SUITE_PER_RUN)]
        room = SUITE_IN_ALL - SUITE_PER_RUN
        equal(series.write(others), [Key("s", "loss", f"w{i}") for i in range(room, SUITE_PER_RUN)], "room in all")


def a_series_that_rests_gives_way(open_series: OpenSeries) -> None:
    with opened(open_series) as series:
        for i in range(SUITE_PER_RUN):
            series.write([_point(NOON_S + i, i, "step", f"w{i}")])
        series.write([_point(NOON_S + 50, 1.0, "step", "w0")])
        equal(series.write([_point(NOON_S + 70, 1.0, "step", "new")]), [], "refused")
        names = [subject for _, subject in series.names("r")]
        equal(names, sorted({f"w{i}" for i in range(SUITE_PER_RUN)} - {"w1"} | {"new"}), "who is left")
        equal(_all(series, 3600, "step", "w1"), [], "the one that rested longest")


def a_dropped_run_is_gone_and_may_come_back(open_series: OpenSeries) -> None:
    with opened(open_series) as series, opened(open_series) as other:
        series.write([_point(NOON_S, 1.0), Point("s", "loss", "", NOON_S, 2.0)])
        other.drop("r")
        other.drop("nobody")
        equal((series.names("r"), series.names("s")), ([], [("loss", "")]), "names")
        series.write([_point(NOON_S + 1, 5.0)])
        equal(_all(other, 3600), [Bucket(NOON_S + 1, 1, 1, 5.0, 5.0, 5.0, 5.0)], "after coming back")


def any_name_is_only_a_name(open_series: OpenSeries) -> None:
    for name in ODD_NAMES:
        with opened(open_series) as series:
            series.write([Point(name, name, name, NOON_S, 1.0)])
            equal(series.names(name), [(name, name)], "names")
            equal(len(series.read(name, name, name, NOON_S, NOON_S, 1)), 1, "buckets")
            series.drop(name)


def many_may_write_at_once(open_series: OpenSeries) -> None:
    def go_on(me: str) -> None:
        with opened(open_series) as series:
            for second in range(20):
                series.write([_point(NOON_S + second, 1.0), _point(NOON_S + second, 1.0, "step", me)])

    with Together() as together:
        for me in ("a", "b", "c"):
            together.call(go_on, me)
    with opened(open_series) as series:
        equal([bucket.count for bucket in _all(series, 360)], [30, 30], "what all wrote")
        equal([bucket.count for bucket in _all(series, 360, "step", "b")], [10, 10], "what one wrote")


def closing_twice_is_fine_and_nothing_works_afterwards(open_series: OpenSeries) -> None:
    with opened(open_series) as series:
        series.close()
        series.close()
        raises(ValueError, "write after close", series.write, [_point(NOON_S, 1.0)])
        raises(ValueError, "read after close", series.read, "r", "loss", "", NOON_S, NOON_S, 1)
        raises(ValueError, "names after close", series.names, "r")
        raises(ValueError, "drop after close", series.drop, "r")
        raises(ValueError, "tidy after close", series.tidy, NOON_S)


SERIES_CHECKS: tuple[SeriesCheck, ...] = (
    what_was_written_can_be_read,
    points_survive_closing_and_opening,
    a_coarse_bucket_is_the_sum_of_its_parts,
    a_span_that_is_long_is_answered_by_a_coarser_tier,
    what_is_older_than_a_tier_keeps_is_gone,
    a_clock_that_jumps_back_spoils_nothing,
    a_fleet_is_one_point,
    a_number_that_is_none_is_refused_by_name,
    the_next_series_is_refused_by_name,
    a_series_that_rests_gives_way,
    a_dropped_run_is_gone_and_may_come_back,
    any_name_is_only_a_name,
    many_may_write_at_once,
    closing_twice_is_fine_and_nothing_works_afterwards,
)


def check_series(fresh: Callable[[], AbstractContextManager[OpenSeries]]) -> None:
    for check in SERIES_CHECKS:
        with fresh() as open_series:
            check(open_series)
