"""A deliberately simple model of a fleet, walked along the journal.

No code of the machine is used: events are decoded, nothing else. What the model says of who was there is worked out
from the events' meaning alone, so that a mistake in the tables cannot hide itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from quoracy.core.cluster.events import (
    RunRolledBack,
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLeft,
    WorkerLoading,
    WorkerLost,
    WorkerReady,
    WorkerRegistered,
    WorkerTraining,
)
from quoracy.sim.checkers.journal import read

__all__ = ["Fleet", "Life", "read"]


class Life(NamedTuple):
    member: str
    incarnation: int


class Fleet:
    """Who is there, in which life, and whether barriers wait for it."""

    def __init__(self) -> None:
        self.newest: dict[str, int] = {}
        self.seat: dict[int, Life] = {}
        self.doing: dict[Life, str] = {}
        """initializing, recovering, fallen (recovers with all others), part, left, lost, superseded"""
        self.fence = 0
        self._seats = 0

    def walk(self, event: Any) -> None:
        match event:
            case WorkerRegistered():
                old = Life(event.member, self.newest.get(event.member, 0))
                badly = self.doing.get(old, "left") != "left"
                if old in self.doing:
                    self.doing[old] = "superseded" if badly else "left"
                life = Life(event.member, old.incarnation + 1)
                self.newest[event.member] = life.incarnation
                self._seats += 1
                self.seat[self._seats] = life
                self.doing[life] = "initializing, badly" if badly else "initializing"
            case WorkerReady():
                life = Life(event.member, event.incarnation)
                if self.doing[life].startswith("initializing"):
                    self.doing[life] = "recovering" if self.doing[life].endswith("badly") else "part"
            case WorkerIdle() | WorkerLoading() | WorkerTraining() | WorkerCheckpointing():
                self.doing[Life(event.member, event.incarnation)] = "part"
            case WorkerLeft():
                self.doing[Life(event.member, event.incarnation)] = "left"
            case WorkerLost():
                self.doing[Life(event.member, event.incarnation)] = "lost"
            case RunRolledBack():
                self.fence += 1
                for life, doing in self.doing.items():
                    if doing == "part":
                        self.doing[life] = "fallen"

    def present(self) -> list[Life]:
        """In the order of their seats."""
        gone = ("left", "lost", "superseded")
        return [life for _, life in sorted(self.seat.items()) if self.doing[life] not in gone]

    def taking_part(self) -> set[Life]:
        return {life for life, doing in self.doing.items() if doing in ("part", "fallen")}
