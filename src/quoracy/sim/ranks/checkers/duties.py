"""What is made once for an attempt is the same for everybody in it."""

from __future__ import annotations

from quoracy.sim.ranks.checkers.base import Checker


class Duties(Checker):
    name = "duties"

    def __init__(self) -> None:
        self._values: dict[int, bytes] = {}

    def delivered(self, process: str, attempt: int, value: bytes) -> None:
        known = self._values.setdefault(attempt, value)
        if known != value:
            self.fail(f"{process} was given {value!r} for attempt {attempt}, others {known!r}")
