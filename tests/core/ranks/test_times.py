"""Times follow from one, and what cannot work is refused with the arithmetic shown."""

from __future__ import annotations

import pytest

from quorate.core.errors import ConfigError
from quorate.core.ranks.times import derive


def test_all_times_follow_from_one() -> None:
    times = derive(30.0)
    assert (times.dead_s, times.beat_s, times.op_s, times.stop_s, times.help_s) == (30.0, 5.0, 5.0, 20.0, 10.0)
    assert (times.look_s, times.slot_s, times.dead_us()) == (0.5, 0.1, 30_000_000)


@pytest.mark.parametrize("dead_s", [0.1, 1.2, 30.0, 86_400.0])
def test_what_follows_is_always_in_order(dead_s: float) -> None:
    times = derive(dead_s)
    assert 3 * times.beat_s <= dead_s
    assert times.look_s <= times.beat_s
    assert times.stop_s + times.op_s <= dead_s
    assert times.help_s < dead_s


@pytest.mark.parametrize(
    ("wanted", "sums"),
    [
        ({"beat_s": 11.0}, r"beat_s = 11.0: .*3 x 11 = 33 > 30"),
        ({"look_s": 6.0}, r"look_s = 6.0: at most beat_s \(5\)"),
        ({"stop_s": 26.0}, r"stop_s = 26.0: .*26 \+ 5 = 31 > 30"),
        ({"op_s": 11.0}, r"stop_s = 20.0: .*20 \+ 11 = 31 > 30"),
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
