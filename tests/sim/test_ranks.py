"""Lives of ranks: they hold every promise, are repeatable, and meet every sort of trouble."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b

import pytest
from tests.soak import soaking
from typer.testing import CliRunner

from quoracy.cli import app
from quoracy.core.peer import Peer
from quoracy.sim.ranks import Life, live

SEEDS = 500 if soaking("sim") else 6
CODE = """
import sys
from hashlib import blake2b
from quoracy.sim.ranks import live
print(blake2b("\\n".join(live(int(sys.argv[1]), record=True).transcript).encode()).hexdigest())
"""
runner = CliRunner()


def transcript_digest(seed: int) -> str:
    return blake2b("\n".join(live(seed, record=True).transcript).encode()).hexdigest()


def elsewhere(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run([sys.executable, "-c", CODE, str(seed)], env=environment, capture_output=True, check=True)
    return run.stdout.decode().strip()


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.parametrize("seed", range(2001, 2001 + SEEDS))
def test_a_life_of_ranks_keeps_every_promise(seed: int) -> None:
    outcome = live(seed)
    assert outcome.violation == ""
    assert outcome.released > 20


def test_the_same_seed_is_the_same_life_in_every_process() -> None:
    here = transcript_digest(7)
    assert [elsewhere(7, "1"), elsewhere(7, "2")] == [here, here]
    assert transcript_digest(8) != here


def test_a_transcript_does_not_change_what_happens() -> None:
    silent, told = live(5), live(5, record=True)
    assert (silent.events, silent.entries, silent.released) == (told.events, told.entries, told.released)
    assert silent.transcript == []


def test_lives_of_ranks_meet_every_sort_of_trouble() -> None:
    """The simulator must not become gentle unnoticed."""
    lives = [Life(seed, record=True) for seed in range(1, 31)]
    lines = [line for life in lives for line in life.live().transcript]
    for trouble in (
        "is killed between two operations", "is killed at once", "with all the others", "cut off from the store",
        "ends: superseded", "request lost", "reply lost", "late lost", "_pause", "_slow", "_newcomer", "_twin",
        "_forget_notes", "_storm", "for good", "ends: done", "_lose_store", "is in generation 1", "ends: store_lost",
        "votes False", "asks Load", "asks Save", "Letter(sender='duty/group'", "usual=True", "usual=False",
        "asks Await",
    ):  # fmt: skip
        assert any(trouble in line for line in lines), trouble
    assert sum(life.store.compactions for life in lives) > 60


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.parametrize("seed", range(3001, 3001 + SEEDS))
def test_a_store_that_is_lost_again_and_again_is_begun_anew_by_majorities(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose = Life._lose_store

    def often(life: Life) -> None:
        for after_us in (0, 300_000, 600_000, 900_000):
            life.world.after(after_us, lose, life)

    monkeypatch.setattr(Life, "_lose_store", often)
    life = Life(seed)
    life.world.after(2_000_000, often, life)
    assert life.live().violation == ""
    assert life.store.losses >= 4


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.parametrize("seed", range(4001, 4001 + SEEDS))
def test_most_of_them_are_left_behind_and_begin_anew_where_they_stood(seed: int) -> None:
    life = Life(seed)
    life.world.after(3_000_000, life.leave_behind)
    assert life.live().violation == ""


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.parametrize("seed", range(5001, 5001 + SEEDS))
def test_one_that_can_only_read_stops_itself_before_it_is_given_up(seed: int) -> None:
    life = muted(seed)
    outcome = life.live()
    assert outcome.violation == ""
    assert any("cut off from the store" in line for line in outcome.transcript)


def muted(seed: int) -> Life:
    """Again and again, somebody's writes do not get through."""
    life = Life(seed, record=True)
    for after_us in range(1_000_000, 9_000_000, 500_000):
        life.world.after(after_us, life.mute)
    return life


@pytest.mark.parametrize("seed", range(1, 5))
def test_too_few_who_are_left_of_a_new_beginning_end_and_the_run_is_started_afresh(seed: int) -> None:
    """They would wait for ever for ranks that were killed for good when a majority had just begun anew."""
    life = too_few_are_left(seed)
    outcome = life.live()
    assert outcome.violation == ""
    assert sum("ends: store_lost" in line for line in outcome.transcript) == 2
    assert life.store.losses == 2


def too_few_are_left(seed: int) -> Life:
    """Five ranks, whose store is lost; when the first entry is in the new one, three are killed."""
    life = Life(seed, record=True)
    life.size, life.planned = 5, 0

    def look() -> None:
        if not (life.store.losses and life.store.last):
            life.world.after(250, look)
            return
        for process in [each for each in life.processes if each.alive][2:]:
            life._gone.add(int(process.rank))
            process.kill("for good")

    life.world.after(2_000_000, life._lose)
    life.world.after(2_000_001, look)
    return life


@pytest.mark.parametrize("seed", [2063, 3994])
def test_one_that_decides_after_it_was_superseded_ends(seed: int) -> None:
    """Seeds in which a newer life was let in while the older one, the last to come, wrote the record."""
    outcome = Life(seed, record=True).live()
    assert outcome.violation == ""
    assert any("ends: superseded" in line for line in outcome.transcript)


def test_a_record_that_nobody_has_read_may_be_lost_with_its_store() -> None:
    assert live(1417).violation == ""


def test_a_rank_reads_the_journal_anew_where_entries_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[bool] = []
    whole = Peer.load

    def counted(self: Peer) -> object:
        loads.append(self.run is not None)
        return whole(self)

    monkeypatch.setattr(Peer, "load", counted)
    assert [live(seed).violation for seed in range(1, 13)] == [""] * 12
    assert sum(loads) >= 3


def test_the_command_names_the_kind_when_a_life_of_ranks_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "propose", lambda _self: iter(()))
    result = runner.invoke(app, ["sim", "ranks", "--seeds", "1..2", "--jobs", "1"])
    assert result.exit_code == 1
    assert "progress:" in result.output
    assert "replay it alone: quoracy sim ranks --seeds 1 --transcript life-1.txt" in result.output


def test_a_life_in_which_the_code_fails_is_a_seed_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: Peer) -> object:
        raise KeyError("nowhere")

    monkeypatch.setattr(Peer, "propose", broken)
    result = runner.invoke(app, ["sim", "ranks", "--seeds", "1..2", "--jobs", "1"])
    assert result.exit_code == 1
    assert "seed 2: KeyError: 'nowhere' (test_ranks.py:" in " ".join(result.output.split())
    assert "replay it alone: quoracy sim ranks --seeds 1 --transcript life-1.txt" in result.output
