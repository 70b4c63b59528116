"""Turns: drawn from the head, the same on every machine, fair; and hosts that take over one after another."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core import tally
from tests.core.byhand import Hand, Journal, tallying

from quoracy.core.codec import DIGEST_BYTES, digest
from quoracy.core.host import Phase
from quoracy.core.limits import STAGGER_PLACES, Limits
from quoracy.core.shell import Followed, Tick
from quoracy.core.stagger import delay_us, lone_delay_us, order

VECTORS = Path(__file__).parent / "vectors" / "stagger.json"
HEAD = bytes(range(DIGEST_BYTES))
SLOT_US = 250_000
NAMES = ["alpha", "beta", "gamma", "delta", "räumlich"]
HEADS = [
    ("run", bytes(DIGEST_BYTES), 1),
    ("run", bytes(DIGEST_BYTES), 2),
    ("run", HEAD, 2),
    ("another", HEAD, 2),
    ("run", b"\xff" * DIGEST_BYTES, 2**40),
]


def head(i: int) -> bytes:
    return digest(b"head", i.to_bytes(8, "big"))


def draw_all(run: str, before: bytes, n: int) -> dict[str, Any]:
    return {
        "head": [run, before.hex(), n],
        "order": order(run, before, n, NAMES),
        "delays_us": [delay_us(run, before, n, NAMES, name, SLOT_US) for name in NAMES],
        "alone_us": [lone_delay_us(run, before, n, name, 8, SLOT_US) for name in NAMES],
    }


def test_the_recorded_turns_come_out_again(rewrite_vectors: bool) -> None:
    drawn = [draw_all(*name) for name in HEADS]
    if rewrite_vectors:
        VECTORS.write_text(json.dumps(drawn, indent=1) + "\n")
    assert drawn == json.loads(VECTORS.read_text())


def test_the_first_proposes_at_once_and_each_other_one_slot_after_the_one_before() -> None:
    turns = order("run", HEAD, 7, NAMES)
    assert sorted(turns) == sorted(NAMES)
    assert [delay_us("run", HEAD, 7, NAMES, name, SLOT_US) for name in turns] == [i * SLOT_US for i in range(5)]


def test_another_run_head_or_number_is_another_order() -> None:
    many = [f"h{i}" for i in range(40)]
    turns = [order(run, before, n, many) for run, before, n in HEADS]
    assert len({tuple(turn) for turn in turns}) == len(HEADS)


@given(st.permutations(NAMES))
def test_who_is_named_first_makes_no_difference(names: list[str]) -> None:
    assert order("run", HEAD, 7, names) == order("run", HEAD, 7, set(NAMES))


def test_every_order_of_four_is_reached_and_none_is_likelier() -> None:
    """Chi-square over 24 orders, 23 degrees of freedom: beyond 58.6 lies one chance in 16,000; the heads are fixed."""
    rolls = 6_000
    seen = Counter(tuple(order("run", head(i), i + 1, "abcd")) for i in range(rolls))
    assert set(seen) == set(itertools.permutations("abcd"))
    expected = rolls / 24
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < 58.6


def test_every_place_is_drawn_alone_and_none_is_likelier() -> None:
    """Chi-square over 8 places, 7 degrees of freedom: beyond 32 lies one chance in 25,000; the heads are fixed."""
    rolls = 4_000
    seen = Counter(lone_delay_us("run", head(i), i + 1, "alpha", 8, SLOT_US) // SLOT_US for i in range(rolls))
    assert set(seen) == set(range(8))
    assert sum((count - rolls / 8) ** 2 / (rolls / 8) for count in seen.values()) < 32


def test_two_that_draw_alone_meet_in_one_place_as_rarely_as_chance_has_it() -> None:
    met = sum(
        lone_delay_us("run", head(i), 5, "alpha", 8, 1) == lone_delay_us("run", head(i), 5, "beta", 8, 1)
        for i in range(2_000)
    )
    assert 180 < met < 320


@pytest.mark.parametrize(("proposers", "said"), [(["alpha", "beta"], "alpha, beta"), ([], "nobody")])
def test_one_that_is_not_eligible_has_no_turn(proposers: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=f"who = 'mallory': has no turn for entry 7 .* one of: {said}"):
        delay_us("run", HEAD, 7, proposers, "mallory", SLOT_US)


def test_one_named_twice_would_have_two_turns_and_is_refused() -> None:
    with pytest.raises(ValueError, match="'beta' is there twice"):
        order("run", HEAD, 7, ["beta", "alpha", "beta"])


def test_a_slot_below_zero_is_refused_and_one_of_zero_is_all_at_once() -> None:
    for call in (
        lambda slot_us: delay_us("run", HEAD, 7, NAMES, "alpha", slot_us),
        lambda slot_us: lone_delay_us("run", HEAD, 7, "alpha", 8, slot_us),
    ):
        assert call(0) == 0
        with pytest.raises(ValueError, match="slot_us = -1: must be at least 0"):
            call(-1)


# -- hosts that take over ------------------------------------------------------------------------------------------


def takes_at_us(hand: Hand) -> int:
    """Tick as the host asks for it until it takes over."""
    began_us = hand.now_us
    while hand.host.phase is Phase.FOLLOWING:
        wake_us = hand.host.wake_us()
        assert wake_us is not None
        hand.now_us = max(hand.now_us, wake_us)
        hand.report(Tick())
    assert hand.host.phase is Phase.TAKING
    return hand.now_us - began_us


def follower(journal: Journal, name: str) -> Hand:
    hand = Hand(tally.KINDS, journal, name, Limits(takeover_us=3_000_000, stagger_us=SLOT_US))
    hand.load()
    return hand


def test_followers_take_over_in_the_places_they_draw_from_the_head() -> None:
    alpha = tallying("a")
    run = alpha.host.run
    assert run is not None
    names = [f"h{i}" for i in range(20)]
    waits_us = [takes_at_us(follower(alpha.journal, name)) for name in names]
    assert waits_us == [
        3_000_001 + lone_delay_us(run.head.run, run.head.digest, run.head.n + 1, name, STAGGER_PLACES, SLOT_US)
        for name in names
    ]
    assert len(set(waits_us)) > 4


def test_whoever_follows_a_new_host_draws_anew() -> None:
    """Or the same two would meet in one place for ever."""
    alpha = tallying("a")
    waits_us = set()
    for term in range(2, 8):
        beta, gamma = follower(alpha.journal, "beta"), follower(alpha.journal, "gamma")
        takes_at_us(beta)
        beta.land()
        gamma.report(Followed(len(alpha.journal.entries), alpha.journal.entries[-1:]))
        assert gamma.host.run is not None
        assert gamma.host.run.head.term == term
        waits_us.add(takes_at_us(gamma))
    assert len(waits_us) > 1
