"""The service: what can be asked of a server, whichever door the question came through.

A *guest* is one connection, or one call, at some door: who it is, and which members speak through it. The service asks
whether the guest may, and hands the message to the run's host; answers come back through the guest's ``send``.
Questions of people and tools (``ask``) are answered with plain values or a refusal.
"""

from __future__ import annotations

import asyncio
import math
import time
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Any, Final, Protocol, get_args

import msgspec
from msgspec import Raw

from quoracy.core import serverwide
from quoracy.core.codec import Reader, digest, encode
from quoracy.core.errors import ConfigError, ConfigErrors, QuoracyError, Refusal, Refused, shown
from quoracy.core.machine import Join, Kind
from quoracy.core.members import CHALLENGE_BYTES, OPERATOR_MARK, Accepted, joined_as, signed_by_joiner
from quoracy.core.messages import Answered, Call, Declined, Hello, Sign, Told, ToMember
from quoracy.core.witnessed.events import CheckpointStored
from quoracy.doors.auth import ANYONE, NOBODY, Action, Authority, Identity, Role, check_proof
from quoracy.doors.kept import looked, stored_of
from quoracy.doors.kinds import check_joins
from quoracy.doors.local_users import LocalUsers
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

NAMES_SHOWN: Final = 5
NAMES_MEANT: Final = 3
NAMES_COMPARED: Final = 500
"""With a name that there is not. More would keep everybody waiting."""
TABLES: Final = (QUESTIONS, SERIES_QUESTIONS, FEDERATED_QUESTIONS, WITNESSED_QUESTIONS)


class Guest(Protocol):
    """Whoever is at a door."""

    identity: Identity
    challenge: bytes
    entered: dict[tuple[str, str], int]
    """(run, member) that may speak through it, and in which incarnation."""
    renew_s: dict[tuple[str, str], float]
    """When each of them is to get a newer session token, in wall time."""

    def send(self, message: Any, run: str = "") -> None: ...

    def flush(self) -> None: ...


