"""Federated lives: they keep every promise, are repeatable, and a crash after any entry changes no weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from tests.soak import soaking
from typer.testing import CliRunner

from quoracy.cli import app
from quoracy.core.federated.events import RoundClosed, UpdateOffered
from quoracy.sim.checkers.journal import read
from quoracy.sim.federated import Life, live
from quoracy.sim.federated.history import Course
from quoracy.sim.federated.life import GIVEN, RUN
from quoracy.sim.federated.participants import STAGES, SimParticipant
from quoracy.sim.world import MS

SEEDS = 500 if soaking("sim") else 6
SMALL: dict[str, Any] = {"clients": 3, "rounds": 2, "initial": GIVEN, "evaluation": "mine:score"}
"""Three participants, all of them needed: what comes out is one model and no other."""
CODE = """
import sys
from hashlib import blake2b
from quoracy.sim.federated import live
print(blake2b("\\n".join(live(int(sys.argv[1]), record=True).transcript).encode()).hexdigest())
"""


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.parametrize("seed", range(1001, 1001 + SEEDS))
def test_a_life_keeps_every_promise(seed: int) -> None:
    outcome = live(seed)
    assert outcome.violation == ""
    assert outcome.released >= 6
    assert outcome.entries > 20


def test_the_same_seed_is_the_same_life_in_every_process() -> None:
    here = blake2b("\n".join(live(7, record=True).transcript).encode()).hexdigest()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", CODE, "7"], env=environment, capture_output=True, check=True)
        assert run.stdout.decode().strip() == here


def test_lives_meet_every_sort_of_trouble() -> None:
    """The simulator must not become gentle unnoticed."""
    missing = {
        "loses power", "is killed", "is stopped", "goes on", "clock jumps", "full_disk", "cut_host_from_store", "twin",
        "lost:", "superseded", "code='quarantined'", "code='late_update'", "Moved(", "drop_out", "vanish", "everybody",
        "workshop_stutters", "dies before it reports", "no room", "w has a NaN", "no such object", "not done within",
        "late: round", "the operator said so", "newcomer", "offered=True", "says nothing about",
        "could not be looked at",
    }  # fmt: skip
    for seed in range(1, 81):
        told = "\n".join(live(seed, record=True).transcript)
        missing = {trouble for trouble in missing if trouble not in told}
        if not missing:
            return
    pytest.fail(f"80 lives without {missing}")


def test_the_command_tells_how_the_lives_went_and_writes_one_down(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["sim", "federated", "--seeds", "1..2", "--jobs", "1", "--json"])
    assert told.exit_code == 0
    figures = {m["name"]: m["value"] for m in json.loads(told.stdout.splitlines()[-1])["measurements"]}
    assert (figures["lives"], figures["violations"]) == (2, 0)
    assert figures["rounds"] >= 12
    path = tmp_path / "life.txt"
    CliRunner().invoke(app, ["sim", "federated", "--seeds", "2", "--transcript", str(path)])
    assert path.read_text().splitlines() == live(2, record=True).transcript


# -- crashes -------------------------------------------------------------------------------------------------------


def course_of(life: Life) -> Course:
    course = Course(pytest.fail)
    for _ in course.walk(life.store.entries, RUN):
        pass
    return course


def small(seed: int = 1, hosts: int = 1, **config: Any) -> Life:
    return Life(seed, config=SMALL | config, fair=True, size=3, hosts=hosts)


def trainings(config: dict[str, Any]) -> int:
    """One each in each of two rounds; and one gives the initial weights."""
    return 6 + (config.get("initial") == "")


def undisturbed(**config: Any) -> tuple[str, int]:
    """The final weights, and the number of entries."""
    life = small(**config)
    assert life.live().violation == ""
    assert sum(p.trainings for p in life.participants) == trainings(config)
    return course_of(life).weights, len(life.store.entries)


@pytest.mark.parametrize("config", [{}, {"initial": "", "evaluation": ""}], ids=["given", "from-a-participant"])
def test_a_coordinator_that_dies_after_any_entry_comes_to_the_same_weights(config: dict[str, Any]) -> None:
    """And nobody trains again, since nobody's work was lost."""
    weights, entries = undisturbed(**config)
    assert entries > 12
    for n in range(1, entries + 1):
        life = small(**config)
        life.kill_after_entry = n
        assert life.live().violation == "", f"after entry {n}"
        assert life.hosts[0].lives == 2, f"it was never killed after entry {n}"
        assert course_of(life).weights == weights, f"after entry {n}"
        assert sum(p.trainings for p in life.participants) == trainings(config), f"after entry {n}"


