"""How many samples an update counts for: no claim makes the model its own."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.federated.study import Study, code, studying

from quoracy.core.federated.events import RoundClosed
from quoracy.core.federated.samples import counted, samples_bound

MOST = 2**53


def closed(claims: dict[str, int], **config: int) -> Study:
    study = studying(*claims, **config)
    for name, samples in claims.items():
        study.update(name, samples=samples, metrics={"loss": float(samples == MOST)})
    return study


def test_a_claim_far_above_the_others_counts_ten_times_their_median() -> None:
    study = closed({"a": 100, "b": 120, "c": 90, "d": MOST})
    assert [samples for _, _, samples in study.duty("aggregate").order["updates"]] == [100, 120, 90, 1100]
    assert study.task.history[0].clipped == [("d", MOST)]
    assert study.task.history[0].metrics["loss"] == pytest.approx(1100 / 1410), "metrics are weighted alike"


def test_the_journal_says_that_claims_were_clipped_and_to_what() -> None:
    study = closed({"a": 100, "b": 120, "c": 90, "d": MOST})
    (event,) = study.all_events(RoundClosed)
    assert event.samples_bound == 1100
    (honest,) = closed({"a": 100, "b": 120, "c": 90, "d": 1099}).all_events(RoundClosed)
    assert honest.samples_bound == 0
    study.aggregate()
    (row,) = study.overview()["history"]
    assert row["clipped"] == [{"participant": "d", "claimed": MOST, "counted": 1100}]
    assert row["samples"] == 1410


def test_of_fewer_than_four_updates_none_is_clipped_unless_samples_max_says_so() -> None:
    three = {"a": 100, "b": 100, "c": MOST}
    assert closed(three).task.history[0].clipped == []
    study = closed(three, samples_max=500)
    assert [samples for _, _, samples in study.duty("aggregate").order["updates"]] == [100, 100, 500]
    assert study.task.history[0].clipped == [("c", MOST)]


def test_a_host_cannot_close_a_round_with_another_bound() -> None:
    study = studying("a", "b", "c", "d", time_min_s=5.0)
    for name, samples in {"a": 1, "b": 1, "c": 1, "d": MOST}.items():
        study.update(name, samples=samples)
    study.hand.now_us += 6_000_000
    for bound in (0, 9, 11):
        assert code(study.propose(RoundClosed(0, "enough", bound))) == "contradiction"


@given(st.lists(st.integers(1, MOST), min_size=1, max_size=30), st.one_of(st.just(0), st.integers(1, MOST)))
def test_the_bound_is_the_smaller_of_both_and_none_where_nobody_is_above(claims: list[int], most: int) -> None:
    bound = samples_bound(claims, most)
    below = [min(claim, most or claim) for claim in claims]
    limit = 10 * median(below) if len(claims) >= 4 else max(below)
    assert [counted(claim, bound) for claim in claims] == [int(min(claim, limit)) for claim in below]
    assert bool(bound) == any(counted(claim, bound) < claim for claim in claims)