class Service:
    def __init__(self, server: Server, authority: Authority, tokens: bool, defaults: dict[str, Any]) -> None:
        """``tokens``: whether members have to prove who they are. ``defaults``: per kind, for new runs."""
        self.defaults = defaults
        self.server = server
        self.authority = authority
        self.tokens = tokens
        self.session_s = 86_400.0
        """How long session tokens are good. Whoever makes the service sets it."""
        self.draining = False
        self.series: Series = MemorySeries()
        """How numbers went. Whoever makes the service puts the real one here."""
        self.shelf: Shelf | None = None
        """Where weights are, if this server knows."""
        self.samples = Samples()
        """Of runs whose data is behind the data door."""
        self.modules: tuple[str, ...] = ()
        """That settings of runs may name code from."""
        self.local_users: LocalUsers | None = None
        """Tells who may come without a token where none are asked; None: whoever reaches a door may."""
        self.http = ""
        """The address of the HTTP door, if there is one."""
        self.operator = Operator(server)
        self._ids = {join: kind.ids_per_token for kind in server.kinds for join in joins_of(kind)}
        """How many ids a token may bring by each sort of join, if it does not say."""
        self._joined_kinds = {join: kind.name for kind in server.kinds for join in joins_of(kind)}
        self._joins: Reader[Join] = Reader(reduce(or_, self._ids), "join")
        self._looking: set[asyncio.Task[None]] = set()
        """At checkpoints that are said to be stored."""

    # -- members ----------------------------------------------------------------------------------------------------

    def hello(self, guest: Guest, hello: Hello) -> None:
        run = self.run_to_join(guest.identity, hello.run)
        refusal = run if isinstance(run, Refusal) else self._enter(guest, hello)
        if isinstance(run, Refusal) or refusal is not None:
            self._say(guest, Declined(hello.member, hello.incarnation, "hello", refusal or _never()))
            return
        self.server.receive(run, guest, hello)

    def call(self, guest: Guest, call: Call) -> None:
        run = self.run_to_join(guest.identity, call.run)
        refusal = run if isinstance(run, Refusal) else self._check_call(guest, run, call)
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
        if run is None or not self._speaks(guest, sign.run, sign.member, sign.incarnation):
            self._say(guest, self._not_taken(guest, run, sign))
            return
        self.server.receive(run, guest, sign)

    def hear(self, guest: Guest, sign: Sign) -> Declined | Told | None:
        """As ``sign``, for a heartbeat of somebody who can take its answer at once; None: it has to be given with
        ``sign``, and wait its turn."""
        run = self.server.runs.get(sign.run)
        if run is None or not self._speaks(guest, sign.run, sign.member, sign.incarnation):
            return self._not_taken(guest, run, sign)
        return run.hear(guest, sign)

    def _not_taken(self, guest: Guest, run: ServedRun | None, sign: Sign) -> Declined:
        entered = guest.entered.get((sign.run, sign.member))
        refusal = (
            self._no_run(sign.run, guest.identity)
            if run is None
            else _not_entered(sign.member, sign.incarnation, entered)
        )
        return Declined(sign.member, sign.incarnation, "signal", refusal)

    def answered(self, guest: Guest, run: str, message: Answered) -> None:
        """A door calls this for each answer it sends: an accepted join lets the member speak, and earns its token."""
        if message.cause.seq or not isinstance(message.answer, Accepted):
            return
        member, incarnation = message.cause.member, joined_as(message.answer)
        guest.entered[run, member] = incarnation
        self._grant(guest, run, member, incarnation)

    def _grant(self, guest: Guest, run: str, member: str, incarnation: int) -> None:
        now_s = time.time()
        guest.renew_s[run, member] = now_s + self.session_s / 2
        token = self.authority.session_token(run, member, incarnation, math.ceil(now_s + self.session_s))
        guest.send(Granted(run, member, incarnation, token))

    def renew(self, guest: Guest) -> None:
        """A door calls this now and then for whoever was heard since: session tokens of which half is over are
        followed by newer ones."""
        if not guest.renew_s:
            return
        now_s = time.time()
        due = [key for key, renew_s in guest.renew_s.items() if now_s >= renew_s]
        for run, member in due:
            self._grant(guest, run, member, guest.entered[run, member])
        if due:
            guest.flush()

    def check_session(self, token: str, run: str, member: str, incarnation: int) -> int | Refusal:
        """When the token of this incarnation ends."""
        return self.authority.check_session(token, run, member, incarnation, time.time())

    def enter(self, guest: Guest, run: str, member: str, incarnation: int, expires_s: int) -> None:
        """The guest has shown the token of this incarnation, and speaks for it from here on."""
        guest.entered[run, member] = incarnation
        guest.renew_s[run, member] = expires_s - self.session_s / 2

    def run_to_join(self, identity: Identity, run: str) -> ServedRun | Refusal:
        """The run that members come into by this identity, if they may."""
        if not identity.role.allows(Action.JOIN) or not identity.covers(run):
            why = f"a token for {identity.role.value}s of {identity.run!r} does not let members into {run!r}"
            return Refusal("forbidden", why, "use a join token for this run")
        return self.server.runs.get(run) or self._no_run(run, identity)

    def _no_run(self, run: str, identity: Identity) -> Refusal:
        """With the name that was probably meant, or those there are, as far as this one may look at them."""
        names = [name for name in sorted(self.server.runs) if identity.check(Action.LOOK, name) is None]
        if identity is not NOBODY and (close := get_close_matches(run, names[:NAMES_COMPARED], NAMES_MEANT)):
            meant = " or ".join(map(repr, close))
            return Refusal("unknown_run", f"there is no run {run!r} here; did you mean {meant}?", "correct the name")
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        known = f"{', '.join(names[:NAMES_SHOWN])}{more}" or "none"
        told = "" if identity is NOBODY else f" (there are: {known})"
        return Refusal("unknown_run", f"there is no run {run!r} here{told}", "create it, or correct the name")

    def _speaks(self, guest: Guest, run: str, member: str, incarnation: int) -> bool:
        """Whether this incarnation has entered here, or does so with this message: without tokens, whoever says who it
        is is believed. Through a connection of an older incarnation nobody speaks for a newer one even then."""
        entered = guest.entered.get((run, member))
        if entered is not None:
            return entered == incarnation
        if self.proves(guest.identity):
            return False
        guest.entered[run, member] = incarnation
        return True

    def _enter(self, guest: Guest, hello: Hello) -> Refusal | None:
        if not hello.incarnation or guest.entered.get((hello.run, hello.member)) == hello.incarnation:
            return None
        if not self.proves(guest.identity):
            guest.entered[hello.run, hello.member] = hello.incarnation
            return None
        expires_s = self.check_session(hello.token, hello.run, hello.member, hello.incarnation)
        if isinstance(expires_s, Refusal):
            return expires_s
        self.enter(guest, hello.run, hello.member, hello.incarnation, expires_s)
        return None

    def _check_call(self, guest: Guest, run: ServedRun, call: Call) -> Refusal | None:
        cause = call.cause
        if cause.member.startswith(OPERATOR_MARK):
            if guest.identity.role.allows(Action.OPERATE):
                return None
            return Refusal("forbidden", f"{guest.identity.role.value}s give no orders", "use an operator's token")
        if self.draining and cause.seq == 0:
            return Refusal("draining", "this server is about to stop", "join again in a moment")
        if cause.seq == 0:
            return self._check_join(guest, run, call)
        if self._speaks(guest, call.run, cause.member, cause.incarnation):
            return None
        return _not_entered(cause.member, cause.incarnation, guest.entered.get((call.run, cause.member)))

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

    def _check_join(self, guest: Guest, run: ServedRun, call: Call) -> Refusal | None:
        """The run is of its kind, and the joiner holds the key it names. Whether that key is the one the id is bound
        to, the fold decides."""
        join = self._joins.read(call.event)
        if isinstance(join, Refusal):
            return None
        if (refusal := check_joins(run, self._joined_kinds[type(join)])) is not None:
            return refusal
        if not join.key:
            if not self.proves(guest.identity):
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

    def stranger(self, peer: Any, here: Any) -> Refusal | None:
        """Why a connection between these two ends needs a token; None if it needs none. Doors ask this when they accept
        the connection: afterwards its port may belong to somebody else."""
        return None if self.tokens or self.local_users is None else self.local_users.stranger(peer, here)

    def proves(self, identity: Identity) -> bool:
        """Whether its members have to prove who they are: all but those of whom no token is asked."""
        return self.tokens or identity is not ANYONE

    def identify(self, token: str, stranger: Refusal | None) -> Identity | Refusal:
        """Who somebody is that shows this token. ``stranger``: why its connection needs one, if it does. A session
        token is good for its member alone, and only together with its name: see ``Calls``; by itself it opens
        nothing."""
        if not token and not self.tokens:
            return stranger or ANYONE
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
            if run and what != "create":
                self.served(run, identity)
            if action is not Action.LOOK and isinstance(request := arguments.get("request"), str) and request:
                asked = {name: value for name, value in arguments.items() if name != "request"}
                await self.once(identity, request, what, run, asked)
            return Replied(number, await answer(self, identity, run, arguments))
        except Refused as error:
            return Replied(number, None, error.refusal)
        except ConfigErrors as error:
            return Replied(number, None, error.refusal())
        except ConfigError as error:
            return Replied(number, None, Refusal("config", f"{error.field} = {shown(error.value)}", error.fix))
        except QuoracyError as error:
            return Replied(number, None, Refusal(error.code, str(error), "see the server's log"))

    async def once(self, identity: Identity, request: str, what: str, run: str, asked: Any) -> None:
        """A name that somebody gives a request stands for that one, on this server and the next. Raises Refused if it
        has stood for another."""
        short = serverwide.KEY_BYTES
        key = digest(encode([identity.id, request]))[:short]
        meant = digest(msgspec.msgpack.encode([what, run, asked], order="sorted"))[:short]
        own = await self.server.own_run()
        folded = own.host.run
        if folded is not None and own.host.quiet() and isinstance(folded.machine, serverwide.ServerWide):
            known = folded.machine.book.keys.get(key)
            if known is not None and known.request == meant:
                return
        answer = await self.operator.command(own, serverwide.KeyUsed(key, meant, what, run), "")
        if isinstance(answer, Refusal):
            raise Refused(Refusal(answer.code, f"request {request!r}: {answer.why}", answer.fix))

    async def where_weights(self, run: str) -> dict[str, str]:
        """Where the weights of a run are: what a participant is told with its assignment."""
        return await where_weights(self, run)

    def served(self, run: str, identity: Identity = NOBODY) -> ServedRun:
        """``identity``: who asks, and may be told which runs there are instead."""
        found = self.server.runs.get(run)
        if found is None:
            raise Refused(self._no_run(run, identity))
        return found


def joins_of(kind: Kind) -> list[type[Join]]:
    return [event for event in get_args(kind.events) if event.joins]


def _not_entered(member: str, incarnation: int, entered: int | None) -> Refusal:
    """A connection speaks for the incarnations that entered through it, and for no other of the same member."""
    if entered is None:
        why = f"{member} has not shown who it is here"
        return Refusal("bad_token", why, "say hello with its token, or join")
    why = f"{member} speaks here in incarnation {entered} and not in {incarnation}"
    return Refusal("bad_token", why, "speak for the incarnation whose token was shown, or say hello with the other's")


def _never() -> Refusal:
    return Refusal("bug", "a refusal without a reason", "report it")
