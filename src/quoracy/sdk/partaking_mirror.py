"""What the training process knows of its part in a federated run: the work at hand, and what became of the last."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from quoracy.core.errors import Refusal
from quoracy.core.federated.state import Verdict
from quoracy.core.federated.views import Standing
from quoracy.sdk import pipe
from quoracy.sdk.partaking import Offer, Work
from quoracy.sdk.partaking_bridge import Held
from quoracy.sdk.reflection import Reflection
from quoracy.sdk.settings import Settings
from quoracy.wire.frames import frame


class Outcome(msgspec.Struct, frozen=True):
    """What became of one ticket."""

    round: int
    ticket: int
    admitted: bool
    why: str = ""
    judged: bool = True
    """False: nobody looked at it, the run has gone on without it."""


class PartakingMirror(Reflection):
    called = "participant"

    def __init__(self, settings: Settings, secret: bytes) -> None:
        super().__init__(settings, secret)
        self.standing: Standing | None = None
        self.work: Work | None = None
        """To be done, being done, or offered."""
        self.offer: Offer | None = None
        self.outcomes: deque[Outcome] = deque()
        """That the participant has not looked at yet."""
        self.last_round = -2
        """The newest one that it had work in."""
        self.passes: pipe.Passes | None = None
        """Where the run stands while this participant waits."""
        self.over: str | None = None
        """Why the run is over; None while it is not."""
        self.losses = 0

    def offers(self, offer: Offer) -> None:
        """Said once: the sidecar says it again as often as needed, and the next one is told with its first words."""
        self.offer = offer
        self.outbox.append(frame(pipe.Offered(offer)))

    def wants(self, work: Work) -> bool:
        """Whether this work is still waited for."""
        return self.ended is None and self.over is None and self.work is not None and self.work.ticket == work.ticket

    # -- being told -------------------------------------------------------------------------------------------------

    def _holds(self) -> Any:
        return None if self.work is None else Held(self.work, self.offer)

    def _stood(self, standing: Any) -> None:
        self.standing = msgspec.convert(standing, Standing)

    def _hear_of_kind(self, message: pipe.OfKind) -> None:
        match message:
            case pipe.Trains(work=work):
                self.work, self.offer = msgspec.convert(work, Work), None
                self.last_round = self.work.round
            case pipe.Dropped(ticket=ticket, why=why):
                work = self.work
                if work is not None and work.ticket == ticket:
                    self._close(Outcome(work.round, ticket, False, why, judged=False))
            case pipe.Judged(verdict=told):
                verdict = msgspec.convert(told, Verdict)
                self._close(Outcome(verdict.round, verdict.ticket, verdict.admitted, verdict.why))
            case pipe.Passes():
                self.passes = message
            case pipe.Over(reason=reason):
                self.over = reason

    def _close(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.work is not None and self.work.ticket == outcome.ticket:
            self.work = self.offer = None

    def _fell(self, _over: Refusal) -> None:
        """The work outlives the life."""
        self.losses += 1
        self.standing = self.passes = None
