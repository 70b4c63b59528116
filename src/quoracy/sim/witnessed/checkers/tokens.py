"""No token brings more ids into a run than it may: keys are free, and many ids would be a bought quorum."""

from __future__ import annotations

from quoracy.core.witnessed.events import MemberJoined
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.checkers.base import WitnessedChecker
from quoracy.sim.witnessed.history import Course


class Tokens(WitnessedChecker):
    name = "tokens"

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        """Member -> the token that brought it."""

    def walked(self, _course: Course, happened: Happened) -> None:
        event = happened.event
        if not isinstance(event, MemberJoined):
            return
        self._first.setdefault(event.member, event.token)
        brought = sorted(name for name, token in self._first.items() if token == event.token)
        if event.token and event.token_ids and len(brought) > event.token_ids:
            self.fail(f"entry {happened.entry}: {event.token!r} has brought {brought}, and may bring {event.token_ids}")
