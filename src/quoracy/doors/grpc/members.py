"""The calls of workers, each alone: what ``Calls`` can do for a member without a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quoracy.core.errors import Refusal, Refused
from quoracy.doors.auth import Identity
from quoracy.doors.calls import Calls
from quoracy.doors.grpc import translate
from quoracy.doors.tokens import is_session_token
from quoracy.wire.pb import coordinator_pb2 as pb

WAIT_S: Final = 30.0
MAX_WAIT_S: Final = 3600.0
LEFT_S: Final = 0.05
"""Of a call's own deadline: so that whoever waited is told what for, and not merely that time is up."""


class Caller:
    """Who calls, as the metadata says, and how long it waits."""

    def __init__(self, identity: Identity, bearer: str, left_s: Callable[[], float | None]) -> None:
        self.identity = identity
        self.left_s = left_s
        self._session = bearer if is_session_token(bearer) else ""

    def token(self, said: str) -> str:
        return said or self._session


class MemberCalls:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def challenge(self, _caller: Caller, _said: pb.GetChallengeRequest) -> pb.GetChallengeResponse:
        return pb.GetChallengeResponse(challenge=self._calls.challenge())

    async def register(self, caller: Caller, said: pb.RegisterWorkerRequest) -> pb.RegisterWorkerResponse:
        join = translate.join_of(said)
        newest = not said.HasField("supersedes")
        if newest and said.key:
            why = "supersedes is not set, and a join with a key signs it"
            raise Refused(Refusal("malformed", why, "set it: 0 for a new id, else the incarnation that GetRun shows"))
        return translate.registered(await self._calls.register(caller.identity, said.run, join, newest=newest))

    async def heartbeat(self, caller: Caller, said: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        beat = translate.heartbeat_of(said)
        seen, token = await self._calls.beat(caller.identity, caller.token(said.token), said.run, beat)
        return translate.seen(seen, token)

    async def report(self, caller: Caller, said: pb.ReportStateRequest) -> pb.ReportStateResponse:
        event = translate.report_of(said)
        if isinstance(event, Refusal):
            raise Refused(event)
        _check_seq(said.seq)
        token = caller.token(said.token)
        return translate.reported(*await self._calls.report(caller.identity, token, said.run, said.seq, event))

    async def leave(self, caller: Caller, said: pb.DeregisterRequest) -> pb.DeregisterResponse:
        _check_seq(said.seq)
        token = caller.token(said.token)
        accepted = await self._calls.command(caller.identity, token, said.run, said.seq, translate.left_of(said))
        return pb.DeregisterResponse(entry=accepted.entry)

    async def wait(self, caller: Caller, said: pb.WaitAtBarrierRequest) -> pb.WaitAtBarrierResponse:
        if not 0.0 <= said.timeout_s <= MAX_WAIT_S:
            raise Refused(Refusal("malformed", f"timeout_s = {said.timeout_s:g}", f"0 to {MAX_WAIT_S:g} seconds"))
        arrive = translate.arrive_of(said)
        if isinstance(arrive, Refusal):
            raise Refused(arrive)
        timeout_s = said.timeout_s or WAIT_S
        if (left_s := caller.left_s()) is not None:
            timeout_s = min(timeout_s, max(left_s - LEFT_S, LEFT_S))
        token = caller.token(said.token)
        passage = await self._calls.wait(caller.identity, token, said.run, arrive, timeout_s)
        return translate.passed(passage)


def _check_seq(seq: int) -> None:
    """Number 0 is the join's, which has a call of its own."""
    if seq == 0:
        raise Refused(Refusal("malformed", "seq = 0", "number the commands of a life 1, 2, 3..."))
