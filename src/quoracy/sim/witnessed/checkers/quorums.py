"""No round ends early without a quorum of its elected witnesses, worked out anew from the evidence in the journal.

The quorum is a share of those elected, whoever of them is still there. What is sealed must be what such a quorum holds,
and nothing that one holds may be left out. What ends late, be it a warm-up or a cooldown, has waited for all of its
time, unless nobody was left to wait for. A result is given up only if its maker is gone, and all who are in step said
that they do not have it.
"""

from __future__ import annotations

from quoracy.core.witnessed.events import CooldownEnded, RoundSealed, TrainEnded, WarmupEnded, WorkReopened
from quoracy.sim.checkers.journal import Happened
from quoracy.sim.witnessed.checkers.base import WitnessedChecker
from quoracy.sim.witnessed.history import Course


class Quorums(WitnessedChecker):
    name = "quorums"

    def walked(self, course: Course, happened: Happened) -> None:
        event = happened.event
        if isinstance(event, WarmupEnded | TrainEnded | RoundSealed | CooldownEnded) and event.late:
            self._late(course, event, happened.entry)
        if isinstance(event, TrainEnded) and not event.late:
            self._train(course, event, happened.entry)
        elif isinstance(event, RoundSealed):
            self._seal(course, event, happened.entry)
        elif isinstance(event, WorkReopened):
            self._reopen(course, event, happened.entry)

    def _late(self, course: Course, event: WarmupEnded | TrainEnded | RoundSealed | CooldownEnded, entry: int) -> None:
        waits = course.waits
        if waits.waited_us < waits.whole_us and not waits.deserted:
            what = f"is late in epoch {event.epoch} after {waits.waited_us} of {waits.whole_us} us"
            self.fail(f"entry {entry}: {type(event).__name__} {what}")

    def _train(self, course: Course, event: TrainEnded, entry: int) -> None:
        round_ = course.rounds.get((event.epoch, event.round))
        if round_ is None:
            self.fail(f"entry {entry} ends a round that is not open")
            return
        held = course.held(round_, event.attested)
        needed = course.needed(round_)
        for each in round_.drawn.assignments:
            place = round_.newest(each.index)
            holders = [who for who in round_.witnesses if who in held and place in held[who]]
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

    def _reopen(self, course: Course, event: WorkReopened, entry: int) -> None:
        round_, folded = course.rounds[event.epoch, event.round], course.folded
        given = (event.assignment, event.attempt)
        place = next(i for i, one in enumerate(round_.results) if (one.assignment, one.attempt) == given)
        maker = round_.results[place].member
        words = (*event.attested, *event.holding)
        spoke = {one.member for one in words if one.known > place and round_.lives.get(one.member) == one.incarnation}
        if maker in folded.in_step:
            self.fail(f"entry {entry} gives up a result of {maker}, who is in step")
        if unheard := sorted(folded.in_step.keys() - spoke):
            self.fail(f"entry {entry} gives up a result of {maker}, and {unheard} were not asked")
        if holders := [who for who, held in course.held(round_, words).items() if place in held]:
            self.fail(f"entry {entry} gives up a result of {maker}, and {holders} have it")
