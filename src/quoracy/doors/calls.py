"""Workers that have no connection of their own: each call comes alone, as with unary gRPC or plain HTTP.

Calls that are repeated are recognised as they are on a connection: a join by its nonce, a command by its number, an
arrival by ``after``. So whoever did not get an answer may simply ask again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from quoracy.core.cluster.events import Arrive, Heartbeat, HeartbeatSeen, WorkerRegistered
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.codec import encode
from quoracy.core.errors import Refusal, Refused
from quoracy.core.machine import MemberEvent
from quoracy.core.members import Accepted, Cause, superseded
from quoracy.doors.auth import Identity
from quoracy.doors.questions import check_kind
from quoracy.doors.service import Service
from quoracy.doors.standin import Standin, Standins


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
    """Waiting for the end of the generation of a barrier that follows ``after``."""

    barrier: str
    after: int
    fence: int


class WorkerStandin(Standin):
    def told(self, topic: str, value: Any) -> None:
        super().told(topic, value)
        if topic == "standing":
            self._stand(value)
        elif isinstance(value, Passage):
            for what in [what for what in self.waiting if isinstance(what, At)]:
                if what.barrier == value.barrier and what.after < value.generation and what.fence == value.fence:
                    self.resolve(what, value)

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
        self._check(run)
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

    async def beat(self, identity: Identity, token: str, run: str, beat: Heartbeat) -> HeartbeatSeen:
        self._check(run)
        standin = self._admit(identity, token, run, beat.member, beat.incarnation)
        seen: HeartbeatSeen = await self._beat(standin, beat)
        return seen

    async def wait(self, identity: Identity, token: str, run: str, arrive: Arrive, timeout_s: float) -> Passage:
        """Held until the barrier is settled, which may mean aborted. Raises Refused; as ``still_waiting`` after
        ``timeout_s``: the arrival counts, and whoever goes on waiting sends it again."""
        self._check(run)
        standin = self._admit(identity, token, run, arrive.member, arrive.incarnation)
        what = At(arrive.barrier, arrive.after, arrive.fence)
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
