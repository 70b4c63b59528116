"""The service: what can be asked of a server, whichever door the question came through.

A *guest* is one connection, or one call, at some door: who it is, and which members speak through it. The service asks
whether the guest may, and hands the message to the run's host; answers come back through the guest's ``send``.
Questions of people and tools (``ask``) are answered with plain values or a refusal.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from quorate.core.cluster.events import Command, RunRolledBack, RunStopped, WorkerOrdered
from quorate.core.codec import builtins, encode, malformed
from quorate.core.errors import ConfigError, QuorateError, Refusal, Refused
from quorate.core.journal import RunCreated
from quorate.core.machine import Event
from quorate.core.members import OPERATOR_MARK, Accepted, Cause
from quorate.core.messages import Answered, Call, Declined, Hello, Moved, Sign, ToMember
from quorate.doors.auth import Action, Authority, Identity, check_proof
from quorate.hosts.server import ServedRun, Server, now_us
from quorate.version import __version__
from quorate.wire.messages import Granted, Replied, signed_by_joiner


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
        self._operator = _Operator(server)

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
        refusal = run if isinstance(run, Refusal) else self._check_call(guest, call, run)
        if isinstance(run, Refusal) or refusal is not None:
            self._say(guest, Answered(call.cause, refusal or _never()))
            return
        self.server.receive(run, guest, call)

    def sign(self, guest: Guest, sign: Sign) -> None:
        run = self.server.runs.get(sign.run)
        if run is None or (self.tokens and (sign.run, sign.member) not in guest.entered):
            refusal = self._no_run(sign.run) if run is None else _not_entered(sign.member)
            self._say(guest, Declined(sign.member, 0, "signal", refusal))
            return
        self.server.receive(run, guest, sign)

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

    def _check_call(self, guest: Guest, call: Call, run: ServedRun) -> Refusal | None:
        cause = call.cause
        if cause.member.startswith(OPERATOR_MARK):
            if guest.identity.role.allows(Action.OPERATE):
                return None
            return Refusal("forbidden", f"{guest.identity.role.value}s give no orders", "use an operator's token")
        if self.draining and cause.seq == 0:
            return Refusal("draining", "this server is about to stop", "join again in a moment")
        if cause.seq == 0:
            return self._check_join(guest, call, run)
        if self.tokens and guest.entered.get((call.run, cause.member)) != cause.incarnation:
            return _not_entered(cause.member)
        return None

    def _check_join(self, guest: Guest, call: Call, run: ServedRun) -> Refusal | None:
        """The joiner holds the key it names. Whether that key is the one the id is bound to, the fold decides."""
        kind = None if run.host.run is None else run.host.run.kind
        if kind is None:
            return None
        try:
            join: Any = msgspec.msgpack.decode(call.event, type=kind.events)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if not getattr(join, "joins", False):
            return None
        if not join.key:
            if not self.tokens:
                return None
            return Refusal("bad_token", "joins must name a key here", "join with a key; the SDK makes one by itself")
        signed = signed_by_joiner(guest.challenge, call.run, join.member, join.supersedes, join.nonce)
        if check_proof(join.key, signed, call.proof):
            return None
        return Refusal("bad_token", "the signature does not show that the joiner holds its key", "sign the challenge")

    def _say(self, guest: Guest, message: ToMember) -> None:
        self.server.send(guest, message)

    # -- people and tools -------------------------------------------------------------------------------------------

    async def ask(self, identity: Identity, number: int, what: str, run: str, arguments: dict[str, Any]) -> Replied:
        known = _QUESTIONS.get(what)
        try:
            if known is None:
                raise Refused(Refusal("malformed", f"{what!r} cannot be asked", _can_be_asked()))
            action, answer = known
            if not identity.role.allows(action) or (run and not identity.covers(run)):
                why = f"a token for {identity.role.value}s of {identity.run!r} does not allow {what} of {run!r}"
                raise Refused(Refusal("forbidden", why, "use a token with another role"))
            return Replied(number, await answer(self, identity, run, arguments))
        except Refused as error:
            return Replied(number, None, error.refusal)
        except ConfigError as error:
            return Replied(number, None, Refusal("config", f"{error.field} = {error.value!r}", error.fix))
        except QuorateError as error:
            return Replied(number, None, Refusal(error.code, str(error), "see the server's log"))

    def served(self, run: str) -> ServedRun:
        found = self.server.runs.get(run)
        if found is None:
            raise Refused(self._no_run(run))
        return found

    async def _status(self, _identity: Identity, _run: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        server = self.server
        return {
            "version": __version__, "host": server.name, "address": server.address, "serving": server.serving,
            "draining": self.draining, "uptime_s": (now_us() - server.started_us) / 1e6, "runs": len(server.runs),
        }  # fmt: skip

    async def _runs(self, identity: Identity, _run: str, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        covered = [name for name in sorted(self.server.runs) if identity.covers(name)]
        return [_brief(await self._show(identity, name, {})) for name in covered]

    async def _show(self, _identity: Identity, run: str, _arguments: dict[str, Any]) -> dict[str, Any]:
        served = self.served(run)
        explanation, overview = await served.explain()
        if overview is None and served.host.run is not None and served.host.quiet():
            overview = served.host.run.about()
        return {"run": run, "explanation": builtins(explanation), **builtins(overview or {})}

    async def _create(self, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
        kind = str(arguments.get("kind", "cluster"))
        config = arguments.get("config", {})
        if not isinstance(config, dict):
            raise ConfigError("config", config, "a table of settings")
        rules = self.server.kinds.newest(kind).rules
        config = msgspec.to_builtins(self.defaults.get(kind, {})) | config
        await self.server.create(RunCreated(run, kind, rules, config, label=str(arguments.get("label", ""))[:256]))
        return await self._show(_identity, run, {})

    async def _stop(self, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._command(run, RunStopped(str(arguments.get("reason", ""))[:256]))

    async def _roll_back(self, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._command(run, RunRolledBack(str(arguments.get("reason", ""))[:256]))

    async def _order(self, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            order = msgspec.convert(arguments, _Order)
        except msgspec.ValidationError as error:
            raise Refused(malformed(error, "order")) from None
        return await self._command(run, WorkerOrdered(order.member, order.command, order.arguments))

    async def _command(self, run: str, event: Event) -> dict[str, Any]:
        served = self.served(run)
        if (stopped := served.host.stopped) is not None:
            why = f"this host has stopped serving the run: {stopped.why}"
            raise Refused(Refusal(stopped.code, why, "see the server's log, mend the cause, and start it again"))
        answer = await self._operator.command(served, event)
        if isinstance(answer, Refusal):
            raise Refused(answer)
        return {"entry": answer.entry, **(answer.result or {})}


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    command: Command
    member: str = ""
    arguments: dict[str, Any] = {}


class _Operator:
    """The peer through which the service itself gives commands."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open: dict[Cause, tuple[str, asyncio.Future[Accepted | Refusal]]] = {}

    async def command(self, run: ServedRun, event: Event) -> Accepted | Refusal:
        cause = Cause(f"{OPERATOR_MARK}service", 0, secrets.randbelow(2**53))
        done: asyncio.Future[Accepted | Refusal] = asyncio.get_running_loop().create_future()
        self._open[cause] = (run.name, done)
        try:
            self._server.receive(run, self, Call(run.name, cause, Raw(encode(event))))
            return await done
        finally:
            del self._open[cause]

    def send(self, message: ToMember) -> None:
        if isinstance(message, Answered):
            _, done = self._open.get(message.cause, ("", None))
            if done is not None and not done.done():
                done.set_result(message.answer)
        elif isinstance(message, Moved):
            refusal = Refusal("not_serving", f"{message.address or 'another host'} serves the run", "ask there")
            for run, done in self._open.values():
                if run == message.run and not done.done():
                    done.set_result(refusal)

    def flush(self) -> None:
        pass


def _brief(shown: dict[str, Any]) -> dict[str, Any]:
    """A run among many: how many of each there are, not each of them."""
    return {name: len(value) if isinstance(value, list) else value for name, value in shown.items()}


def _not_entered(member: str) -> Refusal:
    why = f"{member or 'somebody'} has not shown who it is here"
    return Refusal("bad_token", why, "say hello with its token, or join")


def _never() -> Refusal:
    return Refusal("bug", "a refusal without a reason", "report it")


Question = Callable[[Service, Identity, str, dict[str, Any]], Awaitable[Any]]
_QUESTIONS: dict[str, tuple[Action, Question]] = {
    "status": (Action.LOOK, Service._status),
    "runs": (Action.LOOK, Service._runs),
    "show": (Action.LOOK, Service._show),
    "create": (Action.CREATE, Service._create),
    "stop": (Action.OPERATE, Service._stop),
    "order": (Action.OPERATE, Service._order),
    "roll-back": (Action.OPERATE, Service._roll_back),
}


def _can_be_asked() -> str:
    return f"ask one of: {', '.join(sorted(_QUESTIONS))}"
