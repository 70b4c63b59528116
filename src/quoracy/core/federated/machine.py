"""The federated machine: finds whom an event is about, and lets the tables decide."""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.federated import rules, views
from quoracy.core.federated.config import Config
from quoracy.core.federated.events import (
    ParticipantJoined,
    ParticipantReadmitted,
    RoundBegan,
    RoundClosed,
    RoundSuspended,
)
from quoracy.core.federated.state import Over, Participant, ParticipantState, Phase, Round, Task, TrainingReport
from quoracy.core.federated.table import OF_PARTICIPANTS, PARTICIPANT, RUN
from quoracy.core.machine import DONE, Applied, DutyEnded, Event
from quoracy.core.members import superseded

_OF_ONE = frozenset(OF_PARTICIPANTS)


class Summary(msgspec.Struct, array_like=True):
    """The part of the task that is neither participants nor rounds that are over."""

    config: Config
    state: Phase
    number: int
    weights: str
    size_bytes: int
    optimizer: str
    seats: int
    tickets: int
    reason: str
    since_us: int
    pausing: str | None
    best: float | None
    stale: int
    round: Round | None
    reports_gone: int


class Federated:
    def __init__(self, task: Task) -> None:
        self.task = task

    @classmethod
    def create(cls, config: Config) -> Federated:
        return cls(Task(config, number=0 if config.initial else -1, weights=config.initial))

    def apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        task = self.task
        if type(event) is DutyEnded and event.duty.what == "admit":
            return self._verdict(event, at_us, cup)
        passed = RUN.step(task, task, event, at_us, cup)
        if isinstance(passed, Refusal):
            return passed
        if type(event) in _OF_ONE:
            passed = self._one(event, at_us, cup)
        if not isinstance(passed, Refusal):
            self._follow(event, passed, at_us, cup)
            task.changes += 1
        return passed

    def _one(self, event: Any, at_us: int, cup: Cup) -> Applied | Refusal:
        participant = self.task.participants.get(event.member)
        if isinstance(event, ParticipantJoined):
            blank = Participant(event.member, 0, ParticipantState.ABSENT, 0, 0, {}, False)
            return PARTICIPANT.step(self.task, participant or blank, event, at_us, cup)
        if participant is None:
            return Refusal("unknown_member", f"participant {event.member} has not joined", "join first")
        if not isinstance(event, ParticipantReadmitted) and event.incarnation != participant.incarnation:
            return superseded(event.member, event.incarnation, participant.incarnation)
        return PARTICIPANT.step(self.task, participant, event, at_us, cup)

    def _verdict(self, event: DutyEnded, at_us: int, cup: Cup) -> Applied | Refusal:
        """Of an update that nobody waits for any more, nothing is said: its sender was told when it was let go."""
        self.task.changes += 1
        participant = rules.concerns(self.task, event)
        if participant is None:
            return DONE
        return PARTICIPANT.step(self.task, participant, event, at_us, cup)

    def _follow(self, event: Event, passed: Applied, at_us: int, cup: Cup) -> None:
        """What the run's step means for each participant."""
        task = self.task
        match event:
            case RoundBegan():
                self._each((passed.result or {})["selected"], event, at_us, cup)
            case RoundSuspended():
                self._each((passed.result or {})["overdue"], event, at_us, cup)
            case RoundClosed():
                self._each(sorted(task.round.assignments) if task.round else [], event, at_us, cup)
                task.forget_round()

    def _each(self, members: list[str], event: Event, at_us: int, cup: Cup) -> None:
        for member in members:
            PARTICIPANT.step(self.task, self.task.participants[member], event, at_us, cup)

    # -- what members are shown -------------------------------------------------------------------------------------

    def incarnation_of(self, member: str) -> int:
        participant = self.task.participants.get(member)
        return 0 if participant is None else participant.incarnation

    def look(self, topic: str, member: str) -> Any:
        return views.look(self.task, topic, member)

    def topics(self, member: str) -> list[str]:
        return ["standing"] if member in self.task.participants else []

    # -- snapshots --------------------------------------------------------------------------------------------------

    def sections(self) -> dict[str, Any]:
        task = self.task
        summary = Summary(*(getattr(task, name) for name in Summary.__struct_fields__))
        return {
            "summary": summary, "participants": list(task.participants.values()), "history": list(task.history),
            "reports": list(task.reports),
        }  # fmt: skip

    @classmethod
    def restore(cls, sections: dict[str, Any]) -> Federated:
        summary = msgspec.convert(sections["summary"], Summary)
        participants = msgspec.convert(sections["participants"], list[Participant])
        history = msgspec.convert(sections["history"], list[Over])
        task = Task(
            **{name: getattr(summary, name) for name in Summary.__struct_fields__},
            participants={participant.id: participant for participant in participants},
            history=history,
            reports=msgspec.convert(sections["reports"], list[TrainingReport]),
        )
        task.rebuild()
        return cls(task)
