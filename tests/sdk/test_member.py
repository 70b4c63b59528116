"""Members of a witnessed run as real processes against a real coordinator. One fact a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.witnessed_live import STEPS, Witnessed, summaries


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Witnessed]:
    with Witnessed(tmp_path) as live:
        yield live


def test_three_members_train_to_the_end_with_the_same_model_and_every_batch_once(run: Witnessed) -> None:
    ended = summaries(run.member("crew", "m1", "m2", "m3"), count=3)
    shown = run.judge(*ended)
    assert {one["ended"] for one in ended} == {"finished"}
    assert [one["step"] for one in ended] == [STEPS] * 3
    assert (shown["next_batch"], shown["account"]["skipped"]) == (6 * STEPS, 0)
    assert [one["metrics"] for one in ended] == [{"batches": 6.0 * STEPS, "most": 1.0}] * 3
    assert [one["because"] for one in shown["epochs"]] == [
        "rounds_per_epoch = 2 are over",
        "total_steps = 4 is reached",
    ]


def test_nothing_is_left_of_a_member_that_has_ended(run: Witnessed) -> None:
    one, _ = run.member("plain", "m1"), run.member("crew", "m2", "m3")
    (ended,) = summaries(one)
    assert ended["threads"] == ["MainThread"]
    assert ended["left"] == []
    assert one.wait() == 0