def test_a_coordinator_that_dies_for_good_after_any_entry_is_replaced_and_the_weights_are_the_same() -> None:
    weights, entries = undisturbed()
    for n in range(3, entries + 1):
        life = small(hosts=2)
        life.kill_after_entry, life.comes_back = n, False
        assert life.live().violation == "", f"after entry {n}"
        assert not life.hosts[0].alive, f"it was never killed after entry {n}"
        assert course_of(life).weights == weights, f"after entry {n}"
        assert sum(p.trainings for p in life.participants) == 6, f"after entry {n}"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("back_ms", [100, 3500], ids=["at-once", "after-it-was-given-up"])
def test_a_participant_that_dies_at_any_stage_is_counted_once_and_the_weights_are_the_same(
    stage: str, back_ms: int
) -> None:
    weights, _ = undisturbed()
    life = small()

    def dies(member: str) -> SimParticipant:
        participant = start(member)
        if member == "p1" and len([p for p in life.participants if p.member == "p1"]) == 1:
            participant.dies_at = stage
            life.world.after(600 * MS, again)
        return participant

    def again() -> None:
        if any(p.present() for p in life.participants if p.member == "p1"):
            life.world.after(50 * MS, again)
        else:
            life.world.after(back_ms * MS, start, "p1")

    start = life.start
    life.start = dies  # type: ignore[method-assign]
    assert life.live().violation == ""
    processes = [p for p in life.participants if p.member == "p1"]
    assert [p.alive for p in processes] == [False, True]
    course = course_of(life)
    assert course.weights == weights
    assert [len(closed.accepted) for closed in course.closed] == [3, 3]
    done_before = stage in ("offered", "judged")
    assert processes[1].trainings == (1 if done_before else 2)


def test_the_order_of_arrival_changes_nothing_in_the_weights() -> None:
    finals, orders = set(), set()
    for seed in range(1, 9):
        life = small(seed)
        assert life.live().violation == ""
        finals.add(course_of(life).weights)
        offered = [e.member for _, _, e in read(life.store.entries, RUN) if isinstance(e, UpdateOffered)]
        orders.add(tuple(offered))
    assert len(finals) == 1
    assert len(orders) > 1


def test_with_faults_the_weights_are_those_of_the_undisturbed_run_if_the_same_ones_were_accepted() -> None:
    """Count-only windows in which everybody is needed: then the same ones are accepted whatever goes wrong."""
    for seed in range(1, 7):
        config = {"clients": 3, "rounds": 6, "initial": GIVEN}
        calm = Life(seed, config=config, fair=True, size=3, hosts=1)
        rough = Life(seed, config=config, size=3)
        rough.faults.newcomer = lambda: None  # type: ignore[method-assign]
        rough.planned = 8
        assert (calm.live().violation, rough.live().violation) == ("", "")
        sets = [[u.member for u in closed.accepted] for closed in course_of(rough).closed]
        assert sets == [["p1", "p2", "p3"]] * 6
        assert course_of(rough).weights == course_of(calm).weights


def test_a_workshop_that_dies_and_stutters_aggregates_once() -> None:
    life = small()
    life.workshop.dying, life.workshop.doubling = 0.6, 0.6
    assert life.live().violation == ""
    closed = [e for _, _, e in read(life.store.entries, RUN) if isinstance(e, RoundClosed)]
    assert len(closed) == len(course_of(life).closed) == 2
    assert course_of(life).weights == undisturbed()[0]
