"""Stand-ins: what speaks towards a host for a member that has no connection of its own, as with unary gRPC or HTTP.

A stand-in says what a call says, as a connection would, repeats it while no answer comes, and hands each caller the
answer it waits for. It holds nothing that must not be lost: whoever asks the next server begins with another stand-in
there, and finds everything in the journal.

Which answers there are depends on the kind of the run: see ``calls`` for workers, ``federated`` for participants,
``witnessed`` for members of witnessed runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.errors import Refusal, Refused
from quoracy.core.machine import Join, Signal
from quoracy.core.members import CHALLENGE_BYTES, Accepted, Cause
from quoracy.core.messages import Answered, Call, Declined, Hello, Moved, Sign, Told, Welcome
from quoracy.doors.auth import NOBODY, Identity, Role
from quoracy.doors.kinds import check_joins
from quoracy.doors.service import Service
from quoracy.doors.tokens import is_session_token
from quoracy.hosts.server import now_us
from quoracy.wire.messages import Granted

MAX_STANDINS: Final = 20_000
"""Members that speak through single calls; beyond, those that were silent for longest are forgotten."""
IDLE_S: Final = 300.0
REPEAT_S: Final = 1.0
"""What was not answered is said again: a host that read its journal anew has forgotten who waits."""
ANSWER_S: Final = 30.0
"""Nobody waits for ever. What is held on purpose has a time of its own."""


class Standin:
    """A guest of the service, as a connection is."""

    def __init__(self, service: Service, run: str, member: str) -> None:
        self.run = run
        self.member = member
        self.identity = NOBODY
        self.challenge = b""
        self.entered: dict[tuple[str, str], int] = {}
        self.renew_s: dict[tuple[str, str], float] = {}
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

    def send(self, message: Any, _run: str = "") -> None:
        match message:
            case Answered(cause=cause, answer=answer):
                self._service.answered(self, self.run, message)
                self.resolve(cause, answer)
            case Granted(token=token):
                self.token = token
            case Welcome():
                self.resolve("welcome", message)
            case Told():
                if message.incarnation >= self.entered.get((self.run, self.member), 0):
                    self.told(message.topic, message.value)
            case Declined(topic=topic, refusal=refusal):
                for what in [what for what in self.waiting if self.concerns(topic, what)]:
                    self.refuse(what, refusal)
            case Moved(address=address):
                why = f"{address or 'another host'} serves the run"
                self.refuse_all(Refusal("not_serving", why, "ask there"))

    def flush(self) -> None:
        """Everything was handed over at once."""

    def told(self, topic: str, value: Any) -> None:
        """News for this member. Kinds have more of it."""
        if topic == "heartbeat":
            self.resolve(("heartbeat", value.seq), value)
        elif topic == "standing":
            self.resolve("standing", value)

    def concerns(self, topic: str, what: Hashable) -> bool:
        """Whether somebody who waits for ``what`` has to know that a message about ``topic`` was declined."""
        match topic:
            case "hello":
                return what in ("welcome", "standing")
            case "heartbeat":
                return isinstance(what, tuple) and what[0] == "heartbeat"
            case "signal":
                return not isinstance(what, Cause)
        return False

    def resolve(self, what: Hashable, value: Any) -> None:
        for answer in self.waiting.get(what, ()):
            if not answer.done():
                answer.set_result(value)

    def refuse(self, what: Hashable, refusal: Refusal) -> None:
        for answer in self.waiting.get(what, ()):
            if not answer.done():
                answer.set_exception(Refused(refusal))

    def refuse_all(self, refusal: Refusal) -> None:
        for what in list(self.waiting):
            self.refuse(what, refusal)


S = TypeVar("S", bound=Standin)
J = TypeVar("J", bound=Join)


class Standins(Generic[S]):
    """Those of one kind of run, and what every kind's calls are made of."""

    def __init__(self, service: Service, make: Callable[[Service, str, str], S]) -> None:
        self._service = service
        self._make = make
        self._standins: dict[tuple[str, str, int, str], S] = {}
        """By run, member, incarnation (0: it joins) and who calls: nobody speaks through another's."""
        self._swept_us = now_us()

    def challenge(self) -> bytes:
        """What a join signs: good for a minute."""
        return self._service.authority.challenge(time.time())

    def close(self, refusal: Refusal) -> None:
        """Whoever still waits is told why, instead of being cut off."""
        for standin in self._standins.values():
            standin.refuse_all(refusal)

    async def join(self, identity: Identity, run: str, join: J, newest: bool) -> tuple[S, Accepted]:
        """``newest``: follow whatever life of the member there is, instead of the one that the join names. A join that
        proves a key names it itself, since that is signed. Raises Refused."""
        standin = self._standin(run, join.member, 0, identity)
        challenge = join.proof[:CHALLENGE_BYTES]
        fresh = bool(challenge) and self._service.authority.check_challenge(challenge, time.time())
        standin.challenge = challenge if fresh else b""
        if newest and not join.key:
            hello = Hello(run, join.member)
            known: Welcome = await self._heard(standin, "welcome", lambda: self._service.hello(standin, hello))
            join = msgspec.structs.replace(join, supersedes=known.incarnation)
        accepted = await self._call(standin, Cause(join.member, join.supersedes, 0), encode(join))
        incarnation = int((accepted.result or {})["incarnation"])
        if self._standins.pop((run, join.member, 0, identity.id), None) is standin:
            self._standins[run, join.member, incarnation, identity.id] = standin
        return standin, accepted

    def _may_join(self, identity: Identity, run: str, joins: str) -> None:
        """Raises Refused for a run that is not there or not theirs, and for one of another kind than ``joins``, which
        is what such members join."""
        served = self._service.run_to_join(identity, run)
        refusal = served if isinstance(served, Refusal) else check_joins(served, joins)
        if refusal is not None:
            raise Refused(refusal)

    def _standin(self, run: str, member: str, incarnation: int, identity: Identity) -> S:
        at_us = now_us()
        self._sweep(at_us)
        key = (run, member, incarnation, identity.id)
        standin = self._standins.get(key)
        if standin is None:
            standin = self._standins[key] = self._make(self._service, run, member)
        standin.heard_us = at_us
        standin.identity = identity
        return standin

    def _sweep(self, at_us: int) -> None:
        """Now and then, those that were not heard for long. Those who wait for an answer stay."""
        if len(self._standins) <= MAX_STANDINS and at_us - self._swept_us < IDLE_S * 1e6 / 4:
            return
        self._swept_us = at_us
        room = MAX_STANDINS if len(self._standins) <= MAX_STANDINS else MAX_STANDINS * 9 // 10
        for key, standin in sorted(self._standins.items(), key=lambda item: item[1].heard_us):
            idle = at_us - standin.heard_us > IDLE_S * 1e6 or len(self._standins) > room
            if idle and not standin.waiting:
                del self._standins[key]
                self._service.server.gone(standin)

    def _admit(self, identity: Identity, token: str, run: str, member: str, incarnation: int) -> S:
        """The stand-in of this life, for whoever shows its token. Raises Refused."""
        if self._service.proves(identity) or is_session_token(token):
            expires_s = self._service.check_session(token, run, member, incarnation)
            if isinstance(expires_s, Refusal):
                raise Refused(expires_s)
            standin = self._standin(run, member, incarnation, Identity(Role.MEMBER, run, member, identity.id))
            self._service.enter(standin, run, member, incarnation, expires_s)
            return standin
        standin = self._standin(run, member, incarnation, identity)
        standin.entered[run, member] = incarnation
        return standin

    def _renewed(self, standin: S) -> str:
        """With the answer to a heartbeat: the next session token, if half of the present one is over."""
        standin.token = ""
        self._service.renew(standin)
        return standin.token

    async def _call(self, standin: S, cause: Cause, body: bytes) -> Accepted:
        call = Call(standin.run, cause, Raw(body))
        answer = await self._heard(standin, cause, lambda: self._service.call(standin, call))
        if isinstance(answer, Refusal):
            raise Refused(answer)
        accepted: Accepted = answer
        return accepted

    async def _standing(self, standin: S, incarnation: int) -> Any:
        hello = Hello(standin.run, standin.member, incarnation)
        return await self._heard(standin, "standing", lambda: self._service.hello(standin, hello))

    async def _heard(self, standin: S, what: Hashable, say: Callable[[], None]) -> Any:
        """An answer, or that none came: it may be on its way all the same."""
        try:
            return await standin.hear(what, say, ANSWER_S)
        except TimeoutError:
            why = f"no answer within {ANSWER_S:g} s{await self._because(standin.run)}"
            raise Refused(Refusal("outcome_unknown", why, "ask again with the same number or nonce")) from None

    async def _beat(self, standin: S, beat: Any) -> Any:
        """The answer to a heartbeat: at once if nothing is under way, else when its turn has come. Raises Refused."""
        sign = Sign.of(standin.run, beat)
        reply = self._service.hear(standin, sign)
        if reply is None:
            return await self._heard(standin, ("heartbeat", beat.seq), lambda: self._service.sign(standin, sign))
        if isinstance(reply, Declined):
            raise Refused(reply.refusal)
        return reply.value

    def _sign(self, standin: S, signal: Signal) -> None:
        self._service.sign(standin, Sign.of(standin.run, signal))

    async def _because(self, run: str) -> str:
        served = self._service.server.runs.get(run)
        brief = None if served is None else await served.brief()
        return "" if brief is None else f": {brief.sentence}"
