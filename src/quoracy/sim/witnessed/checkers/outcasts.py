"""A proven liar is out by the end of the next round; an honest member is never taken for one. Nobody is removed with
the seal of a round in which it did its part, whatever others report.

Proofs are in the journal: a signature over another result than the one committed to; a voided result that a witness had
attested, in the same life, and now reports missing; most of the others saying that it does not deliver what it
attested, each of them a result that it did attest. A Bloom filter claims some results by chance, so in a run with
filters only a signature proves anything.
"""

from __future__ import annotations

from quoracy.core.witnessed.events import (
    MemberReadmitted,
    MemberRemoved,
    ResultVoided,
    RoundSealed,
    TwoFacedShown,
    WarmupEnded,
)
from quoracy.core.witnessed.state import MemberState
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.checkers.base import Over, WitnessedChecker
from quoracy.sim.witnessed.history import Course

ROUNDS = 2
"""The round in which it is proven, and the next."""


class Outcasts(WitnessedChecker):
    name = "outcasts"

    def __init__(self) -> None:
        self._proven: dict[str, int] = {}
        """Member -> rounds that ended since."""
        self._ejected: dict[str, str] = {}
        self._out: set[str] = set()
        """Who is out for good at the moment: nobody else can be let back in."""
        self._removed: set[str] = set()

    def walked(self, course: Course, happened: Happened) -> None:
        event = happened.event
        if isinstance(event, MemberRemoved):
            self._weigh(course, happened.entry, event)
        for member, why in _proofs(course, event):
            self._proven.setdefault(member, 0)
            self._ejected.setdefault(member, f"entry {happened.entry}: {why}")
        if isinstance(event, MemberReadmitted) and event.member in self._out:
            self._proven.pop(event.member, None)
        self._out = {one.id for one in course.folded.members.values() if one.ejected}
        for name in self._out:
            self._ejected.setdefault(name, f"entry {happened.entry}: {course.folded.members[name].reason}")
        removed = {one.id for one in course.folded.members.values() if one.state is MemberState.REMOVED}
        if isinstance(event, RoundSealed):
            for name in sorted(removed - self._removed - course.sealed[-1].bad):
                reason = course.folded.members[name].reason
                self.fail(f"entry {happened.entry}: {name} did its part in the round, and is removed: {reason}")
        self._removed = removed
        if isinstance(event, RoundSealed):
            self._proven = {member: rounds + 1 for member, rounds in self._proven.items()}
        if isinstance(event, RoundSealed | WarmupEnded) and course.round is not None:
            for member, rounds in self._proven.items():
                if rounds >= ROUNDS and member in course.round.lives:
                    self.fail(f"entry {happened.entry}: {member} was proven to lie and is still in the roster")

    def _weigh(self, course: Course, entry: int, event: MemberRemoved) -> None:
        for one in event.accusations:
            sealed = course.branch.get(one.step)
            position = -1 if sealed is None or one.result >= len(sealed.positions) else sealed.positions[one.result]
            life, held = (0, set()) if sealed is None else sealed.claims.get(event.member, (0, set()))
            if position not in held or life != event.incarnation:
                self.fail(f"entry {entry}: {event.member} is removed for a result that it has not attested: {one}")

    def judge(self, _course: Course, over: Over) -> None:
        for member, why in self._ejected.items():
            if over.honest(member):
                self.fail(f"{member} never lied, and is out for good: {why}")


def _proofs(course: Course, event: object) -> list[tuple[str, str]]:
    if isinstance(event, TwoFacedShown):
        return [(event.accused, f"{event.member} showed that it is two-faced")]
    if course.config.attestation != "bitmap":
        return []
    if isinstance(event, MemberRemoved):
        return [(event.member, event.reason)]
    if isinstance(event, ResultVoided) and event.step in course.branch:
        sealed = course.branch[event.step]
        position = sealed.positions[event.result]
        return [
            (who, "attested a result that it reports missing")
            for who in event.missing_for
            if position in sealed.claims.get(who, (0, set()))[1]
            and course.folded.members[who].incarnation == sealed.claims[who][0]
        ]
    return []
