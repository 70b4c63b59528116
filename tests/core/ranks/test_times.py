"""Times follow from one, and what cannot work is refused with the arithmetic shown."""

from __future__ import annotations

import pytest

from quoracy.core.errors import ConfigError
from quoracy.core.ranks.times import derive


def test_all_times_follow_from_one() -> None:
    times = derive(30.0)
    assert (times.dead_s, times.beat_s, times.op_s, times.stop_s, times.help_s) == (30.0, 5.0, 5.0, 20.0, 10.0)
    assert (times.look_s, times.slot_s, times.dead_us()) == (0.5, 0.1, 30_000_000)


@pytest.mark.parametrize("dead_s", [0.1, 0.7, 1.2, 2.0, 3.3, 30.0, 86_400.0])
def test_what_follows_is_always_in_order(dead_s: float) -> None:
    times = derive(dead_s)
    assert 3 * times.beat_s + times.look_s <= dead_s
    assert times.look_s <= times.beat_s
    assert times.stop_s + times.op_s + 2 * times.look_s <= dead_s
    assert times.help_s < dead_s


@pytest.mark.parametrize(
    ("wanted", "sums"),
    [
        ({"beat_s": 11.0}, r"beat_s = 11.0: .*3 x 11 \+ 0.5 = 33.5 > 30"),
        ({"beat_s": 9.0, "look_s": 4.0}, r"beat_s = 9.0: .*3 x 9 \+ 4 = 31 > 30"),
        ({"look_s": 6.0}, r"look_s = 6.0: at most beat_s \(5\)"),
        ({"stop_s": 26.0}, r"stop_s = 26.0: .*26 \+ 5 \+ 2 x 0.5 = 32 > 30"),
        ({"stop_s": 25.0}, r"stop_s = 25.0: .*25 \+ 5 \+ 2 x 0.5 = 31 > 30"),
        ({"look_s": 3.0}, r"stop_s = 20.0: .*20 \+ 5 \+ 2 x 3 = 31 > 30"),
        ({"op_s": 11.0}, r"stop_s = 20.0: .*20 \+ 11 \+ 2 x 0.5 = 32 > 30"),
        ({"stop_s": 9.0}, r"stop_s = 9.0: .*9 < 2 x 5"),
        ({"slot_s": 0.0}, r"slot_s = 0.0: more than 0 seconds"),
        ({"help_s": float("nan")}, r"help_s = nan: more than 0 seconds"),
    ],
    ids=str,
)
def test_a_combination_that_cannot_work_is_refused_with_the_arithmetic(wanted: dict[str, float], sums: str) -> None:
    with pytest.raises(ConfigError, match=sums):
        derive(30.0, **wanted)


def test_a_time_that_is_not_given_follows_and_one_that_is_given_counts() -> None:
    times = derive(30.0, beat_s=2.0, op_s=None)
    assert (times.beat_s, times.op_s) == (2.0, 5.0)


def test_looks_follow_beats_that_are_set() -> None:
    assert derive(2.0).look_s == pytest.approx(1 / 9)
    assert derive(30.0, beat_s=0.3).look_s == pytest.approx(0.1)


def test_combinations_that_just_work_are_taken() -> None:
    assert derive(30.0, stop_s=24.0).stop_s == 24.0
    assert derive(30.0, beat_s=9.0, look_s=2.0).beat_s == 9.0


@pytest.mark.parametrize(("dead_s", "look_s", "wait_s"), [(30.0, None, 0.5), (1.2, None, 0.2), (60.0, 2.0, 2.0)])
def test_whoever_waits_looks_for_itself_no_more_often_than_beats_are_looked_at(
    dead_s: float, look_s: float | None, wait_s: float
) -> None:
    times = derive(dead_s, look_s=look_s)
    assert times.look_s <= times.wait_s()
    assert times.wait_s() == pytest.approx(wait_s)
