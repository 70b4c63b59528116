"""Which wishes are granted, against a twin that is too simple to be wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import JournalGap
from quoracy.ports import Append
from quoracy.stores.limits import decide


def twin(wishes, lasts):
    """Keep every run as a list of who wrote what, and walk through the wishes."""
    there = {run: ["before"] * last for run, last in lasts.items()}
    wished = {run: set(range(1, last + 1)) for run, last in lasts.items()}
    lost = {}
    verdicts = []
    for wish in wishes:
        entries = there.setdefault(wish.run, [])
        known = wished.setdefault(wish.run, set())
        if wish.n != 1 and wish.n - 1 not in known:
            return "gap"
        known.add(wish.n)
        if wish.n <= len(entries):
            lost.setdefault(wish.run, wish.n)
            verdicts.append(wish.n)
        elif wish.run in lost:
            verdicts.append(lost[wish.run])
        else:
            entries.append("now")
            verdicts.append(0)
    return verdicts


wishes = st.lists(st.builds(Append, st.sampled_from("ab"), st.integers(1, 6), st.just(b"x")), max_size=8)


@given(wishes, st.fixed_dictionaries({"a": st.integers(0, 4), "b": st.integers(0, 4)}))
def test_wishes_are_decided_as_the_simple_twin_decides_them(wishes, lasts):
    try:
        decided = decide(wishes, lambda run: lasts[run])
    except JournalGap:
        decided = "gap"
    assert decided == twin(wishes, lasts)
