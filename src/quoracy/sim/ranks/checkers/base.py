"""What a checker among ranks is told. They see what processes did and were told, and what became durable."""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.machine import Event
from quoracy.core.ranks.events import AttemptDecided
from quoracy.core.ranks.part import Turn
from quoracy.sim.checkers.base import Violation

Life = tuple[str, int]
"""A rank and its incarnation."""


class Record(msgspec.Struct, frozen=True):
    """A decided attempt as the journal has it, walked with a fold that no process has touched."""

    n: int
    attempt: int
    number: int
    """The iteration that was tried."""
    event: AttemptDecided
    members: dict[int, Life]
    """Who was in, by seat."""
    enough: int
    going_on: int
    named: list[str]
    """Who goes on, by rank."""
    last_iterations: dict[str, int | None]
    """By rank, what the fold says now of everybody who ever came."""


class Checker:
    name = "checker"

    def fail(self, what: str) -> None:
        raise Violation(self.name, what)

    def began(self, _process: str, _life: Life, turn: Turn) -> None:
        """A process goes on with this attempt."""

    def voted(self, _process: str, _life: Life, attempt: int, ok: bool) -> None:
        """A process is done with the attempt, and for or against it."""

    def delivered(self, _process: str, attempt: int, value: bytes) -> None:
        """A process was given what was to be made once."""

    def asked(self, _process: str, _life: Life) -> None:
        """A process asks something of the store."""

    def happened(self, n: int, event: Event) -> None:
        """This is durable, in this entry. A record is told afterwards, with what was true before it."""

    def decided(self, record: Record) -> None:
        """A record is durable."""

    def finish(self, alive: list[Any], attempts_then: int, members: set[str], attempts: int) -> None:
        """The life is over."""
