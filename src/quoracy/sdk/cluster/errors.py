"""What only workers are told: see ``client.errors`` for the whole tree."""

from __future__ import annotations

from quoracy.core.cluster.views import Passage
from quoracy.sdk.client.errors import WorkerError


class BarrierError(WorkerError):
    code = "barrier_settled"


class BarrierAborted(BarrierError):
    """``passage.order`` is this worker's place among those who had arrived; -1 if it was missing itself."""

    code = "barrier_settled"
    fix_default = "arrive again, at the step that next_step gives"

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.reason = passage.reason
        super().__init__(f"barrier {passage.barrier}, generation {passage.generation}, was aborted: {passage.reason}")


class BarrierTimeout(BarrierError):
    code = "barrier_early"
    fix_default = "call barrier again with the same step to go on waiting: this worker still stands there"


class Setback(WorkerError):
    code = "stale_token"
    fix_default = "restore the last checkpoint, ask next_step, and go on from there"


class RolledBack(Setback):
    """``fence`` is the run's generation from here on."""

    code = "stale_token"

    def __init__(self, reason: str, fence: int) -> None:
        self.reason = reason
        self.fence = fence
        super().__init__(f"the run was rolled back: {reason or 'an operator said so'}")


class GivenUp(Setback):
    code = "member_gone"
