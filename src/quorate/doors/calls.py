"""Members that have no connection of their own: each call comes alone, as with unary gRPC or plain HTTP.

A *stand-in* speaks for such a member towards the host, as a connection would: it says what the call says, repeats it
while no answer comes, and hands each caller the answer it waits for. It holds nothing that must not be lost: whoever
asks the next server begins with another stand-in there, and finds everything in the journal.

Calls that are repeated are recognised as they are on a connection: a join by its nonce, a command by its number, an
arrival by ``after``. So whoever did not get an answer may simply ask again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
from msgspec import Raw

from quorate.core.cluster.events import Arrive, Heartbeat, HeartbeatSeen, WorkerRegistered
from quorate.core.cluster.views import Passage, Standing
from quorate.core.codec import encode
from quorate.core.errors import Refusal, Refused
from quorate.core.machine import MemberEvent
from quorate.core.members import CHALLENGE_BYTES, Accepted, Cause, superseded
from quorate.core.messages import Answered, Call, Declined, Hello, Moved, Sign, Told, Welcome
from quorate.doors.auth import NOBODY, Identity, Role
from quorate.doors.service import Service
from quorate.doors.tokens import is_session_token
from quorate.hosts.server import now_us
from quorate.wire.messages import Granted

MAX_STANDINS: Final = 20_000
"""Members that speak through single calls; beyond, those that were silent for longest are forgotten."""
IDLE_S: Final = 300.0
REPEAT_S: Final = 1.0
"""What was not answered is said again: a host that read its journal anew has forgotten who waits."""
ANSWER_S: Final = 30.0
"""Nobody waits for ever. A barrier has a time of its own."""


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


class Calls:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._standins: dict[tuple[str, str, str], _Standin] = {}
        """By run, member and who calls: one caller must not stand in another's way."""
        self._swept_us = now_us()

    def challenge(self) -> bytes:
        """What a join signs: good for a minute."""
        return self._service.authority.challenge(time.time())

    async def register(
        self, identity: Identity, run: str, join: WorkerRegistered, *, newest: bool = False
    ) -> Registered:
        """``newest``: follow whatever life of the member there is, instead of the one that the join names. A join that
        proves a key names it itself, since that is signed. Raises Refused."""
        standin = self._standin(run, join.member, identity)
        challenge = join.proof[:CHALLENGE_BYTES]
        fresh = bool(challenge) and self._service.authority.check_challenge(challenge, time.time())
        standin.challenge = challenge if fresh else b""
        if newest and not join.key:
            hello = Hello(run, join.member)
            known: Welcome = await self._heard(standin, "welcome", lambda: self._service.hello(standin, hello))
            join = msgspec.structs.replace(join, supersedes=known.incarnation)
        accepted = await self._call(standin, Cause(join.member, join.supersedes, 0), encode(join))
        result = accepted.result or {}
        standing = await self._standing(standin, int(result["incarnation"]))
        token = standin.token if self._service.tokens else ""
        return Registered(
            run, join.member, int(result["incarnation"]), token, accepted.entry, result, standing.barriers
        )

    async def command(self, identity: Identity, token: str, run: str, seq: int, event: MemberEvent) -> Accepted:
        """``seq`` is 1, 2, 3... in each life; the same again gets the same answer. Raises Refused."""
        standin = self._admit(identity, token, run, event.member, event.incarnation)
        return await self._call(standin, Cause(event.member, event.incarnation, seq), encode(event))

    async def beat(self, identity: Identity, token: str, run: str, beat: Heartbeat) -> HeartbeatSeen:
        standin = self._admit(identity, token, run, beat.member, beat.incarnation)
        what = ("heartbeat", beat.seq)
        seen: HeartbeatSeen = await self._heard(standin, what, lambda: self._sign(standin, beat))
        return seen

    async def wait(self, identity: Identity, token: str, run: str, arrive: Arrive, timeout_s: float) -> Passage:
        """Held until the barrier is settled, which may mean aborted. Raises Refused; as ``still_waiting`` after
        ``timeout_s``: the arrival counts, and whoever goes on waiting sends it again."""
        standin = self._admit(identity, token, run, arrive.member, arrive.incarnation)
        what = At(arrive.barrier, arrive.after, arrive.fence)
        try:
            passage: Passage = await standin.hear(what, lambda: self._sign(standin, arrive), timeout_s)
        except TimeoutError:
            why = f"barrier {arrive.barrier} is not settled within {timeout_s:g} s{await self._because(run)}"
            raise Refused(Refusal("still_waiting", why, "send the same arrival again to go on waiting")) from None
        return passage

    def close(self, refusal: Refusal) -> None:
        """Whoever still waits is told why, instead of being cut off."""
        for standin in self._standins.values():
            standin.refuse_all(refusal)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _standin(self, run: str, member: str, identity: Identity) -> _Standin:
        self._sweep()
        key = (run, member, identity.id)
        standin = self._standins.pop(key, None) or _Standin(self._service, run, member)
        self._standins[key] = standin
        standin.heard_us = now_us()
        standin.identity = identity
        return standin

    def _sweep(self) -> None:
        """Now and then, those that were not heard for long. Those who wait for an answer stay."""
        at_us = now_us()
        if len(self._standins) <= MAX_STANDINS and at_us - self._swept_us < IDLE_S * 1e6 / 4:
            return
        self._swept_us = at_us
        for key, standin in list(self._standins.items()):
            idle = at_us - standin.heard_us > IDLE_S * 1e6 or len(self._standins) > MAX_STANDINS
            if idle and not standin.waiting:
                del self._standins[key]
                self._service.server.gone(standin)

    def _admit(self, identity: Identity, token: str, run: str, member: str, incarnation: int) -> _Standin:
        """The stand-in of this life, for whoever shows its token. Raises Refused."""
        if self._service.tokens or is_session_token(token):
            checked = self._service.authority.check_session(token, run, member, incarnation)
            if isinstance(checked, Refusal):
                raise Refused(checked)
            identity = Identity(Role.MEMBER, run, member, identity.id)
        standin = self._standin(run, member, identity)
        standin.entered[run, member] = incarnation
        return standin

    async def _call(self, standin: _Standin, cause: Cause, body: bytes) -> Accepted:
        call = Call(standin.run, cause, Raw(body))
        answer = await self._heard(standin, cause, lambda: self._service.call(standin, call))
        if isinstance(answer, Refusal):
            raise Refused(answer)
        accepted: Accepted = answer
        return accepted

    async def _standing(self, standin: _Standin, incarnation: int) -> Standing:
        hello = Hello(standin.run, standin.member, incarnation)
        standing: Standing = await self._heard(standin, "standing", lambda: self._service.hello(standin, hello))
        return standing

    async def _heard(self, standin: _Standin, what: Hashable, say: Callable[[], None]) -> Any:
        """An answer, or that none came: it may be on its way all the same."""
        try:
            return await standin.hear(what, say, ANSWER_S)
        except TimeoutError:
            why = f"no answer within {ANSWER_S:g} s{await self._because(standin.run)}"
            raise Refused(Refusal("outcome_unknown", why, "ask again with the same number or nonce")) from None

    def _sign(self, standin: _Standin, signal: Heartbeat | Arrive) -> None:
        self._service.sign(standin, Sign(standin.run, Raw(encode(signal)), standin.member))

    async def _because(self, run: str) -> str:
        served = self._service.server.runs.get(run)
        brief = None if served is None else await served.brief()
        return "" if brief is None else f": {brief.sentence}"


