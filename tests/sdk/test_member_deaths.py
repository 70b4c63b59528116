"""Members killed with -9 at named points, stopped, and without their heartbeat process: the run goes on, and every
batch counts once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.live import Process, alive, heartbeat_process, heartbeat_processes, wait_for
from tests.sdk.witnessed_live import STEPS, Witnessed, summaries


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Witnessed]:
    """What one has committed to and takes with it is waited for until the round's time is over."""
    with Witnessed(tmp_path, round_train_max_s=6.0, round_witness_s=2.0) as live:
        yield live


def killed(member: Process) -> None:
    beats = heartbeat_process(member.pid)
    member.kill()
    member.wait()
    wait_for(lambda: not alive(beats), "its heartbeat process is gone")


@pytest.mark.parametrize("where", ["trains", "committed", "fetches", "loads"])
def test_a_member_killed_costs_no_batch(run: Witnessed, where: str) -> None:
    """In training; after its commitment, before anybody was told; while it fetches; in warm-up."""
    one, crew = run.member("held", "m1", where), run.member("crew", "m2", "m3")
    one.hear(where)
    killed(one)
    shown = run.judge(*summaries(crew, count=2))
    assert shown["step"] == STEPS
    assert {member["state"] for member in shown["members"]} == {"Done", "Lost"}


def test_a_member_killed_while_it_stores_the_checkpoint_is_replaced_by_another(run: Witnessed) -> None:
    members = {name: run.member("held", name, "stores") for name in ("m1", "m2", "m3")}
    drawn = wait_for(lambda: run.shown()["storing"], "one was drawn to store the checkpoint")
    one = members.pop(drawn)
    one.hear("stores")
    killed(one)
    for other in members.values():
        other.tell("go on")
    shown = run.judge(*summaries(*members.values()))
    assert shown["step"] == STEPS
    assert shown["roll_backs"] == 0


# -- on the way to the model -----------------------------------------------------------------------------------------


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Witnessed]:
    """Two are enough to go on, and there is no end."""
    with Witnessed(tmp_path, init_min_clients=2, rounds_per_epoch=10, total_steps=6000) as live:
        yield live


def stopped(run: Witnessed, *members: Process) -> list[dict[str, Any]]:
    """The newcomer is in step; then it is enough, and all have the same model."""
    run.wait_state("m3", "InStep")
    run.ask("stop", reason="enough")
    ended = summaries(*members)
    assert {one["model"] for one in ended} == {run.wait_phase("Finished")["checkpoint"]["model"]}
    return ended


def loaded(member: Process) -> list[str]:
    return [value[1] for topic, value in member.said if topic == "news" and value[0] == "loaded"]


def test_a_newcomer_killed_in_the_middle_of_the_model_comes_back_and_joins(going: Witnessed) -> None:
    """It has the manifest, and none of the tensors."""
    others = [going.member("plain", name, PACE_S="0.02") for name in ("m1", "m2")]
    wait_for(lambda: going.shown()["step"] > 0, "they train")
    late = going.member("held", "m3", "newcomes")
    late.hear("newcomes")
    killed(late)
    again = going.member("plain", "m3")
    stopped(going, again, *others)
    assert going.of("m3")["incarnation"] == 2
    assert "from the others" in loaded(again)[0]


def test_a_holder_killed_in_the_middle_of_the_model_is_replaced_by_another(going: Witnessed) -> None:
    one, two = going.member("plain", "m1", PACE_S="0.02"), going.member("giving", "m2", PACE_S="0.02")
    wait_for(lambda: going.shown()["step"] > 0, "they train")
    late = going.member("plain", "m3", PACE_S="0.02")
    two.hear("gives")
    killed(two)
    ended = stopped(going, late, one)
    assert "from the others" in loaded(late)[0]
    assert ended[1]["exchanged"]["given_bytes"] > 0


# -- coming back -----------------------------------------------------------------------------------------------------


@pytest.fixture
def long(tmp_path: Path) -> Iterator[Witnessed]:
    """One epoch."""
    with Witnessed(tmp_path, rounds_per_epoch=100, total_steps=12) as live:
        yield live


def back(run: Witnessed) -> bool:
    """Its second life has told which model it has."""
    one = run.of("m1")
    return (one["incarnation"], one["state"]) == (2, "Resyncing") and bool(one["model"])


def test_a_member_killed_in_training_comes_back_into_the_same_epoch_with_its_key(long: Witnessed) -> None:
    one, two, three = (long.member("told", name) for name in ("m1", "m2", "m3"))
    one.hear("trains")
    killed(one)
    again = long.member("plain", "m1")
    wait_for(lambda: back(long), "it has the model, and has said so")
    for other in (two, three):
        other.tell("done\n" * 30)
    ended = summaries(again, two, three)
    shown = long.judge(*ended)
    assert [epoch["epoch"] for epoch in shown["epochs"]] == [0]
    assert long.of("m1")["incarnation"] == 2
    assert ended[0]["trained"] > 0, "it was given work again before the epoch was over"


def test_another_process_without_the_key_does_not_get_the_place_of_a_member(long: Witnessed) -> None:
    one = long.member("told", "m1")
    wait_for(lambda: long.of("m1"), "it has joined")
    (long.folder / "m1.key").unlink()
    thief = long.member("plain", "m1")
    sort, code, _ = thief.hear("raised")
    assert (sort, code) == ("AccessDenied", "key_mismatch")
    assert long.of("m1")["incarnation"] == 1
    assert alive(one.pid)


def test_a_member_stopped_beyond_the_time_out_goes_on_in_the_same_epoch_and_process(long: Witnessed) -> None:
    one, two, three = (long.member("told", name) for name in ("m1", "m2", "m3"))
    one.hear("trains")
    beats = heartbeat_process(one.pid)
    for pid in (one.pid, beats):
        os.kill(pid, signal.SIGSTOP)
    long.wait_state("m1", "Lost")
    for pid in (beats, one.pid):
        os.kill(pid, signal.SIGCONT)
    one.tell("done")
    wait_for(lambda: back(long), "it is back, and has said which model it has")
    for member in (one, two, three):
        member.tell("done\n" * 30)
    ended = summaries(one, two, three)
    shown = long.judge(*ended)
    assert [epoch["epoch"] for epoch in shown["epochs"]] == [0]
    assert (long.of("m1")["incarnation"], long.of("m1")["losses"]) == (2, 1)
    assert ended[0]["trained"] > 1
    loaded = [value for topic, value in one.said if topic == "news" and value[0] == "loaded"]
    assert len(loaded) == 1, "it has its model still: what it missed is applied, nothing is loaded again"


@pytest.mark.parametrize("times", [1, 3])
def test_a_heartbeat_process_killed_is_replaced_in_the_same_life_and_all_is_said_again(
    long: Witnessed, times: int
) -> None:
    one, crew = long.member("told", "m1"), long.member("crew", "m2", "m3")
    for _ in range(times):
        one.hear("trains")
        beats = heartbeat_process(one.pid)
        os.kill(beats, signal.SIGKILL)
        one.tell("done")
        wait_for(lambda old=beats: heartbeat_processes(one.pid) not in ([], [old]), "another one is there")  # type: ignore[misc]
    one.tell("done\n" * 30)
    long.judge(*summaries(one), *summaries(crew, count=2))
    assert (long.of("m1")["incarnation"], long.of("m1")["losses"]) == (1, 0)
