"""What operators may order of a run, in the words of its kind: each kind has its own events for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quoracy.core.cluster.events import RunStopped as ClusterStopped
from quoracy.core.errors import Refusal, Refused
from quoracy.core.federated import events as federated
from quoracy.core.machine import Event
from quoracy.core.witnessed import events as witnessed
from quoracy.doors.kinds import check_kind
from quoracy.hosts.server import ServedRun

Order = Callable[..., Event]

STOP: Final[dict[str, Order]] = {
    "cluster": ClusterStopped,
    "federated": federated.RunStopped,
    "witnessed": witnessed.RunStopped,
}
PAUSE: Final[dict[str, Order]] = {"federated": federated.RunPaused, "witnessed": witnessed.RunPaused}
RESUME: Final[dict[str, Order]] = {"federated": federated.RunResumed, "witnessed": witnessed.RunResumed}
READMIT: Final[dict[str, Order]] = {
    "federated": federated.ParticipantReadmitted,
    "witnessed": witnessed.MemberReadmitted,
}


def ordered(served: ServedRun, orders: dict[str, Order], *said: Any) -> Event:
    """The event that gives this order to this run. Raises Refused if its kind knows no such order."""
    return orders[kind_of(served, *orders)](*said)


def kind_of(served: ServedRun, *kinds: str) -> str:
    """The kind of a run that has been read. Raises Refused if it is none of these."""
    check_stopped(served)
    run = served.host.run
    if run is None:
        raise Refused(Refusal("not_serving", "the journal is being read", "ask again in a moment"))
    check_kind(served, *kinds)
    return run.kind.name


def check_stopped(served: ServedRun) -> None:
    """Raises Refused if this host has given the run up: nobody here carries out what is ordered."""
    if (stopped := served.host.stopped) is not None:
        why = f"this host has stopped serving the run: {stopped.why}"
        raise Refused(Refusal(stopped.code, why, "see the server's log, mend the cause, and start it again"))
