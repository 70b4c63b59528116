"""Participants of federated runs that have no connection of their own: rendezvous, heartbeat, start and end of a
training round, each a call by itself.

A participant needs no number for its commands: what it wants can be told from what it says. An update is known by
round, ticket and digest, so that whoever did not get the verdict sends the same again and gets it, from this server or
the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any, Final

import msgspec

from quoracy.core.codec import encode
from quoracy.core.errors import Refusal, Refused
from quoracy.core.federated.config import Config
from quoracy.core.federated.events import Beat, BeatSeen, ParticipantJoined, ParticipantLeft, UpdateOffered
from quoracy.core.federated.machine import Federated
from quoracy.core.federated.reports import warnings_of
from quoracy.core.federated.state import Verdict
from quoracy.core.federated.views import ROUND, Standing, passing
from quoracy.core.machine import MemberEvent
from quoracy.core.members import Accepted, Cause, superseded
from quoracy.core.messages import Hello
from quoracy.doors.auth import Identity
from quoracy.doors.questions_federated import federated
from quoracy.doors.service import Service
from quoracy.doors.standin import Standin, Standins

GONE: Final = ("Lost", "Left", "Done")
VERDICT_S: Final = 300.0
"""How long a call waits for the verdict at most. Then the same is sent again."""


class Entered(msgspec.Struct, frozen=True):
    """The answer to a rendezvous: in. ``token`` is empty where no tokens are asked for."""

    run: str
    member: str
    incarnation: int
    token: str
    entry: int
    seat: int
    heartbeat_interval_s: float
    heartbeat_timeout_s: float


class Later(msgspec.Struct, frozen=True):
    """The answer to a rendezvous: not now."""

    retry_s: float
    why: str


class Known(msgspec.Struct, frozen=True):
    """What a participant was told last. A heartbeat that waits is answered when something else is true."""

    phase: str = ""
    round: int = 0


class Assignment(msgspec.Struct, frozen=True):
    """What to train, on what."""

    round: int
    ticket: int
    epochs: int
    epoch_base: int
    weights: str
    size_bytes: int
    hyper: dict[str, Any]
    rounds: int


class News(msgspec.Struct, frozen=True):
    """Waiting for another phase than this."""

    known: Known


class Judged(msgspec.Struct, frozen=True):
    """Waiting for the verdict on an update."""

    round: int
    ticket: int
    digest: str


class ParticipantStandin(Standin):
    def __init__(self, service: Service, run: str, member: str) -> None:
        super().__init__(service, run, member)
        self.commanding = asyncio.Lock()
        """One command at a time: the next number is known when the last one is answered."""

    def told(self, topic: str, value: Any) -> None:
        super().told(topic, value)
        if topic == "standing" and value is not None:
            self._stand(value)

    def _stand(self, standing: Standing) -> None:
        mine = self.entered.get((self.run, self.member), 0)
        for what in [what for what in self.waiting if isinstance(what, News | Judged)]:
            if standing.incarnation > mine:
                self.refuse(what, superseded(self.member, mine, standing.incarnation))
            elif isinstance(what, Judged) and (verdict := passed(standing.verdict, what)) is not None:
                self.resolve(what, verdict)
            elif (refusal := _gone(standing, self.member)) is not None:
                self.refuse(what, refusal)
            elif isinstance(what, News) and is_news(what.known, standing.phase, standing.round):
                self.resolve(what, (standing.phase, standing.round))

    def concerns(self, topic: str, what: Hashable) -> bool:
        return super().concerns(topic, what) or (topic == "hello" and isinstance(what, News | Judged))


class FederatedCalls(Standins[ParticipantStandin]):
    def __init__(self, service: Service) -> None:
        super().__init__(service, ParticipantStandin)

    async def rendezvous(
        self, identity: Identity, run: str, join: ParticipantJoined, *, newest: bool = False
    ) -> Entered | Later:
        """``newest`` as in ``join``. Raises Refused."""
        self._may_join(identity, run, "federated")
        config = self._config(run)
        try:
            standin, accepted = await self.join(identity, run, join, newest)
        except Refused as error:
            if error.code != "come_later":
                raise
            return Later(error.refusal.retry_after_s or config.heartbeat_timeout_s, error.refusal.why)
        result = accepted.result or {}
        token = standin.token if self._service.proves(identity) else ""
        return Entered(
            run, join.member, int(result["incarnation"]), token, accepted.entry, int(result["seat"]),
            float(result["heartbeat_interval_s"]), float(result["heartbeat_timeout_s"]),
        )  # fmt: skip

    async def beat(
        self, identity: Identity, token: str, run: str, beat: Beat, known: Known, wait_s: float = 0.0
    ) -> tuple[BeatSeen, str]:
        """The answer, and the next session token if it is time for one. With ``wait_s``: held until the phase is
        another one than ``known``, but not so long that the next heartbeat would be late. Raises Refused."""
        config = self._config(run)
        standin = self._admit(identity, token, run, beat.member, beat.incarnation)
        what = ("heartbeat", beat.seq)
        seen: BeatSeen = await self._heard(standin, what, lambda: self._sign(standin, beat))
        wait_s = min(wait_s, config.heartbeat_interval_s)
        if wait_s <= 0 or is_news(known, seen.phase, seen.round):
            return seen, self._renewed(standin)
        hello = Hello(run, beat.member, beat.incarnation)
        try:
            phase, number = await standin.hear(News(known), lambda: self._service.hello(standin, hello), wait_s)
        except TimeoutError:
            return seen, self._renewed(standin)
        told = BeatSeen(seen.seq, phase, number, *passing(federated(self._service.served(run)).task))
        return told, self._renewed(standin)

    async def start(self, identity: Identity, token: str, run: str, member: str, incarnation: int) -> Assignment:
        """What this participant is to train in the open round. Raises Refused; as ``round_early`` if it is not to."""
        self._config(run)
        standin = self._admit(identity, token, run, member, incarnation)
        standing = await self._stands(standin, incarnation)
        if standing.phase != ROUND or not standing.ticket:
            why = f"{member} has nothing to train: the run is in {standing.phase} for it"
            raise Refused(Refusal("round_early", why, "beat until the answer is ROUND"))
        if standing.offered:
            why = f"the update of {member} for round {standing.round} is being looked at"
            raise Refused(Refusal("round_early", why, "send the end of the round again to learn the verdict"))
        return Assignment(
            standing.round, standing.ticket, standing.epochs, standing.epoch_base, standing.weights,
            standing.size_bytes, standing.hyper, standing.rounds,
        )  # fmt: skip

    async def end(
        self, identity: Identity, token: str, run: str, offer: UpdateOffered, timeout_s: float = VERDICT_S
    ) -> Verdict:
        """Offers the update and waits until it was looked at. Raises Refused: as ``update_refused`` with the reason if
        it does not count, as ``still_waiting`` after ``timeout_s``, when the same is to be sent again."""
        self._config(run)
        standin = self._admit(identity, token, run, offer.member, offer.incarnation)
        what = Judged(offer.round, offer.ticket, offer.digest)
        async with standin.commanding:
            standing = await self._stands(standin, offer.incarnation)
            verdict = passed(standing.verdict, what)
            if verdict is None and not self._offered(run, standing, offer):
                await self._command(standin, offer)
        if verdict is None:
            hello = Hello(run, offer.member, offer.incarnation)
            try:
                verdict = await standin.hear(what, lambda: self._service.hello(standin, hello), timeout_s)
            except TimeoutError:
                why = f"the update for round {offer.round} is still being looked at after {timeout_s:g} s"
                raise Refused(Refusal("still_waiting", why, "send the same again to go on waiting")) from None
        if not verdict.admitted:
            fix = "mend the training or ask an operator; the next round is another chance unless it is quarantined"
            raise Refused(Refusal("update_refused", verdict.why, fix))
        return verdict

    def warnings(self, run: str, member: str, ticket: int) -> list[str]:
        """Metrics of an update that were left out, when there is a verdict on it."""
        return warnings_of(federated(self._service.served(run)).task, member, ticket)

    async def leave(self, identity: Identity, token: str, run: str, left: ParticipantLeft) -> Accepted:
        self._config(run)
        standin = self._admit(identity, token, run, left.member, left.incarnation)
        async with standin.commanding:
            return await self._command(standin, left)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _stands(self, standin: ParticipantStandin, incarnation: int) -> Standing:
        standing: Standing | None = await self._standing(standin, incarnation)
        if standing is None:
            why = f"nobody of the id {standin.member} has joined this run"
            raise Refused(Refusal("unknown_member", why, "join first"))
        if standing.incarnation != incarnation:
            raise Refused(superseded(standin.member, incarnation, standing.incarnation))
        return standing

    def _offered(self, run: str, standing: Standing, offer: UpdateOffered) -> bool:
        """This very update is being looked at."""
        if not standing.offered or (standing.round, standing.ticket) != (offer.round, offer.ticket):
            return False
        folded = self._service.served(run).host.run
        task = folded.machine.task if folded is not None and isinstance(folded.machine, Federated) else None
        mine = None if task is None or task.round is None else task.round.assignments.get(offer.member)
        return mine is not None and mine.offer is not None and mine.offer.digest == offer.digest

    async def _command(self, standin: ParticipantStandin, event: MemberEvent) -> Accepted:
        """Under the number that comes next in this life, which the journal knows."""
        served = self._service.served(standin.run)
        known = None if served.host.run is None else served.host.run.roster.members.get(event.member)
        seq = 1 if known is None or known.incarnation != event.incarnation else known.seq + 1
        return await self._call(standin, Cause(event.member, event.incarnation, seq), encode(event))

    def _config(self, run: str) -> Config:
        """Raises Refused for a run of another kind."""
        return federated(self._service.served(run)).task.config


def is_news(known: Known, phase: str, number: int) -> bool:
    """The number counts within a round only: in standby it is that of the next one."""
    return phase != known.phase or (phase == ROUND and number != known.round)


def passed(verdict: Verdict | None, what: Judged) -> Verdict | None:
    """The verdict, if it is on this update. One that says why there was no update to look at has no digest."""
    if verdict is None or (verdict.round, verdict.ticket) != (what.round, what.ticket):
        return None
    return verdict if verdict.digest in ("", what.digest) else None


def _gone(standing: Standing, member: str) -> Refusal | None:
    if standing.state == "Quarantined":
        return Refusal("quarantined", f"{member}: {standing.reason}", "ask an operator to let it back in")
    if standing.state in GONE:
        why = f"{member} is {standing.state}: {standing.reason or 'it left'}"
        return Refusal("member_gone", why, "join again to begin a new life")
    return None
