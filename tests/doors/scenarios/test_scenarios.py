"""One story through every door: what is said differs, what is in the journal does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.scenarios.drivers import DRIVERS, PATIENCE_S, Driver
from tests.doors.talk import RUN

from quoracy.coordinator import Coordinator

Told = list[Any]
"""What the driver was answered, in order."""
NONCES = {life: bytes([life]) * 16 for life in range(1, 10)}


class Stage:
    """A run, somebody at a door, and what came of everything that was said there."""

    def __init__(self, coordinator: Coordinator, driver: Driver) -> None:
        self.coordinator = coordinator
        self.driver = driver
        self.told: Told = []

    def note(self, outcome: Any) -> Any:
        self.told.append(outcome)
        return outcome

    def come(self, *members: str) -> None:
        """Each joins and is ready."""
        for member in members:
            self.note(self.driver.join(member, NONCES[1], 0))
            self.note(self.driver.move(member, 1, 1, "ready"))

    def meet(self, members: dict[str, int], step: int, after: int | None = 0, fence: int = 0) -> None:
        """All at the barrier, in this order."""
        waiting = []
        for member, life in members.items():
            waiting.append(self.driver.arrive(member, life, step, after, fence))
            if len(waiting) < len(members):
                self.stands(len(waiting))
        for arrival in waiting:
            self.note(arrival.result(PATIENCE_S))

    def stands(self, count: int) -> None:
        """Until so many are seen at the barrier."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            barriers = self.coordinator.show(RUN)["barriers"]
            if barriers and barriers[0].get("arrived") == count:
                return
            time.sleep(0.005)
        raise TimeoutError(f"{count} never stood there: {barriers}")


def a_life_from_end_to_end(stage: Stage) -> None:
    stage.come("w1", "w2", "w3")
    stage.meet({"w1": 1, "w2": 1, "w3": 1}, step=0)
    for state in ("loading", "training", "checkpointing", "idle"):
        seq = ("loading", "training", "checkpointing", "idle").index(state) + 2
        stage.note(stage.driver.move("w2", 1, seq, state))
    stage.note(stage.driver.beat("w1", 1, 1))
    stage.meet({"w3": 1, "w1": 1, "w2": 1}, step=1, after=1)
    stage.note(stage.driver.leave("w3", 1, 2, "done"))
    stage.meet({"w2": 1, "w1": 1}, step=2, after=2)


def everything_said_twice(stage: Stage) -> None:
    driver = stage.driver
    stage.note(driver.create({"barrier_min": 2}, "made-once"))
    for _ in range(2):
        stage.note(driver.join("w1", NONCES[1], 0))
        stage.note(driver.move("w1", 1, 1, "ready"))
    stage.note(driver.join("w2", NONCES[1], 0))
    stage.note(driver.move("w2", 1, 1, "ready"))
    first = driver.arrive("w1", 1, 5)
    stage.stands(1)
    again = driver.arrive("w2", 1, 5)
    stage.note([first.result(PATIENCE_S), again.result(PATIENCE_S)])
    stage.note(driver.arrive("w1", 1, 5).result(PATIENCE_S))
    for _ in range(2):
        stage.note(driver.order("pause", "w1", "o1"))
        stage.note(driver.beat("w1", 1, 1))
        stage.note(driver.leave("w2", 1, 2, "done"))
    for _ in range(2):
        stage.note(driver.stop("enough", "s1"))


def everything_that_is_refused(stage: Stage) -> None:
    driver = stage.driver
    stage.note(driver.create({"barrier_min": 3}, "another"))
    stage.note(driver.move("w1", 1, 1, "ready"))
    stage.note(driver.beat("w1", 1, 1))
    stage.note(driver.join("w1", NONCES[1], 4))
    stage.note(driver.join("w1", NONCES[1], 0))
    stage.note(driver.arrive("w1", 1, 0).result(PATIENCE_S))
    stage.note(driver.move("w1", 1, 1, "checkpointing"))
    stage.note(driver.move("w1", 1, 1, "checkpointing"))
    stage.note(driver.move("w1", 1, 5, "ready"))
    stage.note(driver.move("w1", 1, 2, "ready"))
    stage.note(driver.move("w1", 2, 3, "idle"))
    stage.note(driver.arrive("w1", 1, 0, fence=9).result(PATIENCE_S))
    stage.note(driver.order("pause", "nobody", "o1"))
    stage.note(driver.order("pause", "nobody", "o1"))
    stage.note(driver.order("resume", "w1", "o1"))
    stage.note(driver.leave("w1", 1, 3, "x"))
    stage.note(driver.beat("w1", 1, 2))
    stage.note(driver.stop("enough", "s1"))
    stage.note(driver.join("w2", NONCES[1], 0))
    stage.note(driver.stop("again", "s2"))


