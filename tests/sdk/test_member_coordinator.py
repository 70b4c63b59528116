"""The coordinator killed with -9 in every phase: what was under way goes on, and every batch counts once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.live import Process, wait_for
from tests.sdk.witnessed_live import STEPS, Witnessed, summaries

NAMES = ("m1", "m2", "m3")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Witnessed]:
    with Witnessed(tmp_path, total_steps=STEPS, heartbeat_timeout_s=5.0) as live:
        yield live


def finish(run: Witnessed, *members: Process) -> dict[str, Any]:
    for member in members:
        member.tell("done\n" * 30)
    shown = run.judge(*summaries(*members))
    assert shown["step"] == STEPS
    assert [member["losses"] for member in shown["members"]] == [0, 0, 0]
    return shown


def test_killed_while_it_waits_for_members(run: Witnessed) -> None:
    some = [run.member("plain", name) for name in NAMES[:2]]
    wait_for(lambda: run.shown()["here"] == 2, "two are here")
    assert run.shown()["phase"] == "WaitingForMembers"
    run.restart()
    wait_for(lambda: run.shown()["here"] == 2, "they are here still")
    finish(run, *some, run.member("plain", "m3"))


def test_killed_in_warm_up(run: Witnessed) -> None:
    members = [run.member("held", "m1", "loads"), *(run.member("plain", name) for name in NAMES[1:])]
    members[0].hear("loads")
    assert run.shown()["phase"] == "Warmup"
    run.restart()
    assert run.shown()["phase"] == "Warmup"
    finish(run, *members)


def test_killed_in_training_it_goes_on_with_the_same_round_and_nothing_is_trained_twice(run: Witnessed) -> None:
    members = [run.member("told", name) for name in NAMES]
    trained = [member.hear("trains") for member in members]
    before = run.shown()
    run.restart()
    after = run.shown()
    assert (after["phase"], after["epoch"], after["round"]) == ("RoundTrain", 0, 0)
    assert after["current"]["assignments"] == before["current"]["assignments"]
    shown = finish(run, *members)
    assert sorted(batch for batches in trained for batch in batches) == list(range(6))
    assert shown["account"]["trained"] == shown["account"]["applied"] == 6 * STEPS, "each batch was trained once"


def test_killed_while_witnesses_are_awaited(run: Witnessed) -> None:
    """Two of three have attested; the third cannot, and says so after the restart as if nothing had happened."""
    members = [run.member("held", "m1", "fetches"), *(run.member("plain", name) for name in NAMES[1:])]
    members[0].hear("fetches")
    run.wait_phase("RoundWitness")
    run.restart()
    assert run.shown()["phase"] == "RoundWitness"
    shown = finish(run, *members)
    assert not any(one["late"] for one in shown["sealed"])


def test_killed_in_cooldown(run: Witnessed) -> None:
    members = {name: run.member("held", name, "stores") for name in NAMES}
    drawn = wait_for(lambda: run.shown()["storing"], "one was drawn to store the checkpoint")
    members[drawn].hear("stores")
    assert run.shown()["phase"] == "Cooldown"
    run.restart()
    assert run.shown()["phase"] == "Cooldown"
    shown = finish(run, *members.values())
    assert shown["roll_backs"] == 0


def test_killed_again_and_again(run: Witnessed) -> None:
    members = [run.member("told", name) for name in NAMES]
    for _ in range(3):
        for member in members:
            member.hear("trains")
        run.restart()
        for member in members:
            member.tell("done")
    finish(run, *members)


def test_members_wait_for_a_coordinator_that_is_not_there_yet(tmp_path: Path) -> None:
    server = Witnessed(tmp_path, init_min_clients=1, min_clients=1)
    one = server.member("plain", "m1")
    what, text = one.hear("news")
    assert what == "trouble"
    assert "refused" in text
    with server:
        server.judge(*summaries(one))
