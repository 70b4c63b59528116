"""Lives: they hold every promise, are repeatable to the last message, and show what went wrong when something does."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import blake2b

import msgspec
import pytest
from tests.soak import soaking

from quoracy.core.errors import JournalCorrupt
from quoracy.sim import cluster, live
from quoracy.sim.disk import Disk
from quoracy.sim.network import Network, Weather
from quoracy.sim.world import MS, SECOND, World

SEEDS = 500 if soaking("sim") else 6
CODE = """
import sys
from hashlib import blake2b
from quoracy.sim import live
print(blake2b("\\n".join(live(int(sys.argv[1]), record=True).transcript).encode()).hexdigest())
"""


def transcript_digest(seed: int) -> str:
    return blake2b("\n".join(live(seed, record=True).transcript).encode()).hexdigest()


def elsewhere(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run([sys.executable, "-c", CODE, str(seed)], env=environment, capture_output=True, check=True)
    return run.stdout.decode().strip()


@pytest.mark.soak("sim", shorter=True)
@pytest.mark.parametrize("seed", range(1001, 1001 + SEEDS))
def test_a_life_keeps_every_promise(seed: int) -> None:
    outcome = live(seed)
    assert outcome.violation == ""
    assert outcome.released > 20
    assert outcome.entries > 50


def test_the_same_seed_is_the_same_life_in_every_process() -> None:
    here = transcript_digest(7)
    assert [elsewhere(7, "1"), elsewhere(7, "2")] == [here, here]


def test_another_seed_is_another_life() -> None:
    assert transcript_digest(7) != transcript_digest(8)


def test_a_transcript_does_not_change_what_happens() -> None:
    silent, told = live(5), live(5, record=True)
    assert (silent.events, silent.entries, silent.released) == (told.events, told.entries, told.released)
    assert silent.transcript == []
    assert any("is durable" in line for line in told.transcript)


def test_lives_meet_every_sort_of_trouble() -> None:
    """The simulator must not become gentle unnoticed."""
    lines = [line for seed in range(1, 41) for line in live(seed, record=True).transcript]
    for trouble in (
        "loses power", "is killed", "is stopped", "goes on", "clock jumps", "full_disk", "cut_host_from_store", "twin",
        "lost:", "superseded", "code='wrong_state'", "released=False", "Moved(", "roll_back", "code='stale_token'",
        "old_order", "roll_back_unheard",
        "its machine falls silent", "hangs up on", "heartbeats 1 are killed", "heartbeats 1 are stopped",
        "heartbeats 2 begin",
        "told here: False", "told here: True", "rough_dialing", "hold_the_gil", "freeze", "many_orders", "with the SDK",
    ):  # fmt: skip
        assert any(trouble in line for line in lines), trouble


def lost_races(stagger_us: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """In those of a hundred lives that have three hosts: two of them follow, and want to take over at the same time."""
    monkeypatch.setattr(cluster, "LIMITS", msgspec.structs.replace(cluster.LIMITS, stagger_us=stagger_us))
    lives = [life for seed in range(1, 101) if len((life := cluster.Life(seed)).hosts) == 3]
    outcomes = [life.live() for life in lives]
    assert [outcome.violation for outcome in outcomes] == [""] * len(lives)
    return sum(outcome.lost_races for outcome in outcomes)


def test_followers_that_stagger_lose_fewer_races_for_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = lost_races(0, monkeypatch)
    assert at_once >= 10
    assert lost_races(150 * MS, monkeypatch) <= at_once / 2


def test_a_disk_keeps_what_was_synced_and_nothing_torn() -> None:
    kept = set()
    for seed in range(200):
        disk = Disk("run")
        disk.write(1, b"first")
        disk.sync()
        disk.write(2, b"second, which is longer")
        disk.lose_power(World(seed).rng)
        entries = disk.recover()
        assert entries[:1] == [b"first"]
        assert entries[1:] in ([], [b"second, which is longer"])
        kept.add(len(entries))
    assert kept == {1, 2}


def test_a_disk_damaged_in_the_middle_is_no_torn_one() -> None:
    disk = Disk("run")
    disk.write(1, b"first")
    disk.write(2, b"second")
    disk.sync()
    disk._synced[60] ^= 1
    with pytest.raises(JournalCorrupt, match="entry 1"):
        disk.recover()


def deliveries(weather: Weather, count: int = 1000) -> tuple[list[int], list[int]]:
    """The numbers that arrive, and when."""
    world = World(1)
    network = Network(world, weather)
    arrived: list[int] = []
    times: list[int] = []
    network.attach("b", lambda _source, message: (arrived.append(message), times.append(world.now_us)))  # type: ignore[func-returns-value,arg-type]
    for number in range(count):
        network.send("a", "b", number)
    world.run(60 * SECOND)
    return arrived, times


def test_a_fair_network_loses_and_doubles_nothing_but_reorders() -> None:
    arrived, _ = deliveries(Weather())
    assert sorted(arrived) == list(range(1000))
    assert arrived != sorted(arrived)


def test_a_bad_network_loses_doubles_and_holds_back() -> None:
    arrived, times = deliveries(Weather(loss=0.1, doubling=0.2, straggling=0.05))
    assert len(set(arrived)) < 1000
    assert len(arrived) > len(set(arrived))
    assert max(times) > 100 * MS


def test_half_of_what_is_sent_to_one_held_back_takes_seconds_until_it_is_told_to_hurry() -> None:
    world = World(1)
    network = Network(world, Weather())
    times: list[int] = []
    network.attach("b#1", lambda _source, _message: times.append(world.now_us))
    network.hold_back("b")
    for _ in range(1000):
        network.send("a", "b#1", "late")
    world.run(10 * SECOND)
    assert 400 < sum(time > 2 * SECOND for time in times) < 600
    network.hurry()
    network.send("a", "b#1", "in time")
    world.run(20 * SECOND)
    assert times[-1] < 10 * SECOND + 5 * MS + 1


def test_nothing_passes_a_cut_until_it_heals() -> None:
    world = World(1)
    network = Network(world, Weather())
    heard: list[object] = []
    network.attach("b", lambda _source, message: heard.append(message))
    network.cut("a", "b")
    network.send("a#1", "b", "lost")
    world.run(SECOND)
    network.heal()
    network.send("a#1", "b", "heard")
    world.run(2 * SECOND)
    assert heard == ["heard"]
