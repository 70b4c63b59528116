"""A participant's side of federated rounds, without I/O: what ``client.session`` does for every kind, and the rounds.

The driver reads notes and does what they say: on ``train`` it fetches the weights, trains, uploads, and calls
``offer``; on ``drop`` it stops working on that ticket; ``verdict`` says whether the update counts; ``finished`` that
the run is over. The rules that a participant keeps:

- It works on one ticket at a time, the newest it was told of. A standing that was long under way brings no older one
  back.
- What it has trained outlives its life: one that was given up and finds its place still open goes on there, and offers
  what it has. Only a new process trains again.
- An update that is being looked at is waited for, whoever offered it: an earlier process under this name may have.
- One whose offer cannot be taken at all leaves and says why: a round never waits for one that does nothing.
- News may be lost like anything else. Every heartbeat's answer says where the run stands for this participant; if that
  is not what it knows, it asks. Who waits for a verdict asks now and then.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from quoracy.core.codec import ready, us
from quoracy.core.errors import Refusal
from quoracy.core.federated.events import Beat, BeatSeen, Metrics, ParticipantJoined, ParticipantLeft, UpdateOffered
from quoracy.core.federated.state import ParticipantState
from quoracy.core.federated.views import FINISHED, ROUND, Standing
from quoracy.core.machine import Join, MemberEvent, Signal
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import ToMember
from quoracy.sdk.client.session import Session, Stage

LOOK_AGAIN = 5
"""Times the pause between two tries: so often one who waits for a verdict asks how it stands."""
MOST_SELDOM = 16
"""The same: so long at most one who was told to come later waits before it asks again, if it was not told when."""
LONGEST_S = 600.0
"""Nobody is sent away for longer, whatever a host says."""
MAX_REASON = 256
"""Of a goodbye."""
_GONE = frozenset({ParticipantState.LOST.value, ParticipantState.LEFT.value, ParticipantState.DONE.value})


class Work(msgspec.Struct, frozen=True):
    """One assignment: train these weights for so many epochs."""

    round: int
    """-1: the initial weights are wanted, and nothing is trained."""
    ticket: int
    epochs: int
    epoch_base: int
    """Epochs trained before this round."""
    weights: str
    """Hex digest of the global weights; empty if the initial ones are wanted."""
    size_bytes: int
    hyper: dict[str, Any]
    rounds: int

    @classmethod
    def of(cls, standing: Standing) -> Work:
        return cls(**{name: getattr(standing, name) for name in cls.__struct_fields__})


class Offer(msgspec.Struct, frozen=True):
    """What came out of it: the weights are uploaded, this says so."""

    round: int
    ticket: int
    samples: int
    digest: str
    size_bytes: int = 0
    metrics: Metrics = {}
    history: dict[str, list[float]] = {}
    metrics_digest: str = ""
    """Of metrics that were uploaded as well, because they are large."""
    warnings: list[str] = []
    """Metrics that were left out, and why."""


class ParticipantSession(Session):
    """Notes beside those of every member: train (a ``Work``), drop (why), verdict (a ``Verdict``), finished (why)."""

    joins: ClassVar[type[Join]] = ParticipantJoined
    leaves: ClassVar[type[MemberEvent]] = ParticipantLeft

    def __init__(
        self,
        run: str,
        member: str,
        secret: bytes,
        retry_us: int = 1_000_000,
        key: bytes = b"",
        about: dict[str, Any] | None = None,
    ) -> None:
        """``about``: labels, and whether it can give the initial weights."""
        super().__init__(run, member, secret, retry_us, key, about)
        self.standing: Standing | None = None
        self.work: Work | None = None
        """What it is to do, or has done and waits for the verdict of."""
        self.waits = False
        """The host looks at an update for this work."""
        self.finished = False
        self._offer: Offer | None = None
        self._newest = 0
        """The newest ticket it was told of."""
        self._offered = (0, 0)
        """Of the offer that was sent last: the number of the command, and the ticket."""
        self._asked_us = 0
        self._now_us = 0
        self._put_off = 0
        self._passing = ("", 0, "")
        """Where the run itself stood at the last heartbeat: those who wait are told."""
        self._unfit: Refusal | None = None
        """Why the last offer could not be taken."""

    # -- what a shell asks for --------------------------------------------------------------------------------------

    def offer(self, offer: Offer) -> bool:
        """The training is done and the weights are in the store. False: nobody waits for them any more."""
        work = self.work
        if work is None or (work.round, work.ticket) != (offer.round, offer.ticket) or self.waits:
            return False
        if self._offer is None:
            self._offer = offer
            if self.stage is Stage.JOINED:
                self._wish_offer()
        return True

    def _wish_offer(self) -> None:
        if self._offer is not None:
            self.wish(UpdateOffered, **msgspec.structs.asdict(self._offer))

    # -- time and messages ------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> None:
        self._now_us = now_us
        if self.waits and self.stage is Stage.JOINED and now_us - self._asked_us >= LOOK_AGAIN * self._retry_us:
            self._ask()
        super().tick(now_us)

    def receive(self, message: ToMember, now_us: int) -> None:
        self._now_us = now_us
        super().receive(message, now_us)

    def _ask(self) -> None:
        """Say hello again: the answer shows the standing."""
        self._asked_us = self._now_us
        if self._hello is None:
            self._send_hello(self._now_us)

    # -- what membership leaves to the kind -------------------------------------------------------------------------

    def _beat(self, seq: int) -> Signal:
        return Beat(self.member, self.incarnation, seq, **({"progress": self.progress} | self.vitals))

    def _fields(self, event: type[MemberEvent], fields: dict[str, Any]) -> dict[str, Any]:
        if event is UpdateOffered:
            self._offered = (self._seq, fields["ticket"])
        return fields

    def _forget(self) -> None:
        """The work stays: the next life may find its place still open."""
        self.standing = None
        self.waits = False
        self._offered = (0, 0)

    def _new_life(self, why: str, now_us: int) -> None:
        """One that has said goodbye does not come back because nobody heard it."""
        if self._leaving or any(event is self.leaves for event, _ in self._wishes):
            self._end(Refusal("member_gone", f"{self.member} has left", "nothing"))
        else:
            super()._new_life(why, now_us)

    def _told(self, topic: str, value: Any) -> None:
        if topic != "heartbeat":
            return
        seen = value if isinstance(value, BeatSeen) else msgspec.convert(value, BeatSeen)
        passing = (seen.run_phase, seen.round, seen.reason)
        if self.work is None and seen.run_phase and passing != self._passing:
            self._note("phase", passing)
        self._passing = passing
        known = self.standing
        same = known is not None and known.phase == seen.phase and (seen.phase != ROUND or known.round == seen.round)
        if not same:
            self._ask()

    def _answered(self, cause: Cause, answer: Accepted | Refusal) -> None:
        offered = self._command is not None and self.open_command() == cause and cause.seq == self._offered[0]
        super()._answered(cause, answer)
        if not offered or self._command is not None or self.stage is not Stage.JOINED:
            return
        if self.work is None or self.work.ticket != self._offered[1]:
            return  # the verdict, or the next round, was heard of before this answer
        if isinstance(answer, Accepted):
            self.waits = True
            self._asked_us = self._now_us
        elif answer.code == "member_gone":
            self._new_life(answer.why, self._now_us)  # and what was trained is offered there
        elif answer.code == "late_update":
            self._drop(answer.why)
            self._ask()
        elif answer.code == "contradiction":
            self._ask()
        else:
            self._hand_back(answer)

    def _hand_back(self, refusal: Refusal) -> None:
        """An offer that cannot be taken, such as one of no samples, does not become better by being sent again. Whoever
        stayed would keep its place in the round, alive and idle, until time_max_s."""
        self._drop(refusal.why)
        self._unfit = refusal
        self.leave(f"its update cannot be taken: {refusal.why}"[:MAX_REASON])

    def _end(self, why: Refusal) -> None:
        """Who leaves because of a refusal ends with that: its training has to know."""
        super()._end(self._unfit if self._unfit is not None and why.code == "member_gone" else why)

    def _join_answered(self, cause: Cause, answer: Accepted | Refusal, now_us: int) -> None:
        """Where there is no room, ask again when the host says; if it does not say, ever more seldom."""
        super()._join_answered(cause, answer, now_us)
        if isinstance(answer, Accepted):
            self._put_off = 0
        elif answer.code == "come_later" and self._join is not None:
            self._put_off = min(MOST_SELDOM, 2 * self._put_off or 1)
            advised_s = answer.retry_after_s
            wait_us = self._put_off * self._retry_us if advised_s is None else us(min(advised_s, LONGEST_S))
            self._join.sent_us = now_us + wait_us - self._retry_us

    # -- the rounds -------------------------------------------------------------------------------------------------

    def _stand(self, value: Any, now_us: int) -> None:
        standing = value if isinstance(value, Standing) else msgspec.convert(value, Standing, from_attributes=True)
        if self.stage is not Stage.JOINED or standing.incarnation < self.incarnation:
            return
        if standing.incarnation > self.incarnation:
            self._superseded(standing.incarnation)
        elif standing.phase == FINISHED:
            self._finish(standing)
        elif standing.state == ParticipantState.QUARANTINED.value:
            self._weigh(standing)
            self._end(Refusal("quarantined", standing.reason, "ask an operator to let this participant back in"))
        elif standing.state in _GONE:
            self._new_life(standing.reason or "the host has given this participant up", now_us)
        elif not 0 < standing.ticket < self._newest:
            first = self.standing is None
            self.standing = standing
            self._weigh(standing)
            self._take_up(standing, first)

    def _finish(self, standing: Standing) -> None:
        self.standing = standing
        self._weigh(standing)
        self._drop("the run is over")
        if not self.finished:
            self.finished = True
            self._note("finished", standing.reason)
        if standing.state in _GONE:
            self._end(Refusal("run_closed", f"the run is over: {standing.reason}", "nothing"))
        elif not self._leaving and self.leaves not in [event for event, _ in self._wishes]:
            self.leave("the run is over")

    def _weigh(self, standing: Standing) -> None:
        """What became of the work, if that is known."""
        verdict, work = standing.verdict, self.work
        if verdict is None or work is None or (verdict.round, verdict.ticket) != (work.round, work.ticket):
            return
        self.work = self._offer = None
        self.waits = False
        self._note("verdict", verdict)

    def _take_up(self, standing: Standing, first: bool) -> None:
        """``first``: of this life."""
        work = self.work
        if standing.ticket == 0:
            self._drop("the round goes on without it")
            return
        self._newest = standing.ticket
        if work is not None and work.ticket != standing.ticket:
            self._drop(f"ticket {standing.ticket} counts now")
        if standing.offered:
            if self.work is not None and self._offer is None and not self.waits:
                self._note("drop", f"ticket {standing.ticket}: an earlier update of it is being looked at")
            self.work = self.work or Work.of(standing)
            self.waits = True
            self._offer = None
            self._asked_us = self._now_us
        elif self.work is None:
            self.work = Work.of(standing)
            self._note("train", self.work)
        elif first and self._offer is not None:
            self._wish_offer()

    def _drop(self, why: str) -> None:
        """Nobody waits for this work any more."""
        if self.work is None:
            return
        ticket = self.work.ticket
        self.work = self._offer = None
        self.waits = False
        self._note("drop", f"ticket {ticket}: {why}")


ready(Work, Offer)
