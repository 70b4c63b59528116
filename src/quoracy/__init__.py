"""Quoracy: the control plane for training on machines that come and go.

core/      the machines, the fold and the host's logic: pure
ports/     what the outside must provide
stores/    journals, pulses and mailboxes: in memory, in SQLite, in etcd, on a TCPStore
objects/   weights and other large values: in a folder, in S3
learn/     tensors in files, aggregation, small models to train
wire/      what goes over a network: frames and messages
trust/     keys, certificates, and the files that hold them
hosts/     shells over the host's logic
doors/     how the world gets in
sdk/       what a training script imports
sim/       the world in a seeded event heap, with faults and checkers
testing/   the suites every store must pass
launch/    processes on this machine, for demonstrations and measurements
bench/     what `quoracy bench` measures
cli/       the command line, one file per verb

A training script needs no more than is here: ``quoracy.connect``, ``quoracy.ranks``, ``quoracy.participate``,
``quoracy.join``, all also with ``_async``, and what they raise. Names are looked up when they are first used, because
the core, the command line and the heartbeat process do not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quoracy.version import __version__

if TYPE_CHECKING:
    from quoracy.core.cluster.views import Passage
    from quoracy.core.errors import ConfigError, QuoracyError
    from quoracy.sdk.client.errors import (
        AccessDenied,
        Closed,
        CutOff,
        Draining,
        Ejected,
        Ended,
        Forked,
        HeartbeatProcessFailed,
        Quarantined,
        Rejected,
        RunClosed,
        Stopped,
        Superseded,
        UnfitUpdate,
        Unreachable,
        WeightsFailed,
        WorkerError,
    )
    from quoracy.sdk.cluster.aio import AsyncWorker
    from quoracy.sdk.cluster.api import connect, connect_async
    from quoracy.sdk.cluster.client import Order
    from quoracy.sdk.cluster.errors import (
        BarrierAborted,
        BarrierError,
        BarrierTimeout,
        GivenUp,
        RolledBack,
        Setback,
    )
    from quoracy.sdk.cluster.worker import Worker
    from quoracy.sdk.federated.aio import participate_async
    from quoracy.sdk.federated.api import participate
    from quoracy.sdk.federated.task import ParticipantNews, Summary, Task
    from quoracy.sdk.ranks.aio import AsyncIteration, AsyncRanks, ranks_async
    from quoracy.sdk.ranks.api import Ranks, ranks
    from quoracy.sdk.ranks.events import News
    from quoracy.sdk.ranks.iteration import Iteration
    from quoracy.sdk.witnessed.aio import join_async
    from quoracy.sdk.witnessed.api import join
    from quoracy.sdk.witnessed.events import MemberNews
    from quoracy.sdk.witnessed.member import MemberSummary

_ERRORS = (
    "AccessDenied", "Closed", "CutOff", "Draining", "Ejected", "Ended", "Forked", "HeartbeatProcessFailed",
    "Quarantined", "Rejected", "RunClosed", "Stopped", "Superseded", "UnfitUpdate", "Unreachable", "WeightsFailed",
    "WorkerError",
)  # fmt: skip
_BARRIER_ERRORS = ("BarrierAborted", "BarrierError", "BarrierTimeout", "GivenUp", "RolledBack", "Setback")
_LATER = (
    dict.fromkeys(_ERRORS, "sdk.client.errors")
    | dict.fromkeys(_BARRIER_ERRORS, "sdk.cluster.errors")
    | {
        "AsyncIteration": "sdk.ranks.aio",
        "AsyncRanks": "sdk.ranks.aio",
        "AsyncWorker": "sdk.cluster.aio",
        "ConfigError": "core.errors",
        "Iteration": "sdk.ranks.iteration",
        "MemberNews": "sdk.witnessed.events",
        "MemberSummary": "sdk.witnessed.member",
        "News": "sdk.ranks.events",
        "Order": "sdk.cluster.client",
        "ParticipantNews": "sdk.federated.task",
        "Passage": "core.cluster.views",
        "QuoracyError": "core.errors",
        "Ranks": "sdk.ranks.api",
        "Summary": "sdk.federated.task",
        "Task": "sdk.federated.task",
        "Worker": "sdk.cluster.worker",
        "connect": "sdk.cluster.api",
        "connect_async": "sdk.cluster.api",
        "join": "sdk.witnessed.api",
        "join_async": "sdk.witnessed.aio",
        "participate": "sdk.federated.api",
        "participate_async": "sdk.federated.aio",
        "ranks": "sdk.ranks.api",
        "ranks_async": "sdk.ranks.aio",
    }
)

__all__ = [
    "AccessDenied",
    "AsyncIteration",
    "AsyncRanks",
    "AsyncWorker",
    "BarrierAborted",
    "BarrierError",
    "BarrierTimeout",
    "Closed",
    "ConfigError",
    "CutOff",
    "Draining",
    "Ejected",
    "Ended",
    "Forked",
    "GivenUp",
    "HeartbeatProcessFailed",
    "Iteration",
    "MemberNews",
    "MemberSummary",
    "News",
    "Order",
    "ParticipantNews",
    "Passage",
    "Quarantined",
    "QuoracyError",
    "Ranks",
    "Rejected",
    "RolledBack",
    "RunClosed",
    "Setback",
    "Stopped",
    "Summary",
    "Superseded",
    "Task",
    "UnfitUpdate",
    "Unreachable",
    "WeightsFailed",
    "Worker",
    "WorkerError",
    "__version__",
    "connect",
    "connect_async",
    "join",
    "join_async",
    "participate",
    "participate_async",
    "ranks",
    "ranks_async",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"quoracy.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
