"""The service: what can be asked of a server, whichever door the question came through.

A *guest* is one connection, or one call, at some door: who it is, and which members speak through it. The service asks
whether the guest may, and hands the message to the run's host; answers come back through the guest's ``send``.
Questions of people and tools (``ask``) are answered with plain values or a refusal.
"""

from __future__ import annotations

import asyncio
import time
from functools import reduce
from operator import or_
from typing import Any, Final, Protocol, get_args

import msgspec
from msgspec import Raw

from quoracy.core.codec import Reader, encode
from quoracy.core.errors import ConfigError, ConfigErrors, QuoracyError, Refusal, Refused, shown
from quoracy.core.machine import Join, Kind
from quoracy.core.members import CHALLENGE_BYTES, OPERATOR_MARK, Accepted, signed_by_joiner
from quoracy.core.messages import Answered, Call, Declined, Hello, Sign, Told, ToMember
from quoracy.core.witnessed.events import CheckpointStored
from quoracy.doors.auth import ANYONE, NOBODY, Action, Authority, Identity, Role, check_proof
from quoracy.doors.kept import looked, stored_of
from quoracy.doors.offers import fitting
from quoracy.doors.questions import QUESTIONS, Operator
from quoracy.doors.questions_federated import FEDERATED_QUESTIONS, where_weights
from quoracy.doors.questions_series import SERIES_QUESTIONS
from quoracy.doors.questions_witnessed import WITNESSED_QUESTIONS
from quoracy.doors.tokens import is_session_token
from quoracy.hosts.samples import Samples
from quoracy.hosts.server import ServedRun, Server
from quoracy.hosts.shelf import Shelf
from quoracy.ports import Series
from quoracy.stores import MemorySeries
from quoracy.wire.messages import Granted, Replied

TABLES: Final = (QUESTIONS, SERIES_QUESTIONS, FEDERATED_QUESTIONS, WITNESSED_QUESTIONS)


class Guest(Protocol):
    """Whoever is at a door."""

    identity: Identity
    challenge: bytes
    entered: dict[tuple[str, str], int]
    """(run, member) that may speak through it, and in which incarnation."""

    def send(self, message: Any) -> None: ...

    def flush(self) -> None: ...


