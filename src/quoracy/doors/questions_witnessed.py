"""What may be asked about a witnessed run alone: how its epochs went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from quoracy.core.witnessed.machine import Witnessed
from quoracy.core.witnessed.overview import epoch_shown
from quoracy.core.witnessed.state import Course
from quoracy.doors.orders import kind_of
from quoracy.doors.questions import wanted
from quoracy.doors.roles import Action
from quoracy.doors.tokens import Identity
from quoracy.hosts.server import ServedRun

if TYPE_CHECKING:
    from quoracy.doors.questions import Question
    from quoracy.doors.service import Service

MAX_EPOCHS: Final = 1000


class Epochs(msgspec.Struct, forbid_unknown_fields=True):
    after: Annotated[int, Meta(ge=-1, le=2**53)] = -1
    """The number of the last epoch that is known."""
    limit: Annotated[int, Meta(ge=1, le=MAX_EPOCHS)] = 100


def course_of(served: ServedRun) -> Course:
    """Raises Refused if the run is of another kind."""
    kind_of(served, "witnessed")
    run: Any = served.host.run
    machine: Witnessed = run.machine
    return machine.course


async def epochs(service: Service, _identity: Identity, run: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every epoch that is over and still in the state, oldest first, in pages."""
    page = wanted(arguments, Epochs, "epochs")
    course = course_of(service.served(run))
    later = [past for past in course.epochs if past.number > page.after]
    shown = later[: page.limit]
    following = shown[-1].number if len(later) > len(shown) else None
    return {"run": run, "epochs": [epoch_shown(past) for past in shown], "next": following, "of": course.epoch}


WITNESSED_QUESTIONS: Final[dict[str, tuple[Action, Question]]] = {"epochs": (Action.LOOK, epochs)}
