"""The ranks machine: finds whom an event is about, and lets the tables decide."""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.machine import Applied, Event
from quoracy.core.members import superseded
from quoracy.core.ranks.events import AttemptDecided, Iteration, RankJoined, RunStopped
from quoracy.core.ranks.state import Config, Crew, Decision, Phase, Rank, RankState
from quoracy.core.ranks.table import RANK, RUN


class Summary(msgspec.Struct, array_like=True):
    """The part of the state that is neither ranks nor log."""

    config: Config
    state: Phase
    attempt: int
    number: int
    seats: int
    reason: str


class Ranks:
    def __init__(self, crew: Crew) -> None:
        self.crew = crew

    @classmethod
    def create(cls, config: Config) -> Ranks:
        return cls(Crew(config, attempt=config.began_attempt, number=config.began_number))

    def apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        crew = self.crew
        passed = RUN.step(crew, crew, event, at_us, cup)
        if isinstance(passed, Refusal) or isinstance(event, AttemptDecided | RunStopped):
            return passed
        rank = self._find(event)
        if isinstance(rank, Refusal):
            return rank
        applied = RANK.step(crew, rank, event, at_us, cup)
        crew.changed()
        return applied

    def _find(self, event: Any) -> Rank | Refusal:
        """The one of that id, or a blank that enters only if joining succeeds."""
        known = self.crew.ranks.get(event.member)
        if known is None:
            return Rank(event.member, 0, RankState.ABSENT, 0, 0, "")
        if not isinstance(event, RankJoined) and event.incarnation != known.incarnation:
            return superseded(event.member, event.incarnation, known.incarnation)
        return known

    # -- what ranks are shown ---------------------------------------------------------------------------------------

    def incarnation_of(self, member: str) -> int:
        rank = self.crew.ranks.get(member)
        return 0 if rank is None else rank.incarnation

    def look(self, topic: str, member: str) -> Any:
        rank = self.crew.ranks.get(member)
        if rank is None or topic != "iteration":
            return None
        crew = self.crew
        members = [each.id for each in crew.members()]
        learners = [each.id for each in crew.of(RankState.LEARNING)]
        index = members.index(member) if member in members else -1
        return Iteration(
            crew.attempt + 1, crew.number, members, learners, rank.state.value, rank.incarnation, index,
            rank.reason or crew.reason, crew.state is Phase.CLOSED, crew.log[-1] if crew.log else None,
        )  # fmt: skip

    def topics(self, member: str) -> list[str]:
        return ["iteration"] if member in self.crew.ranks else []

    def check(self, event: Event) -> Refusal | None:
        """Why the run would not take this event as it is now; None if it would. Changes nothing."""
        return RUN.why_not(self.crew, self.crew, event, 0)

    def usual(self, events: list[Any]) -> bool:
        """Whether an entry with these would be what everybody expects: all who are in have arrived and are for it,
        nobody is given up, and nobody is counted in. What comes of it follows from the state before it."""
        return self._is_commit(events) and not events[0].gone and not self.crew.coming(alone=False)

    def was_usual(self, events: list[Event]) -> bool:
        """The same, when they have just been applied."""
        return self._is_commit(events) and not self.crew.log[-1].gone and not self.crew.log[-1].came

    def _is_commit(self, events: list[Any]) -> bool:
        return len(events) == 1 and isinstance(events[0], AttemptDecided) and events[0].outcome == "committed"

    # -- snapshots --------------------------------------------------------------------------------------------------

    def sections(self) -> dict[str, Any]:
        crew = self.crew
        summary = Summary(crew.config, crew.state, crew.attempt, crew.number, crew.seats, crew.reason)
        return {"summary": summary, "ranks": list(crew.ranks.values()), "log": crew.log}

    @classmethod
    def restore(cls, sections: dict[str, Any]) -> Ranks:
        summary = msgspec.convert(sections["summary"], Summary)
        ranks = msgspec.convert(sections["ranks"], list[Rank])
        log = msgspec.convert(sections["log"], list[Decision])
        return cls(
            Crew(
                summary.config, summary.state, summary.attempt, summary.number, summary.seats, summary.reason,
                {rank.id: rank for rank in ranks}, log,
            )
        )  # fmt: skip
