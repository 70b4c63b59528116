"""What members draw is what the run has drawn: who is a witness, who trains what, who took over.

Members work it out from what they are shown; here it is worked out from the journal.
"""

from __future__ import annotations

import msgspec

from quoracy.core.witnessed.committee import Committee
from quoracy.core.witnessed.views import RoundShown
from quoracy.sim.witnessed.batches import numbers
from quoracy.sim.witnessed.checkers.base import Over, WitnessedChecker
from quoracy.sim.witnessed.history import Course


class Drew(msgspec.Struct):
    process: str
    epoch: int
    round: int
    drawn: Committee


class Draws(WitnessedChecker):
    name = "draws"

    def __init__(self) -> None:
        self._drew: list[Drew] = []

    def drew(self, process: str, shown: RoundShown, drawn: Committee) -> None:
        self._drew.append(Drew(process, shown.epoch, shown.round, drawn))

    def judge(self, course: Course, _over: Over) -> None:
        for drew in self._drew:
            round_ = course.rounds.get((drew.epoch, drew.round))
            if round_ is None:
                self.fail(f"{drew.process} drew for round {drew.round} of epoch {drew.epoch}, which never was")
                continue
            if list(drew.drawn.witnesses) != round_.witnesses:
                self.fail(f"{drew.process} drew the witnesses {drew.drawn.witnesses}, elected are {round_.witnesses}")
            mine = [numbers(each.batches) for each in drew.drawn.assignments]
            theirs = [numbers(each.batches) for each in round_.drawn.assignments]
            owners = {(each.index, each.attempt, each.member) for each in drew.drawn.assignments}
            if mine != theirs or not owners <= round_.owners:
                self.fail(f"{drew.process} drew other work for round {drew.round} of epoch {drew.epoch} than the run")
