"""Who gets which bytes: every byte is given once, whoever fails in between."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from quoracy.sdk.witnessed.exchange.limits import STRETCH_BYTES
from quoracy.sdk.witnessed.exchange.plan import Plan, Work

HOLDERS = ("a", "b", "c")
STEP = st.tuples(
    st.sampled_from(["take", "came", "give_up", "slow"]), st.sampled_from(HOLDERS), st.integers(1, STRETCH_BYTES)
)
STEPS = st.lists(STEP, max_size=60)


@given(st.integers(0, 5 * STRETCH_BYTES + 9), st.sets(st.integers(0, 5)), STEPS)
def test_every_byte_comes_once(size_bytes: int, there: set[int], steps: list[tuple[str, str, int]]) -> None:
    count = -(-size_bytes // STRETCH_BYTES)
    there = {stretch for stretch in there if stretch < count}
    plan, works = Plan(size_bytes, there), list[Work]()
    noted: list[int] = []
    for what, holder, size in [*steps, *[("take", "a", 1), ("came", "a", STRETCH_BYTES)] * (len(steps) + 12)]:
        mine = [work for work in works if work.holder == holder and work.at < work.end]
        if what == "take" and (work := plan.take(holder, 0.0)) is not None:
            works.append(work)
        elif what == "came" and mine:
            stretch = plan.came(mine[0], size)
            noted += [] if stretch is None else [stretch]
        elif what == "give_up":
            plan.give_up(holder)
        elif what == "slow" and (slow := plan.slow(99.0, 1.0)):
            plan.take_over(slow[0])
    for holder in ("b", "c"):
        plan.give_up(holder)
    while (work := plan.take("a", 0.0)) is not None:
        stretch = plan.came(work, STRETCH_BYTES)
        noted += [] if stretch is None else [stretch]
    plan.give_up("a")
    while (work := plan.take("b", 0.0)) is not None:
        stretch = plan.came(work, STRETCH_BYTES)
        noted += [] if stretch is None else [stretch]
    assert plan.whole()
    assert sorted(noted) == [stretch for stretch in range(count) if stretch not in there]
    covered = sorted((gave.start, gave.end) for gave in plan.gave)
    missing = sum(min(size_bytes, (s + 1) * STRETCH_BYTES) - s * STRETCH_BYTES for s in set(range(count)) - there)
    assert sum(end - start for start, end in covered) == missing == sum(plan.given.values())
    assert all(before[1] <= after[0] for before, after in pairwise(covered))
    assert plan.there_from(0) == size_bytes


def test_what_is_slow_depends_on_the_pace_and_not_on_the_size() -> None:
    plan = Plan(2 * STRETCH_BYTES)
    fast, slow = plan.take("a", 0.0), plan.take("b", 0.0)
    assert fast is not None
    assert slow is not None
    plan.came(fast, 3 * STRETCH_BYTES // 4)
    plan.came(slow, 1000)
    assert plan.slow(1.0, 1.0) == []
    assert plan.slow(1.5, 1.0) == [slow]
    plan.take_over(slow)
    assert (slow.cut, slow.end) == (True, STRETCH_BYTES + 1000)
    rest = plan.take("a", 2.0)
    assert rest is not None
    assert (rest.start, rest.end) == (STRETCH_BYTES + 1000, 2 * STRETCH_BYTES)
