"""The witnessed machine: finds whom an event is about, and lets the tables decide."""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.core.dice import Cup
from quoracy.core.errors import Bug, Refusal
from quoracy.core.machine import Applied, Event, View
from quoracy.core.members import superseded
from quoracy.core.witnessed import checkpoint, epochs, rounds
from quoracy.core.witnessed.account import Account
from quoracy.core.witnessed.config import Config
from quoracy.core.witnessed.events import MemberJoined, MemberReadmitted, ResultCommitted, TwoFacedShown
from quoracy.core.witnessed.shown import TOPICS, Shown, mark, news
from quoracy.core.witnessed.state import (
    Course,
    EpochPast,
    Member,
    MemberState,
    Past,
    Phase,
    Place,
    Round,
    Sealed,
    Storing,
    taking_part,
)
from quoracy.core.witnessed.table import MEMBER, OF_ALL, OF_ONE, RUN
from quoracy.core.witnessed.views import RESULTS

_OF_ONE = frozenset(OF_ONE)
_OF_ALL = frozenset(OF_ALL)


class Summary(msgspec.Struct, array_like=True):
    """The part of the course that is neither members nor what is over."""

    config: Config
    place: Place
    stored: Place
    older: list[Place]
    state: Phase
    epoch: int
    number: int
    step: int
    at_us: int
    since_us: int
    reason: str
    met_us: int
    pausing: str | None
    stopping: str | None
    seats: int
    roll_backs: int
    barren: int
    holders: list[tuple[str, int]]
    newest: Place | None
    newest_holders: list[tuple[str, int]]
    agreed: list[tuple[int, bytes]]
    storing: Storing | None
    keepers: list[tuple[str, int]]
    began_us: int
    first_step: int
    took_part: list[str]
    times_us: list[int]
    allowed_us: int
    overran: bool
    account: Account
    round: Round | None


class Witnessed:
    def __init__(self, course: Course) -> None:
        self.course = course
        self._shown = Shown(course)

    @classmethod
    def create(cls, config: Config) -> Witnessed:
        place = checkpoint.first_place(config)
        return cls(Course(config, place, place))

    def apply(self, event: Event, at_us: int, cup: Cup) -> Applied | Refusal:
        course = self.course
        if type(event) is ResultCommitted:
            return self._commit(event, at_us, cup)
        before, moves = mark(course), course.moves
        passed = RUN.step(course, course, event, at_us, cup)
        if isinstance(passed, Refusal):
            return passed
        if type(event) in _OF_ONE:
            passed = self._one(event, at_us, cup)
            if isinstance(passed, Refusal):
                return passed
        elif type(event) in _OF_ALL:
            self._move(event, at_us, cup)
        if course.moves != moves:
            self._settle(at_us, cup)
        epochs.notice(course, at_us)
        if course.state is Phase.TRAIN and course.round is None:
            rounds.begin(course, at_us, cup)
        course.at_us = at_us
        course.changes += 1
        effects = news(course, event, before)
        course.retold = {}
        return Applied(passed.result, effects)

    def _commit(self, event: ResultCommitted, at_us: int, cup: Cup) -> Applied | Refusal:
        """By far the most of all events: nothing but the round's list changes."""
        course, missing = self.course, self.course.missing
        refusal = RUN.why_not(course, course, event, at_us)
        passed = self._one(event, at_us, cup) if refusal is None else refusal
        if isinstance(passed, Refusal):
            return passed
        course.at_us = at_us
        course.changes += 1
        if course.missing or not missing:
            return passed
        return Applied(passed.result, (View(RESULTS, tuple(taking_part(course))),))

    def _one(self, event: Any, at_us: int, cup: Cup) -> Applied | Refusal:
        course = self.course
        name = event.accused if isinstance(event, TwoFacedShown) else event.member
        member = course.members.get(name)
        if isinstance(event, MemberJoined):
            blank = Member(name, 0, MemberState.ABSENT, 0, at_us)
            return self._told(MEMBER.step(course, member or blank, event, at_us, cup), name)
        if member is None:
            return Refusal("unknown_member", f"member {name} has not joined", "join first")
        if isinstance(event, TwoFacedShown) and event.member not in course.here:
            return Refusal("member_gone", f"member {event.member} takes no part any more", "join again")
        if not isinstance(event, MemberReadmitted | TwoFacedShown) and event.incarnation != member.incarnation:
            return superseded(name, event.incarnation, member.incarnation)
        before = member.state
        passed = MEMBER.step(course, member, event, at_us, cup)
        return passed if member.state is before else self._told(passed, name)

    def _told(self, passed: Applied | Refusal, name: str) -> Applied | Refusal:
        if not isinstance(passed, Refusal):
            self.course.retold[name] = None
        return passed

    def _move(self, event: Event, at_us: int, cup: Cup) -> None:
        """What the run's step means for each member."""
        course = self.course
        for name in sorted(course.moving):
            moved = MEMBER.step(course, course.members[name], event, at_us, cup)
            if isinstance(moved, Refusal):
                raise Bug(f"{type(event).__name__} moves member {name}, whose table refuses it: {moved}")
            course.retold[name] = None
        course.moving = {}

    def _settle(self, at_us: int, cup: Cup) -> None:
        """Somebody came or went: what follows for the work and for the model."""
        rounds.move_on(self.course, at_us, cup)
        checkpoint.holders_gone(self.course, at_us)

    # -- what members are shown -------------------------------------------------------------------------------------

    def incarnation_of(self, member: str) -> int:
        known = self.course.members.get(member)
        return 0 if known is None else known.incarnation

    def look(self, topic: str, member: str) -> Any:
        return self._shown.look(topic, member)

    def topics(self, member: str) -> list[str]:
        return list(TOPICS) if member in self.course.members else []

    # -- snapshots --------------------------------------------------------------------------------------------------

    def sections(self) -> dict[str, Any]:
        course = self.course
        summary = Summary(*(getattr(course, name) for name in Summary.__struct_fields__))
        return {
            "summary": summary, "members": list(course.members.values()), "past": list(course.past),
            "sealed": list(course.sealed), "epochs": list(course.epochs),
        }  # fmt: skip

    @classmethod
    def restore(cls, sections: dict[str, Any]) -> Witnessed:
        summary = msgspec.convert(sections["summary"], Summary)
        members = msgspec.convert(sections["members"], list[Member])
        course = Course(
            **{name: getattr(summary, name) for name in Summary.__struct_fields__},
            members={member.id: member for member in members},
            past=msgspec.convert(sections["past"], list[Past]),
            sealed=msgspec.convert(sections["sealed"], list[Sealed]),
            epochs=msgspec.convert(sections["epochs"], list[EpochPast]),
        )
        course.rebuild()
        return cls(course)
