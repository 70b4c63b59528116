"""Witnessed lives: they keep every promise, are repeatable, meet all sorts of trouble; a crash after any entry costs no
work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from tests.sim.witnessed.ward import events, lived, small, trainings, when_started
from tests.soak import soaking
from typer.testing import CliRunner

from quoracy.cli import app
from quoracy.core.witnessed.events import MemberLost, RoundSealed, RunPaused, RunStopped
from quoracy.core.witnessed.state import Course, Phase
from quoracy.sim.witnessed import Life, live
from quoracy.sim.witnessed.members import STAGES, SimMember
from quoracy.sim.world import MS

SEEDS = 500 if soaking("sim") else 6
CODE = """
import sys
from hashlib import blake2b
from quoracy.sim.witnessed import live
print(blake2b("\\n".join(live(int(sys.argv[1]), record=True).transcript).encode()).hexdigest())
"""


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.parametrize("seed", range(1001, 1001 + SEEDS))
def test_a_life_keeps_every_promise(seed: int) -> None:
    """Few entries are enough where few steps are asked for, or where an operator stops the run before the first."""
    life = Life(seed)
    outcome = life.live()
    assert outcome.violation == ""
    course = life.course()
    assert course is not None
    assert course.state is Phase.FINISHED
    assert course.step >= life.config["total_steps"] or course.reason == "the operator had enough"
    assert outcome.entries > 10


def test_the_same_seed_is_the_same_life_in_every_process() -> None:
    here = blake2b("\n".join(live(7, record=True).transcript).encode()).hexdigest()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", CODE, "7"], env=environment, capture_output=True, check=True)
        assert run.stdout.decode().strip() == here


OFTEN = {
    "loses power", "is killed", "is stopped", "goes on", "clock jumps", "full_disk", "cut_host_from_store", "twin",
    "lost:", "superseded", "Moved(", "drop_out", "vanish", "everybody", "newcomer", "partition", "cut_pair",
    "cut_group", "boast_together", "lies: mismatch", "lies: two-faced", "lies: boasts",
    "objects_away", "relay_forgets", "the operator said so", "code='ejected'", "state='Resyncing'", "state='Removed'",
    "bad rounds in a row", "does Store", "source='p2p'", "source='stored'", "rot", "-> relay: Get(", "back to step",
    "stuck",
}  # fmt: skip
"""What at least one life in eight meets."""
NOW_AND_THEN = {
    "lies: header", "lies: saturated", "lies: hash", "lies: poisons", "lies: slanders", "the operator had enough",
    "code='late_result'", "code='saturated'", "says HealthCheck", "attempt=2", "no majority", "a result is void",
}  # fmt: skip


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.timeout(600 if soaking("sim") else 120)
def test_lives_meet_every_sort_of_trouble() -> None:
    """The simulator must not become gentle unnoticed."""
    lives, missing = (500, OFTEN | NOW_AND_THEN) if soaking("sim") else (80, OFTEN)
    for seed in range(1, lives + 1):
        told = "\n".join(live(seed, record=True).transcript)
        told += "a result is void" * (re.search(r"voided=\(\d", told) is not None)
        missing = {trouble for trouble in missing if trouble not in told}
        if not missing:
            return
    pytest.fail(f"{lives} lives without {missing}")


def test_a_model_that_only_one_has_whom_nobody_reaches_is_lent() -> None:
    life = small(size=2, min_clients=2, total_steps=8, checkpoint="none")
    life.world.lines = []
    life.hidden, life.brings_back = "m2", False

    def replace() -> None:
        for process in life.members:
            if process.member == "m1":
                process.kill()
        life.world.after(200 * MS, life.start, "m3")

    life.world.after(2_500 * MS, replace)
    assert lived(life).step == 8
    assert any("m2" in line and "does Lend" in line for line in life.world.lines)


def test_the_command_tells_how_the_lives_went_and_writes_one_down(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["sim", "witnessed", "--seeds", "1..2", "--jobs", "1", "--json"])
    assert told.exit_code == 0
    figures = {m["name"]: m["value"] for m in json.loads(told.stdout.splitlines()[-1])["measurements"]}
    assert (figures["lives"], figures["violations"]) == (2, 0)
    assert figures["rounds"] >= 8
    path = tmp_path / "life.txt"
    CliRunner().invoke(app, ["sim", "witnessed", "--seeds", "2", "--transcript", str(path)])
    assert path.read_text().splitlines() == live(2, record=True).transcript


# -- crashes -------------------------------------------------------------------------------------------------------


def figures(course: Course) -> tuple[int, int, int, int, int]:
    """Steps, and batches applied, skipped, moved, returned."""
    account = course.account
    return (course.step, account.applied_in_all, account.skipped_in_all, account.moved, account.returned)


@pytest.mark.parametrize("config", [{}, {"checkpoint": "none", "attestation": "bloom"}], ids=["stored", "none"])
def test_a_coordinator_that_dies_after_any_entry_goes_on_with_the_round_it_was_in(config: dict[str, Any]) -> None:
    """Nobody is lost, nothing is trained a second time, nothing is skipped: every step costs three trainings."""
    calm = small(**config)
    assert figures(lived(calm)) == (4, 24, 0, 0, 0)
    assert trainings(calm) == 12
    entries = len(calm.store.entries)
    assert entries > 15
    for n in range(1, entries + 1):
        life = small(**config)
        life.kill_after_entry = n
        assert figures(lived(life)) == (4, 24, 0, 0, 0), f"after entry {n}"
        assert life.hosts[0].lives == 2, f"it was never killed after entry {n}"
        assert trainings(life) == 12, f"after entry {n}"
        assert len(events(life, RoundSealed)) == 4, f"after entry {n}"


def test_a_coordinator_that_dies_for_good_after_any_entry_is_replaced_and_no_work_is_lost() -> None:
    """Members look for the other one at random, and may need seconds to find it: nothing ends before they have."""
    patient: dict[str, Any] = {
        "heartbeat_timeout_s": 30.0,
        "round_train_max_s": 30.0,
        "round_witness_s": 30.0,
        "cooldown_s": 30.0,
    }
    calm = small()
    lived(calm)
    for n in range(3, len(calm.store.entries) + 1):
        life = small(hosts=2, warmup_s=30.0, **patient)
        life.kill_after_entry, life.comes_back = n, False
        assert figures(lived(life)) == (4, 24, 0, 0, 0), f"after entry {n}"
        assert not life.hosts[0].alive, f"it was never killed after entry {n}"
        assert trainings(life) == 12, f"after entry {n}"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("back_ms", [100, 3500], ids=["at-once", "after-it-was-given-up"])
def test_a_member_that_dies_at_any_stage_costs_the_run_nothing_but_time(stage: str, back_ms: int) -> None:
    """The first one to get there dies: who stores the model is drawn."""
    life = small(size=4)
    life.brings_back = False
    dead: list[str] = []

    def doom(process: SimMember) -> None:
        kill = process.kill

        def dies() -> None:
            kill()
            dead.append(process.member)
            life.world.after(back_ms * MS, life.start, process.member)
            for other in life.members:
                other.dies_at = ""

        process.dies_at = "" if dead else stage
        process.kill = dies  # type: ignore[method-assign]

    when_started(life, doom)
    course = lived(life)
    assert len(dead) == 1
    assert (course.step, course.account.skipped_in_all, course.account.returned) == (4, 0, 0)
    assert course.account.applied_in_all == course.account.next_batch


def test_who_comes_back_in_the_same_epoch_catches_up_in_it() -> None:
    life = small(size=4, rounds_per_epoch=12, total_steps=12, global_batch_size_start=96)

    def falls(process: SimMember) -> None:
        if process.member == "m1" and len(life.members) <= 4:
            life.world.after(1_500 * MS, process.kill)
            life.world.after(1_800 * MS, life.start, "m1")

    when_started(life, falls)
    course = lived(life)
    first, second = [process for process in life.members if process.member == "m1"]
    assert course.epoch == 1
    assert not first.alive
    assert second.bench.trainings > 0
    assert course.step == 12


def test_a_silent_members_work_goes_to_another_in_the_same_round() -> None:
    life = small(size=4, round_train_max_s=8.0, rounds_per_epoch=4)
    life.brings_back = False

    def stalls(process: SimMember) -> None:
        if process.member == "m1":
            process.dies_at = "training"

    when_started(life, stalls)
    course = lived(life)
    assert [lost.member for lost in events(life, MemberLost)] == ["m1"]
    assert course.account.moved > 0
    assert course.account.skipped_in_all == 0


# -- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_ms", range(400, 3000, 200))
def test_a_pause_burns_nothing(at_ms: int) -> None:
    life = small()
    life.world.after(at_ms * MS, life.operator.command, RunPaused("lunch"))
    assert figures(lived(life)) == (4, 24, 0, 0, 0)
    assert trainings(life) == 12


@pytest.mark.parametrize("at_ms", range(400, 2000, 200))
def test_a_run_that_is_stopped_keeps_what_it_has_and_accounts_for_the_rest(at_ms: int) -> None:
    life = small(total_steps=500)
    life.world.after(at_ms * MS, life.operator.command, RunStopped("enough"))
    course = lived(life)
    assert course.state is Phase.FINISHED
    assert course.reason == "enough"
    account = course.account
    assert account.applied_in_all == 6 * course.step
    assert account.applied_in_all + account.skipped_in_all == account.next_batch
    assert course.place.source == "stored" or course.step == 0


def test_a_fair_life_ends_soon() -> None:
    """What costs time in a round is the training, not the waiting."""
    life = Life(3, config={"min_clients": 4, "total_steps": 20, "global_batch_size_start": 32}, fair=True, size=4)
    lived(life)
    assert life.world.now_us < 20_000 * MS
