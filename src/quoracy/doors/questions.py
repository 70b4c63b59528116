"""What people and tools may ask of a server, and what they may order: one table, the same through every door.

A question names what is asked, which run it is about, and arguments. It is answered with plain values or a refusal.
Orders may carry a ``request``, a name that the sender gives its wish: the same wish sent again gets the answer that was
given, also from the next server, because the journal remembers it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw

from quoracy.core.cluster.events import BarrierDropped, Command, RunRolledBack, WorkerOrdered
from quoracy.core.codec import builtins, digest, encode, malformed
from quoracy.core.errors import ConfigErrors, ObjectsError, Refusal, Refused
from quoracy.core.federated.code import code_refused
from quoracy.core.federated.events import RunPaused
from quoracy.core.journal import RunCreated, decode_entry
from quoracy.core.machine import Event
from quoracy.core.members import OPERATOR_MARK, Accepted, Cause
from quoracy.core.messages import Answered, Call, Moved, ToMember
from quoracy.core.run import Run
from quoracy.core.witnessed.config import Config as WitnessedConfig
from quoracy.doors import orders
from quoracy.doors.kinds import check_kind
from quoracy.doors.roles import Action
from quoracy.doors.tokens import Identity
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.hosts.server import ServedRun, Server, now_us
from quoracy.version import __version__

if TYPE_CHECKING:
    from quoracy.doors.service import Service

MAX_PAGE: Final = 1000
MAX_PAGE_BYTES: Final = 256 * 1024
"""Of entries as the journal has them, in one answer: spelled out they are a few times as long."""
HIDDEN: Final = ("nonce", "proof")
MAX_REASON: Final = 256
MAX_NAMED: Final = 5
"""Barriers that a refusal lists."""
_MASK: Final = 2**53 - 1

T = TypeVar("T")
Question = Callable[["Service", Identity, str, dict[str, Any]], Awaitable[Any]]


# -- looking -------------------------------------------------------------------------------------------------------


async def status(service: Service, _identity: Identity, _run: str, _arguments: dict[str, Any]) -> dict[str, Any]:
    server = service.server
    return {
        "version": __version__, "host": server.name, "address": server.address, "serving": server.serving,
        "draining": service.draining, "uptime_s": (now_us() - server.started_us) / 1e6, "runs": len(server.runs),
    }  # fmt: skip


async def runs(service: Service, identity: Identity, _run: str, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
    covered = [name for name in sorted(service.server.runs) if identity.covers(name)]
    return [_brief(await show(service, identity, name, {})) for name in covered]


async def show(service: Service, _identity: Identity, run: str, _arguments: dict[str, Any]) -> dict[str, Any]:
    served = service.served(run)
    explanation, overview = await served.explain()
    if overview is None and served.host.run is not None and served.host.quiet():
        overview = served.host.run.about()
    return {"run": run, "explanation": builtins(explanation), **builtins(overview or {})}


async def settings(service: Service, _identity: Identity, run: str, _arguments: dict[str, Any]) -> dict[str, Any]:
    """What the run was created with, defaults and all: a member needs some of it to do its work."""
    folded = service.served(run).host.run
    if folded is None:
        raise Refused(Refusal("not_serving", "the journal is being read", "ask again in a moment"))
    return {"run": run, "kind": folded.head.kind, "rules": folded.head.rules, "config": builtins(folded.head.config)}


async def workers(service: Service, identity: Identity, run: str, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Of one run, or of every run that the asker may see."""
    names = [run] if run else [name for name in sorted(service.server.runs) if identity.covers(name)]
    found: list[dict[str, Any]] = []
    for name in names:
        shown = await show(service, identity, name, {})
        found += [{"run": name, **worker} for worker in shown.get("workers", [])]
    return found


