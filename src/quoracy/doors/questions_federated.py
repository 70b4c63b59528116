"""What may be asked about a federated run, and ordered of it: where its weights are, how its rounds went, a pause. All
but the rounds may be asked of a witnessed run as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from quoracy.core.errors import Refusal, Refused
from quoracy.core.federated.explain import over_shown
from quoracy.core.federated.machine import Federated
from quoracy.core.federated.reports import report_shown
from quoracy.core.federated.state import TrainingReport
from quoracy.core.members import MemberId
from quoracy.doors import orders
from quoracy.doors.kinds import check_kind
from quoracy.doors.questions import Reasoned, Request, command, wanted
from quoracy.doors.roles import Action
from quoracy.doors.tokens import Identity
from quoracy.hosts.keys import prefix_of
from quoracy.hosts.server import ServedRun

if TYPE_CHECKING:
    from quoracy.doors.questions import Question
    from quoracy.doors.service import Service

MAX_ROUNDS: Final = 1000
PAGE_BYTES: Final = 256 * 1024
"""Of reports in one answer; one report is always in it."""
NAMES_SHOWN: Final = 5


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Rounds(msgspec.Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=-1, le=2**53)] = -1
    """The number of the last round that is known."""
    limit: Annotated[int, Meta(ge=1, le=MAX_ROUNDS)] = 100


class Reports(msgspec.Struct, forbid_unknown_fields=True):
    member: MemberId
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    """The ticket of the last training that is known."""
    limit: Annotated[int, Meta(ge=1, le=MAX_ROUNDS)] = 100


class Readmission(msgspec.Struct, forbid_unknown_fields=True):
    member: MemberId
    request: Request = ""


class Resuming(msgspec.Struct, forbid_unknown_fields=True):
    request: Request = ""


def federated(served: ServedRun) -> Federated:
    """The machine of the run. Raises Refused if it is of another kind."""
    run = served.host.run
    if run is None:
        raise Refused(Refusal("not_serving", "the journal is being read", "ask again in a moment"))
    check_kind(served, "federated")
    machine: Federated = run.machine  # type: ignore[assignment]
    return machine


async def weights(service: Service, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Where they are: in a store that a participant may use itself if it can, or behind the HTTP door."""
    wanted(arguments, Nothing, "weights")
    orders.kind_of(service.served(run), "federated", "witnessed")
    return await where_weights(service, run)


async def where_weights(service: Service, run: str) -> dict[str, str]:
    store = ""
    if service.shelf is not None:
        await service.shelf.do(lambda _: None)  # a folder is made when it is needed, and a participant looks for it
        store = service.shelf.url
    return {"store": store, "http": service.http, "prefix": prefix_of(run)}


async def history(service: Service, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every round that is over, oldest first, in pages."""
    page = wanted(arguments, Rounds, "history")
    task = federated(service.served(run)).task
    later = [over for over in task.history if over.number > page.after]
    shown = later[: page.limit]
    following = shown[-1].number if len(later) > len(shown) else None
    return {"run": run, "rounds": [over_shown(over) for over in shown], "next": following, "of": len(task.history)}


async def reports(service: Service, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What one participant reported of its trainings, oldest first, in pages."""
    page = wanted(arguments, Reports, "reports")
    task = federated(service.served(run)).task
    if page.member not in task.participants:
        few = ", ".join(sorted(task.participants)[:NAMES_SHOWN]) or "nobody"
        why = f"nobody of the id {page.member} has joined {run} (there are: {few})"
        raise Refused(Refusal("unknown_member", why, "correct the id"))
    mine = [report for report in task.reports if report.member == page.member]
    later = [report for report in mine if report.ticket > page.after]
    shown: list[TrainingReport] = []
    size = 0
    for report in later[: page.limit]:
        size += report.kept_bytes
        if shown and size > PAGE_BYTES:
            break
        shown.append(report)
    following = shown[-1].ticket if len(later) > len(shown) else None
    return {
        "run": run, "participant": page.member, "rounds": [report_shown(report) for report in shown],
        "next": following, "of": len(mine), "given_up": task.reports_gone,
    }  # fmt: skip


async def pause(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wish = wanted(arguments, Reasoned, "pause")
    event = orders.ordered(service.served(run), orders.PAUSE, wish.reason)
    return await command(service, identity, run, event, wish.request)


async def resume(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wish = wanted(arguments, Resuming, "resume")
    event = orders.ordered(service.served(run), orders.RESUME)
    return await command(service, identity, run, event, wish.request)


async def readmit(service: Service, identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wish = wanted(arguments, Readmission, "readmit")
    event = orders.ordered(service.served(run), orders.READMIT, wish.member)
    return await command(service, identity, run, event, wish.request)


FEDERATED_QUESTIONS: Final[dict[str, tuple[Action, Question]]] = {
    "weights": (Action.LOOK, weights),
    "history": (Action.LOOK, history),
    "reports": (Action.LOOK, reports),
    "pause": (Action.OPERATE, pause),
    "resume": (Action.OPERATE, resume),
    "readmit": (Action.OPERATE, readmit),
}