class Service:
    def __init__(self, server: Server, authority: Authority, tokens: bool, defaults: dict[str, Any]) -> None:
        """``tokens``: whether members have to prove who they are. ``defaults``: per kind, for new runs."""
        self.defaults = defaults
        self.server = server
        self.authority = authority
        self.tokens = tokens
        self.draining = False
        self.series: Series = MemorySeries()
        """How numbers went. Whoever makes the service puts the real one here."""
        self.shelf: Shelf | None = None
        """Where weights are, if this server knows."""
        self.samples = Samples()
        """Of runs whose data is behind the data door."""
        self.modules: tuple[str, ...] = ()
        """That settings of runs may name code from."""
        self.http = ""
        """The address of the HTTP door, if there is one."""
        self.operator = Operator(server)
        self._ids = {join: kind.ids_per_token for kind in server.kinds for join in joins_of(kind)}
        """How many ids a token may bring by each sort of join, if it does not say."""
        self._joins: Reader[Join] = Reader(reduce(or_, self._ids), "join")
        self._looking: set[asyncio.Task[None]] = set()
        """At checkpoints that are said to be stored."""

    # -- members ----------------------------------------------------------------------------------------------------

    def hello(self, guest: Guest, hello: Hello) -> None:
        run = self._run_for(guest, hello.run)
        refusal = run if isinstance(run, Refusal) else self._check_hello(guest, hello)
        if isinstance(run, Refusal) or refusal is not None:
            self._say(guest, Declined(hello.member, hello.incarnation, "hello", refusal or _never()))
            return
        if hello.incarnation:
            guest.entered[hello.run, hello.member] = hello.incarnation
        self.server.receive(run, guest, hello)

    def call(self, guest: Guest, call: Call) -> None:
        run = self._run_for(guest, call.run)
        refusal = run if isinstance(run, Refusal) else self._check_call(guest, call)
        if isinstance(run, Refusal) or refusal is not None:
            self._say(guest, Answered(call.cause, refusal or _never()))
            return
        if call.cause.seq == 0:
            call = self._admitted(guest, call)
        kind = "" if run.host.run is None else run.host.run.kind.name
        call = fitting(call, kind)
        if (stored := stored_of(call, kind)) is not None:
            task = asyncio.get_running_loop().create_task(self._look(run, guest, call, stored))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
            return
        self.server.receive(run, guest, call)

    async def _look(self, run: ServedRun, guest: Guest, call: Call, stored: CheckpointStored) -> None:
        self.server.receive(run, guest, await looked(call, stored, self.shelf))

    def sign(self, guest: Guest, sign: Sign) -> None:
        run = self.server.runs.get(sign.run)
        if run is None or (self.tokens and (sign.run, sign.member) not in guest.entered):
            self._say(guest, self._not_taken(run, sign))
            return
        self.server.receive(run, guest, sign)

    def hear(self, guest: Guest, sign: Sign) -> Declined | Told | None:
        """As ``sign``, for a heartbeat of somebody who can take its answer at once; None: it has to be given with
        ``sign``, and wait its turn."""
        run = self.server.runs.get(sign.run)
        if run is None or (self.tokens and (sign.run, sign.member) not in guest.entered):
            return self._not_taken(run, sign)
        return run.hear(guest, sign)

    def _not_taken(self, run: ServedRun | None, sign: Sign) -> Declined:
        refusal = self._no_run(sign.run) if run is None else _not_entered(sign.member)
        return Declined(sign.member, 0, "signal", refusal)

    def answered(self, guest: Guest, run: str, message: Answered) -> None:
        """A door calls this for each answer it sends: an accepted join lets the member speak, and earns its token."""
        if message.cause.seq or not isinstance(message.answer, Accepted):
            return
        member, incarnation = message.cause.member, message.cause.incarnation + 1
        guest.entered[run, member] = incarnation
        served = self.server.runs.get(run)
        term = 0 if served is None or served.host.run is None else served.host.run.head.term
        guest.send(Granted(run, member, incarnation, self.authority.session_token(run, member, incarnation, term)))

    def _run_for(self, guest: Guest, run: str) -> ServedRun | Refusal:
        if not guest.identity.role.allows(Action.JOIN) or not guest.identity.covers(run):
            identity = guest.identity
            why = f"a token for {identity.role.value}s of {identity.run!r} does not let members into {run!r}"
            return Refusal("forbidden", why, "use a join token for this run")
        return self.server.runs.get(run) or self._no_run(run)

    def _no_run(self, run: str) -> Refusal:
        known = ", ".join(sorted(self.server.runs)[:5]) or "none"
        why = f"there is no run {run!r} here (there are: {known})"
        return Refusal("unknown_run", why, "create it, or correct the name")

    def _check_hello(self, guest: Guest, hello: Hello) -> Refusal | None:
        if (
            not self.tokens
            or not hello.incarnation
            or guest.entered.get((hello.run, hello.member)) == hello.incarnation
        ):
            return None
        checked = self.authority.check_session(hello.token, hello.run, hello.member, hello.incarnation)
        return checked if isinstance(checked, Refusal) else None

    def _check_call(self, guest: Guest, call: Call) -> Refusal | None:
        cause = call.cause
        if cause.member.startswith(OPERATOR_MARK):
            if guest.identity.role.allows(Action.OPERATE):
                return None
            return Refusal("forbidden", f"{guest.identity.role.value}s give no orders", "use an operator's token")
        if self.draining and cause.seq == 0:
            return Refusal("draining", "this server is about to stop", "join again in a moment")
        if cause.seq == 0:
            return self._check_join(guest, call)
        if self.tokens and guest.entered.get((call.run, cause.member)) != cause.incarnation:
            return _not_entered(cause.member)
        return None

    def _admitted(self, guest: Guest, call: Call) -> Call:
        """The join with the token that it came by, whatever its sender wrote there."""
        join = self._joins.read(call.event)
        if isinstance(join, Refusal):
            return call
        identity = guest.identity
        of_kind = 0 if identity.role is Role.ADMIN else self._ids[type(join)]
        ids = (identity.ids or of_kind) if identity.id else 0
        if (join.token, join.token_ids) == (identity.id, ids):
            return call
        stamped = msgspec.structs.replace(join, token=identity.id, token_ids=ids)
        return Call(call.run, call.cause, Raw(encode(stamped)))

    def _check_join(self, guest: Guest, call: Call) -> Refusal | None:
        """The joiner holds the key it names. Whether that key is the one the id is bound to, the fold decides."""
        join = self._joins.read(call.event)
        if isinstance(join, Refusal):
            return None
        if not join.key:
            if not self.tokens:
                return None
            return Refusal("bad_token", "joins must name a key here", "join with a key; the SDK makes one by itself")
        challenge, signature = join.proof[:CHALLENGE_BYTES], join.proof[CHALLENGE_BYTES:]
        signed = signed_by_joiner(challenge, call.run, join.member, join.supersedes, join.nonce)
        if challenge == guest.challenge and check_proof(join.key, signed, signature):
            return None
        return Refusal("bad_token", "the signature does not show that the joiner holds its key", "sign the challenge")

    def _say(self, guest: Guest, message: ToMember) -> None:
        self.server.send(guest, message)

    # -- people and tools -------------------------------------------------------------------------------------------

    def identify(self, token: str) -> Identity | Refusal:
        """Who somebody is that shows this token. A session token is good for its member alone, and only together with
        its name: see ``Calls``; by itself it opens nothing."""
        if not token and not self.tokens:
            return ANYONE
        if is_session_token(token):
            return NOBODY
        return self.authority.check_token(token, time.time())

    async def ask(self, identity: Identity, number: int, what: str, run: str, arguments: dict[str, Any]) -> Replied:
        known = next((table[what] for table in TABLES if what in table), None)
        try:
            if known is None:
                can_be_asked = f"ask one of: {', '.join(sorted(name for table in TABLES for name in table))}"
                raise Refused(Refusal("malformed", f"{what!r} cannot be asked", can_be_asked))
            if identity is NOBODY:
                raise Refused(Refusal("bad_token", "nobody knows who asks", "ask with a token that names a role"))
            action, answer = known
            if not identity.role.allows(action) or (run and not identity.covers(run)):
                why = f"a token for {identity.role.value}s of {identity.run!r} does not allow {what} of {run!r}"
                raise Refused(Refusal("forbidden", why, "use a token with another role"))
            return Replied(number, await answer(self, identity, run, arguments))
        except Refused as error:
            return Replied(number, None, error.refusal)
        except ConfigErrors as error:
            return Replied(number, None, error.refusal())
        except ConfigError as error:
            return Replied(number, None, Refusal("config", f"{error.field} = {shown(error.value)}", error.fix))
        except QuoracyError as error:
            return Replied(number, None, Refusal(error.code, str(error), "see the server's log"))

    async def where_weights(self, run: str) -> dict[str, str]:
        """Where the weights of a run are: what a participant is told with its assignment."""
        return await where_weights(self, run)

    def served(self, run: str) -> ServedRun:
        found = self.server.runs.get(run)
        if found is None:
            raise Refused(self._no_run(run))
        return found


def joins_of(kind: Kind) -> list[type[Join]]:
    return [event for event in get_args(kind.events) if event.joins]


def _not_entered(member: str) -> Refusal:
    why = f"{member or 'somebody'} has not shown who it is here"
    return Refusal("bad_token", why, "say hello with its token, or join")


def _never() -> Refusal:
    return Refusal("bug", "a refusal without a reason", "report it")
