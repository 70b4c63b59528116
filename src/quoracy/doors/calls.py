"""Workers that have no connection of their own: each call comes alone, as with unary gRPC or plain HTTP.

Calls that are repeated are recognised as they are on a connection: a join by its nonce, a command by its number, an
arrival by ``after``. So whoever did not get an answer may simply ask again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import msgspec

from quoracy.core.cluster.events import Arrive, Heartbeat, HeartbeatSeen, WorkerRegistered
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.codec import encode
from quoracy.core.errors import Refusal, Refused
from quoracy.core.machine import MemberEvent
from quoracy.core.members import Accepted, Cause, superseded
from quoracy.doors.auth import Identity
from quoracy.doors.kinds import check_kind
from quoracy.doors.service import Service
from quoracy.doors.standin import Standin, Standins

MAX_ENDED: Final = 64
"""Barriers whose last end is remembered, for each worker."""


class Registered(msgspec.Struct, frozen=True):
    """What a member knows after it has joined."""

    run: str
    member: str
    incarnation: int
    token: str
    """For every later call of this life. Empty where no tokens are asked for."""
    entry: int
    result: dict[str, Any]
    """What the fold assigned: rank, fence, how often to beat..."""
    barriers: dict[str, tuple[int, int]]
    """Newest settled generation and step of each barrier: where a newcomer begins."""


class At(msgspec.Struct, frozen=True):
    """Waiting for the end of the generation of a barrier that follows ``after``; without it, for a release at this
    step, or an abort that nobody here was told of."""

    barrier: str
    step: int
    after: int | None
    fence: int

    def ended_by(self, passage: Passage, told: int) -> bool:
        """``told``: the newest generation that a caller was told of."""
        if (self.barrier, self.fence) != (passage.barrier, passage.fence):
            return False
        if self.after is not None:
            return self.after < passage.generation
        return passage.step == self.step if passage.released else passage.generation > told


class WorkerStandin(Standin):
    def __init__(self, service: Service, run: str, member: str) -> None:
        super().__init__(service, run, member)
        self._ended: dict[str, int] = {}
        """By barrier: the newest generation that a caller was told of."""

    def told(self, topic: str, value: Any) -> None:
        super().told(topic, value)
        if topic == "standing":
            self._stand(value)
        elif isinstance(value, Passage):
            told = self._ended.get(value.barrier, 0)
            for what in [what for what in self.waiting if isinstance(what, At) and what.ended_by(value, told)]:
                self._ended.pop(value.barrier, None)
                self._ended[value.barrier] = max(told, value.generation)
                self.resolve(what, value)
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]

    def _stand(self, standing: Standing) -> None:
        """What concerns those who wait at a barrier: it may never be settled for them."""
        mine = self.entered.get((self.run, self.member), 0)
        refusal = None
        if standing.incarnation > mine:
            refusal = superseded(self.member, mine, standing.incarnation)
        elif standing.run == "Closed":
            refusal = Refusal("run_closed", f"the run is over: {standing.reason}", "leave")
        elif standing.state in ("Failed", "Left"):
            refusal = Refusal("member_gone", f"{self.member} is {standing.state}: {standing.reason}", "register again")
        for what in [what for what in self.waiting if isinstance(what, At)]:
            if refusal is not None:
                self.refuse(what, refusal)
            elif what.fence < standing.fence:
                why = f"the run was rolled back and is at generation {standing.fence}"
                self.refuse(what, Refusal("stale_token", why, "recover, then arrive with that fence"))

    def concerns(self, topic: str, what: Hashable) -> bool:
        if super().concerns(topic, what):
            return True
        return isinstance(what, At) and topic == f"barrier/{what.barrier}"


class Calls(Standins[WorkerStandin]):
    def __init__(self, service: Service) -> None:
        super().__init__(service, WorkerStandin)

    async def register(
        self, identity: Identity, run: str, join: WorkerRegistered, *, newest: bool = False
    ) -> Registered:
        """``newest`` as in ``join``. Raises Refused."""
        self._may_join(identity, run, "cluster")
        standin, accepted = await self.join(identity, run, join, newest)
        result = accepted.result or {}
        standing: Standing = await self._standing(standin, int(result["incarnation"]))
        token = standin.token if self._service.proves(identity) else ""
        return Registered(
            run, join.member, int(result["incarnation"]), token, accepted.entry, result, standing.barriers
        )

    async def command(self, identity: Identity, token: str, run: str, seq: int, event: MemberEvent) -> Accepted:
        """``seq`` is 1, 2, 3... in each life; the same again gets the same answer. Raises Refused."""
        self._check(run)
        standin = self._admit(identity, token, run, event.member, event.incarnation)
        return await self._call(standin, Cause(event.member, event.incarnation, seq), encode(event))

    async def report(
        self, identity: Identity, token: str, run: str, seq: int, event: MemberEvent
    ) -> tuple[int, Standing]:
        """As ``command``: its entry, and how the worker stands after it. Raises Refused."""
        accepted = await self.command(identity, token, run, seq, event)
        standin = self._admit(identity, token, run, event.member, event.incarnation)
        return accepted.entry, await self._standing(standin, event.incarnation)

    async def beat(self, identity: Identity, token: str, run: str, beat: Heartbeat) -> tuple[HeartbeatSeen, str]:
        """The answer, and the next session token if it is time for one. Raises Refused."""
        self._check(run)
        standin = self._admit(identity, token, run, beat.member, beat.incarnation)
        seen: HeartbeatSeen = await self._beat(standin, beat)
        return seen, self._renewed(standin)

    async def wait(self, identity: Identity, token: str, run: str, arrive: Arrive, timeout_s: float) -> Passage:
        """Held until the barrier is settled, which may mean aborted. Raises Refused; as ``still_waiting`` after
        ``timeout_s``: the arrival counts, and whoever goes on waiting sends it again."""
        self._check(run)
        standin = self._admit(identity, token, run, arrive.member, arrive.incarnation)
        what = At(arrive.barrier, arrive.step, arrive.after, arrive.fence)
        try:
            passage: Passage = await standin.hear(what, lambda: self._sign(standin, arrive), timeout_s)
        except TimeoutError:
            why = f"barrier {arrive.barrier} is not settled within {timeout_s:g} s{await self._because(run)}"
            raise Refused(Refusal("still_waiting", why, "send the same arrival again to go on waiting")) from None
        return passage

    def _check(self, run: str) -> None:
        """Raises Refused for a run of another kind: what a worker says would be read as something else there."""
        served = self._service.server.runs.get(run)
        if served is not None:
            check_kind(served, "cluster")
