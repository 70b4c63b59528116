"""The promises of witnessed rounds, one file each; those of every kind are in ``sim/checkers``.

models     all members in step have the same model, and it is what the sealed results make
account    every batch is applied once, or skipped with a reason
quorums    nothing ends early without a quorum of the elected witnesses, or late too soon; sealed is what it holds
outcasts   a proven liar is out by the end of the next round; an honest member never is, nor one that does its part
draws      what members draw is what the run has drawn
newest     a superseded member changes nothing
tokens     no token brings more ids than it may
ending     when the faults stop, the run ends within a stated time and number of rounds, and everybody hears of it
"""

from __future__ import annotations

from quoracy.core.witnessed.committee import Committee
from quoracy.core.witnessed.facts import Apply
from quoracy.core.witnessed.views import RoundShown
from quoracy.sim.checkers import Checkers, Ending
from quoracy.sim.checkers.answers import Answers
from quoracy.sim.checkers.durability import Durability
from quoracy.sim.checkers.folds import Folds
from quoracy.sim.checkers.unread import Unread
from quoracy.sim.checkers.views import Views
from quoracy.sim.witnessed.checkers.account import Accounts
from quoracy.sim.witnessed.checkers.base import Over, WitnessedChecker
from quoracy.sim.witnessed.checkers.draws import Draws
from quoracy.sim.witnessed.checkers.ending import Ended
from quoracy.sim.witnessed.checkers.models import Models
from quoracy.sim.witnessed.checkers.newest import Newest
from quoracy.sim.witnessed.checkers.outcasts import Outcasts
from quoracy.sim.witnessed.checkers.quorums import Quorums
from quoracy.sim.witnessed.checkers.tokens import Tokens
from quoracy.sim.witnessed.history import Course


class WitnessedCheckers(Checkers):
    """All of them, told everything."""

    def __init__(self) -> None:
        self._accounts = Accounts()
        self._own: list[WitnessedChecker] = [
            Quorums(), Models(), self._accounts, Draws(), Outcasts(), Newest(), Tokens(), Ended(),
        ]  # fmt: skip
        super().__init__([Durability(), Answers(), Folds(), Views(), Unread(12), *self._own])

    def drew(self, process: str, shown: RoundShown, drawn: Committee) -> None:
        for checker in self._own:
            checker.drew(process, shown, drawn)

    def applied(self, process: str, apply: Apply, model: bytes, rotten: bool) -> None:
        for checker in self._own:
            checker.applied(process, apply, model, rotten)

    def finish(self, ending: Ending) -> None:
        super().finish(ending)
        if not isinstance(ending, Over):
            raise TypeError("a witnessed life ends with everybody who was there")
        course = Course(self._accounts.fail)
        for happened in course.walk(ending.journal, ending.run):
            for checker in self._own:
                checker.walked(course, happened)
        for checker in self._own:
            checker.judge(course, ending)


__all__ = ["Over", "WitnessedCheckers"]
