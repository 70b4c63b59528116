"""No round ends early without a quorum of its elected witnesses, worked out anew from the evidence in the journal.

The quorum is a share of those elected, whoever of them is still there. What is sealed must be what such a quorum holds,
and nothing that one holds may be left out.
"""

from __future__ import annotations

from quorate.core.witnessed.events import RoundSealed, TrainEnded
from quorate.sim.checkers.journal import Happened
from quorate.sim.witnessed.checkers.base import WitnessedChecker
from quorate.sim.witnessed.history import Course


class Quorums(WitnessedChecker):
    name = "quorums"

    def walked(self, course: Course, happened: Happened) -> None:
        event = happened.event
        if isinstance(event, TrainEnded) and not event.late:
            self._train(course, event, happened.entry)
        elif isinstance(event, RoundSealed):
            self._seal(course, event, happened.entry)

    def _train(self, course: Course, event: TrainEnded, entry: int) -> None:
        round_ = course.rounds.get((event.epoch, event.round))
        if round_ is None:
            self.fail(f"entry {entry} ends a round that is not open")
            return
        held = course.held(round_, event.attested)
        needed = course.needed(round_)
        for each in round_.drawn.assignments:
            places = [i for i, result in enumerate(round_.results) if result.assignment == each.index]
            holders = [who for who in round_.witnesses if who in held and places and places[0] in held[who]]
            if len(holders) < needed:
                of = f"{len(holders)} of {len(round_.witnesses)} elected witnesses"
                self.fail(f"entry {entry} ends training early: assignment {each.index} is held by {of}, not {needed}")

    def _seal(self, course: Course, event: RoundSealed, entry: int) -> None:
        sealed, past = course.sealed[-1], course.folded.past[-1]
        if (past.epoch, past.number, list(past.positions)) != (sealed.epoch, sealed.number, sealed.positions):
            self.fail(f"entry {entry} seals {past.positions}, and a quorum holds {sealed.positions}")
        round_ = course.rounds[sealed.epoch, sealed.number]
        if not event.late and len(sealed.claims) < course.needed(round_):
            self.fail(f"entry {entry} seals early with {len(sealed.claims)} witnesses of {course.needed(round_)}")
