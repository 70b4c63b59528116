"""Draws: recorded once, the same for ever; fair; and different for different purposes."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.dice import SEED_BYTES, Cup, Dice

VECTORS = Path(__file__).parent / "vectors" / "dice.json"
NAMES = [
    ("run", "order", 0, 0, bytes(16)),
    ("run", "order", 0, 1, bytes(16)),
    ("run", "order", 1, 0, bytes(16)),
    ("run", "witness", 0, 0, bytes(16)),
    ("another", "order", 0, 0, bytes(16)),
    ("run", "order", 0, 0, bytes(range(16))),
    ("", "", 0, 0, b""),
    ("räumlich", "ordnung", 2**40, 7, b"\xff" * 20),
]


class Loaded(Dice):
    """Dice whose words are given."""

    __slots__ = ("given",)

    def __init__(self, words: list[int]) -> None:
        super().__init__("", "", 0, 0, b"")
        self.given = iter(words)

    def word(self) -> int:
        return next(self.given)


def draw_all(name: tuple[str, str, int, int, bytes]) -> dict[str, Any]:
    """One stream, used in every way, in one fixed order."""
    dice = Dice(*name)
    return {
        "name": [*name[:4], name[4].hex()],
        "words": [dice.word() for _ in range(20)],
        "below": [dice.below(n) for n in (1, 2, 3, 6, 10, 1000, 2**63 + 1, 2**64)],
        "shuffle": dice.shuffle(list(range(12))),
        "sample": dice.sample("abcdefghij", 4),
        "choose": dice.choose(["north", "east", "south", "west"]),
    }


def test_the_recorded_draws_come_out_again(rewrite_vectors: bool) -> None:
    drawn = [draw_all(name) for name in NAMES]
    if rewrite_vectors:
        VECTORS.write_text(json.dumps(drawn, indent=1) + "\n")
    assert drawn == json.loads(VECTORS.read_text())


def test_every_part_of_the_name_changes_the_draws() -> None:
    streams = [tuple(Dice(*name).word() for _ in range(4)) for name in NAMES]
    assert len(set(streams)) == len(NAMES)


def test_parts_of_the_name_cannot_be_shifted_into_each_other() -> None:
    assert Dice("ab", "c", 0, 0, b"").word() != Dice("a", "bc", 0, 0, b"").word()
    assert Dice("a", "b", 1, 11, b"").word() != Dice("a", "b", 11, 1, b"").word()
    assert Dice("a", "b", 0, 0, b"cd").word() != Dice("a", "bcd", 0, 0, b"").word()


def test_a_stream_does_not_repeat_over_many_blocks() -> None:
    dice = Dice("run", "long", 0, 0, bytes(16))
    words = [dice.word() for _ in range(10_000)]
    assert len(set(words)) == 10_000
    assert all(0 <= word < 2**64 for word in words)


def test_every_order_of_four_is_reached_and_none_is_likelier() -> None:
    """Chi-square over 24 orders, 23 degrees of freedom: beyond 58.6 lies one chance in 16,000, and the seeds are
    fixed. A shuffle that swaps with any place instead of an earlier one is far beyond."""
    rolls = 12_000
    seen = Counter(tuple(Dice("run", "order", 0, i, b"").shuffle("abcd")) for i in range(rolls))
    assert set(seen) == set(itertools.permutations("abcd"))
    expected = rolls / 24
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < 58.6


def test_every_ordered_sample_is_reached_and_none_is_likelier() -> None:
    """Two of four in drawn order: 12 outcomes, 11 degrees of freedom; beyond 38.7 lies one chance in 16,000."""
    rolls = 6_000
    seen = Counter(tuple(Dice("run", "sample", 0, i, b"").sample("abcd", 2)) for i in range(rolls))
    assert set(seen) == set(itertools.permutations("abcd", 2))
    expected = rolls / 12
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < 38.7


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 10, 1000, 2**32, 2**63, 2**63 + 1, 2**64 - 1, 2**64])
def test_words_in_the_ragged_end_are_thrown_away_and_no_others(n: int) -> None:
    """The twin: the largest multiple of n that fits into 64 bits is where fair words end."""
    fair = (2**64 // n) * n
    ragged = [word for word in (fair, fair + 1, 2**64 - 1) if fair <= word < 2**64]
    assert Loaded([*ragged, fair - 1, 5]).below(n) == (fair - 1) % n
    assert Loaded([0]).below(n) == 0


def test_taking_the_remainder_alone_would_be_biased_and_is_not_done() -> None:
    """With n = 3 * 2**62 a plain remainder makes every value below 2**62 twice as likely as the others."""
    n = 3 * 2**62
    dice = Dice("run", "bias", 0, 0, b"")
    low = sum(dice.below(n) < 2**62 for _ in range(6_000))
    assert 1_800 < low < 2_200


@given(st.lists(st.integers(), max_size=30), st.integers(0, 2**32))
def test_a_shuffle_loses_nothing_and_leaves_its_argument_alone(items: list[int], epoch: int) -> None:
    before = list(items)
    assert sorted(Dice("run", "p", epoch, 0, b"").shuffle(items)) == sorted(items)
    assert items == before


@given(st.lists(st.integers(), unique=True, max_size=30), st.data())
def test_a_sample_holds_different_items_and_leaves_its_argument_alone(items: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(items)))
    before = list(items)
    sample = Dice("run", "p", 0, 0, b"").sample(items, k)
    assert len(set(sample)) == len(sample) == k
    assert set(sample) <= set(items)
    assert items == before


@pytest.mark.parametrize("n", [0, -1, 2**64 + 1])
def test_a_bound_outside_one_word_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match=r"must be between 1 and 2\*\*64"):
        Dice("run", "p", 0, 0, b"").below(n)


@pytest.mark.parametrize("k", [-1, 4])
def test_a_sample_larger_than_there_are_items_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="between 0 and the 3 items"):
        Dice("run", "p", 0, 0, b"").sample("abc", k)


def test_choosing_from_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="must be between 1"):
        Dice("run", "p", 0, 0, b"").choose([])


def test_two_events_of_one_entry_never_draw_alike() -> None:
    cup = Cup("run", bytes(SEED_BYTES))
    first = cup.dice("rank").word()
    assert cup.dice("rank").word() == first
    cup.index = 1
    assert cup.dice("rank").word() != first


def test_a_cup_hands_out_the_dice_of_its_run_and_seed_by_name() -> None:
    seed = bytes(range(SEED_BYTES))
    cup = Cup("run", seed)
    cup.index = 3
    assert cup.dice("rank", 5, 7).word() == Dice("run", "rank", 5, 7, seed + b"\0\0\0\3").word()
