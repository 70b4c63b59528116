"""Small lives of a witnessed run in which only that goes wrong what a test wants to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quoracy.core.witnessed.state import Course as Folded
from quoracy.sim.checkers.journal import read
from quoracy.sim.witnessed import Life
from quoracy.sim.witnessed.history import Course
from quoracy.sim.witnessed.life import RUN
from quoracy.sim.witnessed.members import SimMember

SMALL: dict[str, Any] = {
    "min_clients": 3, "total_steps": 4, "rounds_per_epoch": 2, "global_batch_size_start": 24, "attempts_max": 5,
    "adaptive_deadline": False,
}  # fmt: skip
"""Three members, two epochs of two rounds, six batches in each."""


def small(seed: int = 1, hosts: int = 1, size: int = 3, **config: Any) -> Life:
    return Life(seed, config=SMALL | config, fair=True, size=size, hosts=hosts)


def lived(life: Life) -> Folded:
    """How the run stands at the end of a life in which no promise was broken."""
    violation = life.live().violation
    assert violation == "", violation
    return course_of(life).folded


def course_of(life: Life) -> Course:
    course = Course(pytest.fail)
    for _ in course.walk(life.store.entries, RUN):
        pass
    return course


def events(life: Life, sort: type[Any]) -> list[Any]:
    return [event for _, _, event in read(life.store.entries, RUN) if isinstance(event, sort)]


def trainings(life: Life) -> int:
    return sum(member.bench.trainings for member in life.members)


def when_started(life: Life, do: Callable[[SimMember], None]) -> None:
    """Done with every process that is started."""
    start = life.start

    def started(member: str) -> SimMember:
        process = start(member)
        do(process)
        return process

    life.start = started  # type: ignore[method-assign]


def lies(life: Life, **lies_of: str) -> None:
    """The first process of each of these members lies in that way."""

    def corrupt(process: SimMember) -> None:
        if process.member in lies_of and not [p for p in life.members[:-1] if p.member == process.member]:
            process.lie = lies_of[process.member]

    when_started(life, corrupt)
