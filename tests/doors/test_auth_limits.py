"""Limits are exact: to the message, to the byte, to the microsecond, to the connection."""

from __future__ import annotations

import timeit
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from quoracy.config import ConnectionLimits
from quoracy.core.errors import CATALOG, Refusal
from quoracy.doors.auth import Meter
from quoracy.doors.limits import MAX_IDLE

SMALL = ConnectionLimits(
    max_connections=5,
    max_connections_per_identity=2,
    messages_per_s=10,
    burst_messages=20,
    bytes_per_s=1024,
    burst_bytes=4096,
)
SECOND = 1_000_000


def connected(limits: ConnectionLimits = SMALL, now_us: int = 0) -> Meter:
    meter = Meter(limits)
    assert meter.connect("a", now_us) is None
    return meter


def too_fast(outcome: Refusal | None) -> Refusal:
    assert outcome is not None
    assert outcome.code == "too_fast"
    return outcome


def test_a_burst_passes_and_one_more_does_not() -> None:
    meter = connected()
    assert meter.spend("a", 20, 0, 0) is None
    refusal = too_fast(meter.spend("a", 1, 0, 0))
    assert "more than 10 messages" in refusal.why
    assert refusal.fix.startswith("wait 100 ms")
    assert refusal.retry_after_s == 0.1


def test_room_comes_back_to_the_microsecond() -> None:
    meter = connected()
    assert meter.spend("a", 20, 0, 0) is None
    too_fast(meter.spend("a", 1, 0, 99_999))
    assert meter.spend("a", 1, 0, 100_000) is None
    too_fast(meter.spend("a", 1, 0, 199_999))
    assert meter.spend("a", 1, 0, 200_000) is None


def test_bytes_are_counted_beside_messages() -> None:
    meter = connected()
    assert meter.spend("a", 1, 4096, 0) is None
    too_fast(meter.spend("a", 0, 1, 0))
    assert meter.spend("a", 0, 1024, SECOND) is None
    too_fast(meter.spend("a", 0, 1, SECOND))


def test_what_is_refused_is_not_counted() -> None:
    meter = connected()
    assert meter.spend("a", 19, 0, 0) is None
    for _ in range(100):
        too_fast(meter.spend("a", 2, 0, 0))
        too_fast(meter.spend("a", 1, 5000, 0))
    assert meter.spend("a", 1, 4096, 0) is None


def test_a_long_silence_saves_no_more_than_a_burst() -> None:
    meter = connected()
    assert meter.spend("a", 20, 0, 10**12) is None
    too_fast(meter.spend("a", 1, 0, 10**12))


def test_identities_do_not_pay_for_each_other() -> None:
    meter = connected()
    assert meter.connect("b", 0) is None
    assert meter.spend("a", 20, 0, 0) is None
    assert meter.spend("b", 20, 0, 0) is None


def test_connections_of_one_identity_and_of_all_are_counted() -> None:
    meter = Meter(SMALL)
    for identity in ("a", "a", "b", "b"):
        assert meter.connect(identity, 0) is None
    assert "a has its 2 connections" in too_fast(meter.connect("a", 0)).why
    assert meter.connect("c", 0) is None
    assert "the server has its 5 connections" in too_fast(meter.connect("d", 0)).why
    assert (meter.connections(), meter.connections("a"), meter.connections("d")) == (5, 2, 0)
    meter.disconnect("a")
    assert meter.connect("d", 0) is None
    meter.disconnect("b")
    assert meter.connect("a", 0) is None


def test_a_refused_connection_takes_no_place() -> None:
    meter = Meter(SMALL)
    for _ in range(100):
        meter.connect("a", 0)
    assert meter.connections() == 2


def test_connecting_anew_does_not_empty_a_full_bucket() -> None:
    meter = connected()
    assert meter.spend("a", 20, 0, 0) is None
    meter.disconnect("a")
    assert meter.connect("a", 1) is None
    too_fast(meter.spend("a", 1, 0, 1))


def test_identities_that_left_do_not_pile_up() -> None:
    meter = Meter(SMALL)
    for number in range(MAX_IDLE * 3):
        assert meter.connect(f"i{number}", number) is None
        meter.disconnect(f"i{number}")
    assert len(meter._accounts) == MAX_IDLE
    assert meter.connections() == 0


def test_waiting_as_long_as_it_says_is_enough_and_a_microsecond_less_is_not() -> None:
    meter = connected()
    assert meter.spend("a", 20, 4000, 0) is None
    wait_us = meter.wait_us("a", 3, 1000, 5)
    too_fast(meter.spend("a", 3, 1000, 5 + wait_us - 1))
    assert meter.spend("a", 3, 1000, 5 + wait_us) is None
    assert meter.wait_us("a", 0, 0, 5 + wait_us) == 0


class Twin:
    """The same bucket with fractions, one kind of thing, and no cleverness."""

    def __init__(self, per_s: int, burst: int) -> None:
        self.per_s, self.burst, self.level, self.at_us = per_s, burst, Fraction(0), 0

    def fits(self, amount: int, now_us: int) -> bool:
        leaked = Fraction(now_us - self.at_us, SECOND) * self.per_s
        return max(Fraction(0), self.level - leaked) + amount <= self.burst

    def pour(self, amount: int, now_us: int) -> None:
        leaked = Fraction(now_us - self.at_us, SECOND) * self.per_s
        self.level, self.at_us = max(Fraction(0), self.level - leaked) + amount, now_us


@given(
    st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(0, 25), st.integers(0, 5000)), max_size=50),
    st.integers(1, 30),
    st.integers(1, 40),
)
def test_the_meter_decides_as_its_dumb_twin(reads: list[tuple[int, int, int]], per_s: int, burst: int) -> None:
    limits = ConnectionLimits(messages_per_s=per_s, burst_messages=burst, bytes_per_s=1024, burst_bytes=4096)
    meter, messages, size_bytes = connected(limits), Twin(per_s, burst), Twin(1024, 4096)
    now_us = 0
    for pause_us, count, size in reads:
        now_us += pause_us
        fits = messages.fits(count, now_us) and size_bytes.fits(size, now_us)
        assert (meter.spend("a", count, size, now_us) is None) is fits
        if fits:
            messages.pour(count, now_us)
            size_bytes.pour(size, now_us)


def test_spending_costs_little() -> None:
    """It is called for every read. Measured at a few hundred nanoseconds; the bound is ten times that."""
    meter = connected(ConnectionLimits())
    times = timeit.repeat(lambda: meter.spend("a", 1, 60, 1), number=2000, repeat=20)
    assert min(times) / 2000 < 3e-6


def test_the_catalog_and_the_settings_say_whom_limits_are_counted_for() -> None:
    """By token where one was shown; and the server as a whole has one as well."""
    assert "or the server" in CATALOG["too_fast"].meaning
    assert "the token that a connection has shown, or the address" in " ".join((ConnectionLimits.__doc__ or "").split())