class Page(msgspec.Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100


async def journal(service: Service, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Entries in order, with their events as plain values. Raises EntriesGone where retention has deleted them."""
    page = wanted(arguments, Page, "journal")
    served, store = service.served(run), service.server.journal

    def read() -> tuple[list[bytes], int, int]:
        gone = [segment.last for segment in store.segments(run) if not segment.present]
        return store.read(run, page.after + 1, page.limit), store.last(run), max(gone, default=0) + 1

    payloads, last, first = await service.server.off_loop(read)
    payloads = _fitting(payloads)
    entries = [plain_entry(served, payload, page.after + 1 + at) for at, payload in enumerate(payloads)]
    seen = page.after + len(entries)
    return {"entries": entries, "next": seen if entries and seen < last else None, "first": first, "last": last}


def _fitting(payloads: list[bytes]) -> list[bytes]:
    """As many as make a page of a bearable size, and at least one."""
    size_bytes = 0
    for count, payload in enumerate(payloads):
        size_bytes += len(payload)
        if count and size_bytes > MAX_PAGE_BYTES:
            return payloads[:count]
    return payloads


def plain_entry(served: ServedRun, payload: bytes, n: int) -> dict[str, Any]:
    """An entry as people and scripts read it. Events carry their type and, where a command led to them, its cause."""
    entry = decode_entry(payload, served.name, n)
    run = served.host.run
    if run is None:
        raise Refused(Refusal("not_serving", "the journal is being read", "ask again in a moment"))
    recorded = served.server.kinds.decoder(run.kind).decode(entry.events)
    events = [
        {"type": event.__struct_config__.tag, "cause": builtins(cause), **_fields(event)} for cause, event in recorded
    ]
    return {
        "n": entry.n, "at_us": entry.at_us, "term": entry.term, "host": entry.host, "digest": digest(payload).hex(),
        "events": events,
    }  # fmt: skip


def _fields(event: Event) -> dict[str, Any]:
    """All but what would let a reader repeat somebody's join."""
    hidden = HIDDEN if event.joins else ()
    return {name: builtins(getattr(event, name)) for name in event.__struct_fields__ if name not in hidden}


# -- ordering ------------------------------------------------------------------------------------------------------

Request = Annotated[str, Meta(max_length=128)]


class Creation(msgspec.Struct, forbid_unknown_fields=True):
    kind: Annotated[str, Meta(min_length=1, max_length=32)] = "cluster"
    config: dict[str, Any] = {}
    label: Annotated[str, Meta(max_length=256)] = ""
    request: Request = ""


class Reasoned(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=256)] = ""
    request: Request = ""


class Order(msgspec.Struct, forbid_unknown_fields=True):
    command: Command
    member: Annotated[str, Meta(max_length=64)] = ""
    """Empty: everybody."""
    arguments: dict[str, Any] = {}
    request: Request = ""


async def create(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wish = wanted(arguments, Creation, "run")
    rules = service.server.kinds.newest(wish.kind).rules
    config = msgspec.to_builtins(service.defaults.get(wish.kind, {})) | wish.config
    created = RunCreated(run, wish.kind, rules, config, label=wish.label, request=wish.request)
    before = service.server.runs.get(run)
    if before is None or not _same_wish(before, created):
        await _check_samples(service, created)
        _check_code(service, created)
        await service.server.create(created)
        await _look_for_weights(service, identity, run)
    return await show(service, identity, run, {})


async def _check_samples(service: Service, created: RunCreated) -> None:
    """Raises ConfigError if the members of such a run would ask in vain for samples."""
    if created.kind == "witnessed":
        Run.create(service.server.kinds, created)  # whatever else is wrong is said first, all of it
        await service.samples.check(msgspec.convert(created.config, WitnessedConfig))


def _check_code(service: Service, created: RunCreated) -> None:
    """Raises ConfigErrors if the run names code that this server does not run."""
    if created.kind == "federated":
        Run.create(service.server.kinds, created)  # whatever else is wrong is said first, all of it
        if refused := code_refused(created.config, service.modules):
            raise ConfigErrors(refused)


async def _look_for_weights(service: Service, identity: Identity, run: str) -> None:
    """Weights to begin with that are not there may still be brought, through a door that needs the run. Until then it
    is paused and says so: participants would ask for them in vain until ``time_max_s``."""
    settled = service.server.runs[run].host.run
    initial = "" if settled is None or settled.kind.name != "federated" else settled.head.config.get("initial", "")
    if not initial or service.shelf is None:
        return
    key = Keys(prefix_of(run)).blob(initial)
    try:
        there = await service.shelf.do(lambda objects: objects.head(key) is not None)
        why = "" if there else f"the weights to begin with are not in the object store: bring {key}, and resume the run"
    except ObjectsError as error:
        why = f"the weights to begin with cannot be looked up: {error}"
    if why:
        await command(service, identity, run, RunPaused(why[:MAX_REASON]), "")


def _same_wish(before: ServedRun, created: RunCreated) -> bool:
    """The run was created by this very request, whose answer was lost."""
    run = before.host.run
    if run is None or not created.request or run.head.request != created.request:
        return False
    if (run.head.kind, run.head.config) == (created.kind, created.config):
        return True
    why = f"request {created.request!r} has created {created.run} with other settings"
    raise Refused(Refusal("contradiction", why, "send another wish under another name"))


async def stop(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wish = wanted(arguments, Reasoned, "stop")
    event = orders.ordered(service.served(run), orders.STOP, wish.reason)
    return await command(service, identity, run, event, wish.request)


async def roll_back(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wish = wanted(arguments, Reasoned, "roll-back")
    check_kind(service.served(run), "cluster")
    return await command(service, identity, run, RunRolledBack(wish.reason), wish.request)


class Dropped(msgspec.Struct, forbid_unknown_fields=True):
    barrier: Annotated[str, Meta(min_length=1, max_length=128)]
    reason: Annotated[str, Meta(max_length=256)] = ""
    request: Request = ""


async def drop_barrier(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The open generation of a barrier is aborted for all."""
    wish = wanted(arguments, Dropped, "drop-barrier")
    served = service.served(run)
    check_kind(served, "cluster")
    known = [barrier["name"] for barrier in (await show(service, identity, run, {})).get("barriers", [])]
    if wish.barrier not in known:
        there_are = ", ".join(known[:MAX_NAMED]) + (", ..." if len(known) > MAX_NAMED else "")
        why = f"run {run} has no barrier {wish.barrier} (there are: {there_are or 'none'})"
        raise Refused(Refusal("barrier_unknown", why, "correct the name"))
    reason = wish.reason or "an operator dropped it"
    return await command(service, identity, run, BarrierDropped(wish.barrier, reason), wish.request)


async def order(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wish = wanted(arguments, Order, "order")
    check_kind(service.served(run), "cluster")
    event = WorkerOrdered(wish.member, wish.command, wish.arguments)
    return await command(service, identity, run, event, wish.request)


async def command(service: Service, identity: Identity, run: str, event: Event, request: str) -> dict[str, Any]:
    served = service.served(run)
    orders.check_stopped(served)
    answer = await service.operator.command(served, event, f"{identity.id}/{request}" if request else "")
    if isinstance(answer, Refusal):
        raise Refused(answer)
    return {"entry": answer.entry, **(answer.result or {})}


class Operator:
    """The peer through which the service itself gives commands."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open: dict[Cause, tuple[str, asyncio.Future[Accepted | Refusal]]] = {}

    async def command(self, run: ServedRun, event: Event, request: str) -> Accepted | Refusal:
        """With a ``request`` the command's number comes from it, and the digest of the command stands beside."""
        body = encode(event)
        number = _number(request.encode()) if request else secrets.randbelow(_MASK)
        cause = Cause(f"{OPERATOR_MARK}service", _number(body) if request else 0, number)
        while cause in self._open:
            await asyncio.wait((self._open[cause][1],))
        done: asyncio.Future[Accepted | Refusal] = asyncio.get_running_loop().create_future()
        self._open[cause] = (run.name, done)
        try:
            self._server.receive(run, self, Call(run.name, cause, Raw(body)))
            return await done
        finally:
            del self._open[cause]

    def send(self, message: ToMember, _run: str = "") -> None:
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


def _number(content: bytes) -> int:
    return int.from_bytes(digest(content)[:8], "big") & _MASK


def wanted(arguments: dict[str, Any], shape: type[T], what: str) -> T:
    """The arguments as their struct. Raises Refused naming the field."""
    try:
        return msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise Refused(malformed(error, what)) from None


def _brief(shown: dict[str, Any]) -> dict[str, Any]:
    """A run among many: how many of each there are, not each of them."""
    return {name: len(value) if isinstance(value, list) else value for name, value in shown.items()}


QUESTIONS: Final[dict[str, tuple[Action, Question]]] = {
    "status": (Action.LOOK, status),
    "runs": (Action.LOOK, runs),
    "show": (Action.LOOK, show),
    "settings": (Action.LOOK, settings),
    "workers": (Action.LOOK, workers),
    "journal": (Action.LOOK, journal),
    "create": (Action.CREATE, create),
    "stop": (Action.OPERATE, stop),
    "order": (Action.OPERATE, order),
    "roll-back": (Action.OPERATE, roll_back),
    "drop-barrier": (Action.OPERATE, drop_barrier),
}
