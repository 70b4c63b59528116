"""What a participant has asked for and not been told yet: the work at hand, and what became of the last."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from quoracy.core.errors import Refusal
from quoracy.core.federated.state import Verdict
from quoracy.core.federated.views import Standing
from quoracy.sdk.client.client import Client
from quoracy.sdk.client.session import Note
from quoracy.sdk.federated import heartbeat
from quoracy.sdk.federated.session import Offer, ParticipantSession, Work


class Outcome(msgspec.Struct, frozen=True):
    """What became of one ticket."""

    round: int
    ticket: int
    admitted: bool
    why: str = ""
    judged: bool = True
    """False: nobody looked at it, the run has gone on without it."""


class Phase(msgspec.Struct, frozen=True):
    """A federated run goes on, or stands, while this participant has nothing to do in it."""

    run_phase: str
    round: int
    reason: str


class ParticipantClient(Client[ParticipantSession]):
    called = "participant"
    heartbeat = heartbeat.__name__

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.work: Work | None = None
        """To be done, being done, or offered."""
        self.outcomes: deque[Outcome] = deque()
        """That the participant has not looked at yet."""
        self.last_round = -2
        """The newest one that it had work in."""
        self.phase: Phase | None = None
        """Where the run stands while this participant waits."""
        self.over: str | None = None
        """Why the run is over; None while it is not."""

    @property
    def standing(self) -> Standing | None:
        return self.session.standing

    def offer(self, offer: Offer) -> None:
        """Sent again until there is a verdict, in every incarnation, unless nobody waits for it any more."""
        if not self.session.offer(offer):
            self._drop(offer.ticket, "nobody waits for this update any more")

    def wants(self, work: Work) -> bool:
        """Whether this work is still waited for."""
        return self.ended is None and self.over is None and self.work is not None and self.work.ticket == work.ticket

    # -- what happened ----------------------------------------------------------------------------------------------

    def _heartbeat_fields(self, now_us: int) -> dict[str, Any]:
        return heartbeat.fields(self._vitals, now_us)

    def _note_of_kind(self, note: Note) -> None:
        match note.what:
            case "train":
                self.work = work = note.value
                self.last_round = work.round
            case "drop":
                if self.work is not None:
                    self._drop(self.work.ticket, note.value)
            case "verdict":
                verdict: Verdict = note.value
                self._close(Outcome(verdict.round, verdict.ticket, verdict.admitted, verdict.why))
            case "phase":
                self.phase = Phase(*note.value)
            case "finished":
                self.over = note.value

    def _drop(self, ticket: int, why: str) -> None:
        work = self.work
        if work is not None and work.ticket == ticket:
            self._close(Outcome(work.round, ticket, False, why, judged=False))

    def _close(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.work is not None and self.work.ticket == outcome.ticket:
            self.work = None

    def _lost_of_kind(self, _over: Refusal) -> None:
        """The work outlives the incarnation."""
        self.phase = None
