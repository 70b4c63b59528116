"""Draws of a round: everybody gets the same, all orders occur, witnesses are drawn evenly, the slow get fewer."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.dice import SEED_BYTES
from quoracy.core.witnessed.committee import Committee, count, dealt, draw, quorum, relative, split
from quoracy.core.witnessed.views import RoundShown

VECTORS = Path(__file__).parent / "vectors" / "committee.json"


def shown(seed: int = 0, **changes: Any) -> RoundShown:
    roster = ("a", "b", "c", "d")
    round_ = RoundShown(
        "RoundTrain", 0, 0, 0, seed.to_bytes(SEED_BYTES, "big"), roster, (1000,) * 4, ((0, 8),), 0, (), 0, ""
    )
    return msgspec.structs.replace(round_, **changes)


def members(committee: Committee) -> tuple[str, ...]:
    return tuple(assignment.member for assignment in committee.assignments)


RECORDED: list[dict[str, Any]] = [
    {},
    {"seed": 7, "epoch": 3, "round": 12},
    {"witness_nodes": 2, "seed": 1},
    {
        "roster": tuple(f"m{i}" for i in range(7)),
        "speeds": (1000, 500, 250, 1, 999, 10, 700),
        "batches": ((3, 5), (40, 60)),
    },
    {"batches": ((0, 3),)},
    {"moved": ((1, 2, "d"), (2, 3, "a"))},
]


def test_the_recorded_draws_come_out_again(rewrite_vectors: bool) -> None:
    """Members of other versions and languages make the same draw: it may never change."""
    drawn = [msgspec.to_builtins(draw("demo", shown(**changes))) for changes in RECORDED]
    plain = json.loads(json.dumps(drawn))
    if rewrite_vectors:
        VECTORS.parent.mkdir(exist_ok=True)
        VECTORS.write_text(json.dumps(plain, indent=1) + "\n")
    assert plain == json.loads(VECTORS.read_text())


def test_run_epoch_round_and_seed_all_change_the_draw() -> None:
    draws = [
        draw("demo", shown(roster=tuple("abcdefghij"), speeds=(1,) * 10, batches=((0, 10),), **changes))
        for changes in ({}, {"seed": 1}, {"epoch": 1}, {"round": 1})
    ]
    draws.append(draw("other", shown(roster=tuple("abcdefghij"), speeds=(1,) * 10, batches=((0, 10),))))
    assert len({members(committee) for committee in draws}) == 5


def test_all_24_orders_of_four_members_occur_and_none_is_favoured() -> None:
    """Chi-square over 24 orders in 12,000 draws: with 23 degrees of freedom, 49.7 is exceeded once in 1,000 times."""
    drawn = Counter(members(draw("demo", shown(seed))) for seed in range(12_000))
    assert set(drawn) == set(itertools.permutations("abcd"))
    expected = 12_000 / 24
    assert sum((times - expected) ** 2 / expected for times in drawn.values()) < 49.7


def test_all_orders_of_witnesses_occur_too() -> None:
    drawn = {draw("demo", shown(seed, witness_nodes=0)).witnesses for seed in range(2_000)}
    assert drawn == set(itertools.permutations("abcd"))


def test_over_many_rounds_everybody_is_a_witness_equally_often() -> None:
    """Chi-square of the load of 20 members, 5 drawn in each of 8,000 rounds. A drawn set makes members less spread
    than independent draws, by (1 - 5/20): with 19 degrees of freedom, 43.8 * 0.75 is exceeded once in 1,000 times."""
    roster = tuple(f"m{i:02}" for i in range(20))
    load: Counter[str] = Counter()
    for number in range(8_000):
        round_ = shown(number, round=number, roster=roster, speeds=(1000,) * 20, batches=((0, 40),), witness_nodes=5)
        witnesses = draw("demo", round_).witnesses
        assert len(set(witnesses)) == 5
        load.update(witnesses)
    expected = 8_000 * 5 / 20
    assert sum((load[member] - expected) ** 2 / expected for member in roster) < 43.8 * 0.75


def test_witness_and_work_are_drawn_apart() -> None:
    """Who is first in one is not first in the other: they share no words."""
    same = sum(draw("demo", shown(seed)).witnesses == members(draw("demo", shown(seed))) for seed in range(1_000))
    assert 20 < same < 70  # 1000 / 24 in the mean


def test_with_no_number_given_or_too_many_wanted_all_are_witnesses() -> None:
    assert set(draw("demo", shown(witness_nodes=0)).witnesses) == set("abcd")
    assert set(draw("demo", shown(witness_nodes=9)).witnesses) == set("abcd")
    assert len(draw("demo", shown(witness_nodes=3)).witnesses) == 3


def test_a_moved_assignment_belongs_to_whom_it_went_to_and_the_rest_stays() -> None:
    before = draw("demo", shown())
    after = draw("demo", shown(moved=((2, 2, "a"),)))
    for one, other in zip(before.assignments, after.assignments, strict=True):
        assert one.batches == other.batches
        if one.index == 2:
            assert (other.member, other.attempt) == ("a", 2)
        else:
            assert one == other
    assert {assignment.attempt for assignment in before.assignments} == {1}
    assert [assignment.index for assignment in after.of("a")] == sorted({2, *(a.index for a in before.of("a"))})


def test_between_rounds_there_is_nothing_to_draw() -> None:
    between = shown(roster=(), speeds=(), batches=())
    assert draw("demo", between) == Committee((), ())


def test_with_fewer_batches_than_members_the_first_drawn_train_one_each() -> None:
    seen: Counter[str] = Counter()
    for seed in range(400):
        committee = draw("demo", shown(seed, batches=((0, 2),)))
        assert [count(assignment.batches) for assignment in committee.assignments] == [1, 1]
        seen.update(members(committee))
    assert min(seen.values()) > 150


def test_who_is_slow_gets_fewer_and_whoever_trains_has_at_least_one() -> None:
    for seed in range(50):
        committee = draw("demo", shown(seed, speeds=(1000, 1000, 500, 1), batches=((0, 25),)))
        sizes = {a.member: count(a.batches) for a in committee.assignments}
        assert sizes["a"] >= sizes["b"] - 1 >= sizes["c"] > sizes["d"] == 1
        assert sum(sizes.values()) == 25


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(0, 500))
def test_all_batches_are_dealt_in_proportion_by_the_largest_remainder(speeds: list[int], more: int) -> None:
    total = len(speeds) + more
    sizes = dealt(total, speeds)
    assert sum(sizes) == total
    assert min(sizes) >= 1
    whole = sum(speeds)
    exact = [Fraction(total * speed, whole) for speed in speeds]
    if all(share >= 1 for share in exact):
        assert all(abs(size - share) < 1 for size, share in zip(sizes, exact, strict=True))
    faster = sorted(range(len(speeds)), key=lambda i: (speeds[i], sizes[i]))
    for slow, fast in itertools.pairwise(faster):
        assert sizes[slow] <= sizes[fast] + 1


ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=8).map(
    lambda parts: tuple((100 * i + first, 100 * i + first + size) for i, (first, size) in enumerate(parts))
)


@given(ranges, st.data())
def test_the_pieces_are_the_whole_in_its_order(batches: tuple[tuple[int, int], ...], given_: st.DataObject) -> None:
    total = count(batches)
    sizes: list[int] = []
    while sum(sizes) < total:
        sizes.append(given_.draw(st.integers(1, total - sum(sizes))))
    pieces = split(batches, sizes)
    assert [count(piece) for piece in pieces] == sizes
    flat = [batch for piece in pieces for first, end in piece for batch in range(first, end)]
    assert flat == [batch for first, end in batches for batch in range(first, end)]


@given(st.integers(1, 400), st.integers(1, 20), st.integers(1, 20))
def test_a_quorum_is_the_share_rounded_up_and_exact(elected: int, part: int, whole: int) -> None:
    share = Fraction(min(part, whole), whole)
    needed = quorum(share, elected)
    assert needed >= share * elected > needed - 1
    assert 1 <= needed <= elected


@pytest.mark.parametrize(
    ("share", "elected", "needed"),
    [("2/3", 3, 2), ("2/3", 4, 3), ("2/3", 6, 4), ("0.67", 3, 3), ("1", 7, 7), ("1/100", 3, 1), ("2/3", 300, 200)],
)
def test_quorums_by_hand(share: str, elected: int, needed: int) -> None:
    """A float would make 2/3 of 300 to 201, or 200, by chance."""
    assert quorum(Fraction(share), elected) == needed


def test_speeds_are_relative_to_the_fastest_and_the_unknown_get_the_median() -> None:
    assert relative([]) == ()
    assert relative([0, 0]) == (1000, 1000)
    assert relative([50, 100, 0, 25]) == (500, 1000, 500, 250)
    assert relative([1, 10_000_000]) == (1, 1000)


def test_the_fastest_of_a_draw_is_no_matter_of_the_roster_order() -> None:
    """Nobody gains by a name: over many draws each name is as often first as any other."""
    firsts = Counter(members(draw("demo", shown(seed)))[0] for seed in range(4_000))
    expected = 1_000
    assert sum((times - expected) ** 2 / expected for times in firsts.values()) < 16.3  # 3 degrees, once in 1,000