class At(msgspec.Struct, frozen=True):
    """Waiting for the end of the generation of a barrier that follows ``after``."""

    barrier: str
    after: int
    fence: int


class _Standin:
    """A guest of the service, as a connection is."""

    def __init__(self, service: Service, run: str, member: str) -> None:
        self.run = run
        self.member = member
        self.identity = NOBODY
        self.challenge = b""
        self.entered: dict[tuple[str, str], int] = {}
        self.token = ""
        self.heard_us = 0
        self.waiting: dict[Hashable, list[asyncio.Future[Any]]] = {}
        self._service = service
        self._loop = asyncio.get_running_loop()

    async def hear(self, what: Hashable, say: Callable[[], None], timeout_s: float) -> Any:
        """Say it until it is answered. Raises Refused, or TimeoutError."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self.waiting.setdefault(what, []).append(answer)
        end_s = self._loop.time() + timeout_s
        timer: asyncio.TimerHandle | None = None

        def again() -> None:
            nonlocal timer
            if answer.done():
                return
            left_s = end_s - self._loop.time()
            if left_s <= 0:
                answer.set_exception(TimeoutError())
                return
            timer = self._loop.call_later(min(REPEAT_S, left_s), again)
            say()

        again()
        try:
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            waiting = self.waiting[what]
            waiting.remove(answer)
            if not waiting:
                del self.waiting[what]

    # -- what the host says -----------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        match message:
            case Answered(cause=cause, answer=answer):
                self._service.answered(self, self.run, message)
                self._resolve(cause, answer)
            case Granted(token=token):
                self.token = token
            case Welcome():
                self._resolve("welcome", message)
            case Told():
                if message.incarnation >= self.entered.get((self.run, self.member), 0):
                    self._told(message.topic, message.value)
            case Declined(topic=topic, refusal=refusal):
                self._declined(topic, refusal)
            case Moved(address=address):
                why = f"{address or 'another host'} serves the run"
                self.refuse_all(Refusal("not_serving", why, "ask there"))

    def flush(self) -> None:
        """Everything was handed over at once."""

    def _told(self, topic: str, value: Any) -> None:
        if topic == "heartbeat":
            self._resolve(("heartbeat", value.seq), value)
        elif topic == "standing":
            self._stand(value)
        elif isinstance(value, Passage):
            for what in [what for what in self.waiting if isinstance(what, At)]:
                if what.barrier == value.barrier and what.after < value.generation and what.fence == value.fence:
                    self._resolve(what, value)

    def _stand(self, standing: Standing) -> None:
        """What concerns those who wait at a barrier: it may never be settled for them."""
        self._resolve("standing", standing)
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
                self._refuse(what, refusal)
            elif what.fence < standing.fence:
                why = f"the run was rolled back and is at generation {standing.fence}"
                self._refuse(what, Refusal("stale_token", why, "recover, then arrive with that fence"))

    def _declined(self, topic: str, refusal: Refusal) -> None:
        """Tell those who asked about this."""
        for what in [what for what in self.waiting if _concerns(topic, what)]:
            self._refuse(what, refusal)

    def _resolve(self, what: Hashable, value: Any) -> None:
        for answer in self.waiting.get(what, ()):
            if not answer.done():
                answer.set_result(value)

    def _refuse(self, what: Hashable, refusal: Refusal) -> None:
        for answer in self.waiting.get(what, ()):
            if not answer.done():
                answer.set_exception(Refused(refusal))

    def refuse_all(self, refusal: Refusal) -> None:
        for what in list(self.waiting):
            self._refuse(what, refusal)


def _concerns(topic: str, what: Hashable) -> bool:
    match topic:
        case "hello":
            return what in ("welcome", "standing")
        case "heartbeat":
            return isinstance(what, tuple) and what[0] == "heartbeat"
        case "signal":
            return not isinstance(what, Cause)
    return isinstance(what, At) and what.barrier == topic.removeprefix("barrier/")