def the_newest_life_wins(stage: Stage) -> None:
    driver = stage.driver
    stage.come("w1", "w2")
    stage.note(driver.join("w1", NONCES[2], 1))
    stage.note(driver.beat("w1", 1, 1))
    stage.note(driver.move("w1", 1, 2, "idle"))
    stage.note(driver.move("w1", 2, 1, "ready"))
    stage.note(driver.move("w1", 2, 2, "idle"))
    stage.meet({"w2": 1, "w1": 2}, step=0)


def the_step_tells_where_after_is_left_out(stage: Stage) -> None:
    """As clients do that send a barrier, a worker and a step, and use the name again: nobody is let through alone."""
    stage.come("w1", "w2")
    for step in range(3):
        stage.meet({"w1": 1, "w2": 1}, step, None)
    assert stage.note(stage.driver.arrive("w1", 1, 2, None).result(PATIENCE_S)) == (True, 3, 2, 0, 2)
    assert stage.note(stage.driver.arrive("w1", 1, 1, None).result(PATIENCE_S)) == "step_behind"
    assert stage.note(stage.driver.arrive("w1", 1, 3, 0).result(PATIENCE_S)) == "contradiction"
    stage.meet({"w2": 1, "w1": 1}, 7, None)


def orders_and_a_roll_back(stage: Stage) -> None:
    driver = stage.driver
    stage.come("w1", "w2")
    stage.note(driver.order("checkpoint", "", "o1"))
    stage.note(driver.beat("w1", 1, 1))
    stage.note(driver.beat("w1", 1, 2, order=stage.told[-1][0]))
    standing = driver.arrive("w1", 1, 0)
    stage.stands(1)
    stage.note(driver.roll_back("bad batch", "r1"))
    stage.note(standing.result(PATIENCE_S))
    for member in ("w1", "w2"):
        stage.note(driver.move(member, 1, 2, "idle", fence=0))
        stage.note(driver.move(member, 1, 3, "idle", fence=1))
    stage.meet({"w1": 1, "w2": 1}, step=0, after=1, fence=1)


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    play.__name__.replace("_", " "): play
    for play in (
        a_life_from_end_to_end,
        everything_said_twice,
        everything_that_is_refused,
        the_newest_life_wins,
        the_step_tells_where_after_is_left_out,
        orders_and_a_roll_back,
    )
}


def played(door: str, play: Callable[[Stage], None], folder: Any) -> tuple[Told, list[Any]]:
    """What was answered, and the journal."""
    with Coordinator(folder=folder, grpc={"port": 0}, http={"port": 0}) as coordinator:
        with DRIVERS[door](coordinator) as driver:
            assert driver.create({"barrier_min": 2, "heartbeat_timeout_s": 60.0}, "made-once") == RUN
            stage = Stage(coordinator, driver)
            play(stage)
        page = coordinator.ask("journal", RUN, limit=1000)
        assert page["next"] is None
        return stage.told, [compared(entry) for entry in page["entries"]]


def compared(entry: dict[str, Any]) -> Any:
    """Without what time and chance decide: when, how long, on which port, and the digests that follow from those."""
    events = []
    for event in entry["events"]:
        kept = {name: value for name, value in event.items() if name not in ("waits_us", "host", "address")}
        events.append(kept | {"arrived": len(event.get("waits_us", ()))})
    return entry["n"], entry["term"], events


@pytest.mark.parametrize("play", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_every_door_leads_to_the_same_journal(play: Callable[[Stage], None], tmp_path: Any) -> None:
    tales = {door: played(door, play, tmp_path / door.replace(" ", "-")) for door in DRIVERS}
    answers, journal = tales["tcp"]
    assert len(journal) > 5
    for door, (told, entries) in tales.items():
        assert told == answers, door
        for ours, theirs in zip(entries, journal, strict=True):
            assert ours == theirs, door
