"""The promises of federated rounds, one file each; those of every kind are in ``sim/checkers``.

updates    an update counts once or not at all, and the journal says which and why
weights    every model is made of exactly the accepted updates, each trained on the model before
drawing    who trains was drawn, by the seed and by nothing else
verdicts   what a participant is told of its update is what the journal says
newest     a superseded participant changes nothing
reports    what a participant reported of a training is kept, whatever became of the update
ending     no round hangs: when the faults stop, the run ends within a stated time, and everybody hears of it
"""

from __future__ import annotations

from quoracy.core.federated.state import Verdict
from quoracy.sim.checkers import Checkers
from quoracy.sim.checkers.answers import Answers
from quoracy.sim.checkers.durability import Durability
from quoracy.sim.checkers.folds import Folds
from quoracy.sim.checkers.unread import Unread
from quoracy.sim.checkers.views import Views
from quoracy.sim.federated.checkers.drawing import Drawing
from quoracy.sim.federated.checkers.ending import Ended
from quoracy.sim.federated.checkers.newest import Newest
from quoracy.sim.federated.checkers.reports import Reports
from quoracy.sim.federated.checkers.updates import Updates
from quoracy.sim.federated.checkers.verdicts import Verdicts
from quoracy.sim.federated.checkers.weights import Weights


class FederatedCheckers(Checkers):
    """All of them, told everything."""

    def __init__(self) -> None:
        self._verdicts = Verdicts()
        super().__init__(
            [
                Durability(),
                Answers(),
                Folds(),
                Newest(),
                Drawing(),
                Updates(),
                Weights(),
                self._verdicts,
                Ended(),
                Reports(),
                Views(),
                Unread(4),
            ]
        )

    def judged(self, process: str, member: str, verdict: Verdict) -> None:
        self._verdicts.judged(process, member, verdict)


__all__ = ["FederatedCheckers"]
