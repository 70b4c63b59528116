"""What members complain of: results that nobody gives them, members that do not deliver what they attested, and members
that are inactive.

That somebody is inactive is an opinion, and counts for the round in which it is said: when the round is sealed, it is
weighed against what the witnesses attested of the accused (see ``sealing``).
"""

from __future__ import annotations

from collections.abc import Mapping

from quoracy.core.errors import Refusal
from quoracy.core.machine import Event
from quoracy.core.witnessed import rules
from quoracy.core.witnessed.attestation import bitmap, positions, read_bitmap
from quoracy.core.witnessed.events import (
    Accusation,
    HealthCheck,
    Holds,
    Inactive,
    MemberRemoved,
    Report,
    ResultVoided,
)
from quoracy.core.witnessed.state import Course, MemberState, Round

S = MemberState


class Complaints:
    def __init__(self) -> None:
        self.step = -1
        """Of the sealed round that is complained of."""
        self.missing: dict[int, dict[str, None]] = {}
        """By position in what was sealed: who misses it."""
        self.accused: dict[str, dict[str, Accusation]] = {}
        """By whom, and for what."""
        self.inactive: dict[str, dict[str, None]] = {}
        """Who is reported as inactive in the open round: by whom."""
        self._open = (-1, -1)
        """Epoch and number of that round."""

    def keep(self, course: Course) -> None:
        """Only what those say who are in step; that something is missing of the newest step, that somebody does not
        deliver of the last two: what was a passing trouble is not added up for ever, nor over epochs, between which
        nobody is in step."""
        past = rules.newest(course)
        step = -1 if past is None else past.step
        if step != self.step:
            self.step = step
            self.missing.clear()
        for missing in self.missing.values():
            for name in [name for name in missing if name not in course.in_step]:
                missing.pop(name)
        for by in self.accused.values():
            for name in [name for name, of in by.items() if name not in course.in_step or of.step < step - 1]:
                del by[name]
        if self._open != (course.epoch, course.number):
            self._open = (course.epoch, course.number)
            self.inactive.clear()
        for reporters in self.inactive.values():
            for name in [name for name in reporters if name not in course.in_step]:
                del reporters[name]

    def misses(self, signal: Holds, course: Course) -> Refusal | None:
        past = rules.newest(course)
        if past is None or (signal.epoch, signal.step) != (past.epoch, past.step):
            why = f"{signal.member} misses results of step {signal.step}, which is not the last that was sealed"
            return Refusal("wrong_step", why, "look at what was sealed")
        mask = read_bitmap(signal.missing, len(past.positions))
        if isinstance(mask, Refusal):
            return mask
        self.keep(course)
        for by in self.missing.values():
            by.pop(signal.member, None)
        for position in positions(mask):
            self.missing.setdefault(position, {})[signal.member] = None
        return None

    def accuses(self, signal: HealthCheck, course: Course) -> Refusal | None:
        """The newest word of each counts: whom it does not name any more, it accuses no longer. Nobody is accused of
        what it has not attested."""
        if signal.results and len(signal.results) != len(signal.accused):
            why = f"{len(signal.accused)} are accused, and {len(signal.results)} results named"
            return Refusal("malformed", why, "name for each of them one that it attested, or no result for inactivity")
        self.keep(course)
        self._withdraw(signal.member)
        if not signal.results:
            return self._report_inactive(signal, course)
        fair = 0
        for name, result in zip(signal.accused, signal.results, strict=True):
            accused = course.members.get(name)
            if accused is None or name == signal.member:
                continue
            if rules.has_attested(course, accused, signal.step, result):
                fair += 1
                self.accused.setdefault(name, {})[signal.member] = Accusation(signal.member, signal.step, result)
        if not fair:
            why = f"none of those whom {signal.member} accuses attested the result of step {signal.step} named for it"
            return Refusal("contradiction", why, "name what they attested")
        return None

    def _withdraw(self, reporter: str) -> None:
        for accusers in self.accused.values():
            accusers.pop(reporter, None)
        for reporters in self.inactive.values():
            reporters.pop(reporter, None)
        self.accused = {name: by for name, by in self.accused.items() if by}
        self.inactive = {name: by for name, by in self.inactive.items() if by}

    def _report_inactive(self, signal: HealthCheck, course: Course) -> Refusal | None:
        named = [name for name in signal.accused if name in course.members and name != signal.member]
        for name in named:
            self.inactive.setdefault(name, {})[signal.member] = None
        if signal.accused and not named:
            why = f"none of those whom {signal.member} reports is another member of this run"
            return Refusal("contradiction", why, "name members of the round's roster")
        return None

    def reported(self, course: Course, round_: Round) -> tuple[Inactive, ...]:
        """Whom most of the others in step report as inactive, for the seal of this round."""
        if not self.inactive:
            return ()
        self.keep(course)
        places = {name: place for place, name in enumerate(round_.roster)}
        others = len(course.in_step) - 1
        return tuple(
            Inactive(name, bitmap([places[one] for one in by], len(places)))
            for name, by in sorted(self.inactive.items())
            if name in course.in_step and rules.enough_accuse(len(by), others)
        )

    def follows(self, course: Course, at_us: int, models: Mapping[str, Report]) -> list[Event]:
        """At most one thing: what follows from it may change the rest. Who has the model of the next step, whatever it
        said before, has had everything that makes it."""
        if not self.missing and not self.accused:
            return []
        self.keep(course)
        applied = any(name in course.in_step and one.step > self.step for name, one in models.items())
        for position, by in sorted(self.missing.items()):
            if len(by) == len(course.in_step) > 0 and not applied:
                voided = ResultVoided(self.step, position, tuple(sorted(by)))
                if rules.check_voided(course, course, voided, at_us) is None:
                    return [voided]
        for name, accusers in sorted(self.accused.items()):
            member, others = course.members[name], len(course.in_step) - (name in course.in_step)
            if member.state not in (S.IN_STEP, S.RESYNCING) or not rules.enough_accuse(len(accusers), others):
                continue
            why = f"{len(accusers)} of {others} others do not get from it what it attested"
            words = tuple(accusers[by] for by in sorted(accusers))
            removed = MemberRemoved(name, member.incarnation, words, why)
            if rules.check_accused(course, member, removed, at_us) is None:
                return [removed]
        return []
