"""How a member of a witnessed run ends: drained, failed, superseded, found out, removed, too late."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.live import wait_for
from tests.sdk.witnessed_live import Witnessed, events, summaries

from quoracy.core.errors import Refused
from quoracy.core.witnessed.events import MemberLeft, RoundSealed


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Witnessed]:
    with Witnessed(tmp_path) as live:
        yield live


# -- SIGTERM -------------------------------------------------------------------------------------------------------


def test_sigterm_while_it_waits_leaves_at_once(run: Witnessed) -> None:
    one = run.member("plain", "m1")
    run.wait_state("m1", "Pending")
    one.kill(signal.SIGTERM)
    (ended,) = summaries(one)
    assert (ended["ended"], ended["threads"], ended["left"]) == ("drained", ["MainThread"], [])
    assert one.wait() == 0
    assert (run.of("m1")["state"], run.of("m1")["reason"]) == ("Left", "drained after SIGTERM")


def test_sigterm_in_training_leaves_when_the_result_is_sealed_and_not_before(run: Witnessed) -> None:
    one, two, three = (run.member("told", name) for name in ("m1", "m2", "m3"))
    for member in (one, two, three):
        member.hear("trains")
    one.kill(signal.SIGTERM)
    one.tell("done")
    wait_for(lambda: committed(run, "m1"), "its result is in the journal")
    for member in (two, three):
        member.tell("done\n" * 30)
    (ended,) = summaries(one)
    assert (ended["ended"], ended["trained"]) == ("drained", 1)
    run.judge(*summaries(two, three))
    happened = events(run)
    first = next(index for index, event in enumerate(happened) if isinstance(event, RoundSealed))
    left = next(index for index, event in enumerate(happened) if isinstance(event, MemberLeft))
    assert left > first
    assert run.shown()["sealed"][0]["applied"] == 6, "what it trained is in the model"


def committed(run: Witnessed, member: str) -> bool:
    current = run.shown()["current"]
    return current is not None and any(
        one["member"] == member and one["committed"] for one in current["assignments"]
    )  # fmt: skip


def test_sigterm_in_a_training_that_takes_too_long_leaves_after_drain_s(run: Witnessed) -> None:
    one, crew = run.member("told", "m1", 0.3), run.member("crew", "m2", "m3")
    one.hear("trains")
    one.kill(signal.SIGTERM)
    run.wait_state("m1", "Left")
    one.tell("progress")
    while (ended := one.hear("moved", "summary")) is None:  # it has left, and may not know yet that it was heard
        one.tell("progress")
    assert (ended["ended"], ended["trained"], ended["left"]) == ("drained", 0, []), "progress raised, and ended it"
    run.judge(*summaries(crew, count=2))


def test_sigterm_while_it_stores_the_checkpoint_lets_it_store(run: Witnessed) -> None:
    members = {name: run.member("held", name, "stores") for name in ("m1", "m2", "m3")}
    drawn = wait_for(lambda: run.shown()["storing"], "one was drawn to store the checkpoint")
    one = members.pop(drawn)
    one.hear("stores")
    one.kill(signal.SIGTERM)
    for member in (one, *members.values()):
        member.tell("go on")
    (ended,) = summaries(one)
    assert ended["ended"] == "drained"
    assert wait_for(lambda: run.shown()["epochs"], "the epoch is over")[0]["checkpoint"]["source"] == "stored"
    run.judge(*summaries(*members.values()))


def test_sigterm_while_the_coordinator_is_away_ends_after_drain_s(run: Witnessed) -> None:
    one, crew = run.member("told", "m1", 0.3), run.member("crew", "m2", "m3")
    one.hear("trains")
    run.kill()
    one.kill(signal.SIGTERM)
    one.tell("done")
    (ended,) = summaries(one)
    assert ended["ended"] == "drained"
    assert one.wait() == 0
    run.start()
    run.judge(*summaries(crew, count=2))


# -- what the trainer does -------------------------------------------------------------------------------------------


def test_a_trainer_that_raises_ends_the_member_which_leaves_and_says_why(run: Witnessed) -> None:
    one, crew = run.member("told", "m1"), run.member("crew", "m2", "m3")
    one.hear("trains")
    one.tell("fail")
    assert one.wait() == 1
    run.wait_state("m1", "Left")
    assert run.of("m1")["reason"] == "failed with ValueError: the disk is on fire"
    run.judge(*summaries(crew, count=2))
    assert not list((run.folder / "cache" / "m1").glob("member-*")), "nothing of it is left"


# -- other processes -------------------------------------------------------------------------------------------------


def test_a_newer_process_of_the_same_id_ends_the_older_in_the_middle_of_its_training(run: Witnessed) -> None:
    one, crew = run.member("told", "m1"), run.member("crew", "m2", "m3")
    one.hear("trains")
    newer = run.member("plain", "m1")
    wait_for(lambda: run.of("m1")["incarnation"] == 2, "it has the place")
    ended = None
    while ended is None:
        one.tell("progress")
        ended = one.hear("moved", "summary")
    assert (ended["ended"], ended["trained"]) == ("superseded", 0)
    assert "incarnation 2" in ended["reason"]
    assert one.wait() == 0
    run.judge(*summaries(newer), *summaries(crew, count=2))


# -- being put out ---------------------------------------------------------------------------------------------------


def test_a_member_proven_to_lie_is_told_so_and_comes_back_only_when_an_operator_says_so(tmp_path: Path) -> None:
    with Witnessed(tmp_path, total_steps=600, rounds_per_epoch=10) as run:
        liar, crew = run.member("two_faced", "m1"), run.member("crew", "m2", "m3", PACE_S="0.02")
        sort, code, text = liar.hear("raised")
        assert (sort, code) == ("Ejected", "ejected")
        assert "signed two results" in text
        assert run.of("m1")["ejected"]
        assert run.member("plain", "m1").hear("raised")[:2] == ["Ejected", "ejected"]
        run.ask("readmit", member="m1")
        honest = run.member("plain", "m1")
        run.wait_state("m1", "InStep")
        run.ask("stop", reason="enough")
        shown = run.judge(*summaries(honest), *summaries(crew, count=2))
        assert shown["reason"] == "enough"


def test_a_member_removed_for_its_strikes_joins_again_for_the_next_epoch(tmp_path: Path) -> None:
    config: dict[str, Any] = {"strikes_max": 0, "round_train_max_s": 4.0, "round_witness_s": 4.0, "warmup_s": 10.0}
    with Witnessed(tmp_path, total_steps=60, rounds_per_epoch=3, **config) as run:
        one, crew = run.member("told", "m1"), run.member("crew", "m2", "m3")
        one.hear("trains")
        wait_for(lambda: run.of("m1")["incarnation"] == 2, "it was removed, and has joined again")
        while "was not done in time; joins again" not in (said := one.hear("news")[1]):
            continue
        assert "1 bad rounds in a row" in said
        one.tell("done\n" * 100)
        ended = [*summaries(one), *summaries(crew, count=2)]
        shown = run.judge(*ended)
        assert "m1" in shown["epochs"][-1]["roster"]
        assert ended[0]["trained"] > 1


# -- too late --------------------------------------------------------------------------------------------------------


def test_who_comes_to_a_run_that_is_over_is_told_so(run: Witnessed) -> None:
    run.ask("stop", reason="enough")
    (ended,) = summaries(run.member("plain", "m1"))
    assert (ended["ended"], ended["trained"], ended["step"]) == ("finished", 0, -1)
    assert "Finished" in ended["reason"]
    with pytest.raises(Refused):
        run.ask("resume")
