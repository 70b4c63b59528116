"""Waits before the next try: they grow, they are spread, an advice is followed, and a success ends them."""

from __future__ import annotations

import pytest

from quoracy.core.backoff import Backoff, Waits

MS = 1000
LINE = Waits(50 * MS, 1000 * MS, lasting_us=2000 * MS, old_tries=30, old_us=5000 * MS)


def waits_ms(backoff: Backoff, count: int, dice: float = 0.0) -> list[float]:
    return [backoff.failed(0, dice) / MS for _ in range(count)]


def test_each_wait_is_longer_up_to_the_longest() -> None:
    assert waits_ms(Backoff(Waits(50 * MS, 1000 * MS)), 7) == [50, 100, 200, 400, 800, 1000, 1000]
    assert waits_ms(Backoff(Waits(10 * MS, 1000 * MS, growth=3)), 6) == [10, 30, 90, 270, 810, 1000]


def test_an_outage_that_is_old_is_looked_at_less_often() -> None:
    assert waits_ms(Backoff(LINE), 32)[28:] == [1000, 1000, 5000, 5000]


def test_after_any_number_of_tries_the_wait_is_the_longest() -> None:
    backoff = Backoff(Waits(1, 1000 * MS, growth=10))
    assert waits_ms(backoff, 10_000)[-1] == 1000


@pytest.mark.parametrize("dice", [0.0, 0.25, 1.0])
def test_the_dice_take_off_a_share_and_no_more(dice: float) -> None:
    assert waits_ms(Backoff(LINE), 1, dice) == [50 * (1 - dice / 2)]
    assert waits_ms(Backoff(Waits(50 * MS, 1000 * MS, jitter=0.0)), 1, dice) == [50]


def test_a_success_begins_anew() -> None:
    backoff = Backoff(Waits(50 * MS, 1000 * MS))
    waits_ms(backoff, 5)
    backoff.succeeded(0)
    assert waits_ms(backoff, 2) == [50, 100]


def test_a_success_that_did_not_last_was_none() -> None:
    backoff = Backoff(LINE)
    waits_ms(backoff, 3)
    backoff.succeeded(0)
    assert backoff.failed(1999 * MS, 0.0) == 400 * MS
    backoff.succeeded(3000 * MS)
    backoff.succeeded(4500 * MS)  # still the same success: it counts from its beginning
    assert backoff.failed(5000 * MS, 0.0) == 50 * MS


def test_a_success_of_long_ago_does_not_count_twice() -> None:
    backoff = Backoff(LINE)
    backoff.succeeded(0)
    assert [backoff.failed(at_us, 0.0) for at_us in (9000 * MS, 18000 * MS)] == [50 * MS, 100 * MS]


def test_nobody_comes_sooner_than_advised_nor_all_at_once() -> None:
    assert Backoff(LINE).failed(0, 0.0, 3.0) == 3_000_000
    assert Backoff(LINE).failed(0, 1.0, 3.0) == 4_500_000
    slow = Backoff(Waits(8_000_000, 8_000_000))
    assert slow.failed(0, 0.0, 3.0) == 8_000_000, "its own wait is the longer one"


def test_an_advice_is_followed_within_reason() -> None:
    assert Backoff(LINE).failed(0, 0.0, 1e300) == 60_000_000
    assert Backoff(LINE).failed(0, 0.0, float("inf")) == 60_000_000
    for nothing in (0.0, -5.0, float("nan")):
        assert Backoff(LINE).failed(0, 0.0, nothing) == 50 * MS


def test_what_was_advised_counts_as_a_try() -> None:
    backoff = Backoff(LINE)
    backoff.failed(0, 0.0, 3.0)
    assert backoff.failed(0, 0.0) == 100 * MS
