"""The promises of federated rounds, one file each; those of every kind are in ``sim/checkers``.

updates    an update counts once or not at all, and the journal says which and why
weights    every model is made of exactly the accepted updates, each trained on the model before
drawing    who trains was drawn, by the seed and by nothing else
verdicts   what a participant is told of its update is what the journal says
newest     a superseded participant changes nothing
ending     no round hangs: when the faults stop, the run ends within a stated time, and everybody hears of it
"""

from __future__ import annotations

from quorate.core.federated.state import Verdict
from quorate.sim.checkers import Checkers
from quorate.sim.checkers.answers import Answers
from quorate.sim.checkers.durability import Durability
from quorate.sim.checkers.folds import Folds
from quorate.sim.federated.checkers.drawing import Drawing
from quorate.sim.federated.checkers.ending import Ended
from quorate.sim.federated.checkers.newest import Newest
from quorate.sim.federated.checkers.updates import Updates
from quorate.sim.federated.checkers.verdicts import Verdicts
from quorate.sim.federated.checkers.weights import Weights


class FederatedCheckers(Checkers):
    """All of them, told everything."""

    def __init__(self) -> None:
        self._verdicts = Verdicts()
        super().__init__(
            [Durability(), Answers(), Folds(), Newest(), Drawing(), Updates(), Weights(), self._verdicts, Ended()]
        )

    def judged(self, process: str, member: str, verdict: Verdict) -> None:
        self._verdicts.judged(process, member, verdict)


__all__ = ["FederatedCheckers"]
