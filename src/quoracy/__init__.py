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

A training script needs no more than is here: ``quoracy.connect``, ``quoracy.ranks``, ``quoracy.participate``, all also
with ``_async``, ``quoracy.join``, and what they raise. Names are looked up when they are first used, because the core,
the command line and the sidecar do not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quoracy.version import __version__

if TYPE_CHECKING:
    from quoracy.core.cluster.views import Passage
    from quoracy.core.errors import ConfigError, QuoracyError
    from quoracy.sdk.aio import AsyncWorker
    from quoracy.sdk.connecting import connect, connect_async
    from quoracy.sdk.errors import (
        AccessDenied,
        BarrierAborted,
        BarrierError,
        BarrierTimeout,
        Closed,
        CutOff,
        Draining,
        Ejected,
        Ended,
        Forked,
        GivenUp,
        Quarantined,
        Rejected,
        RolledBack,
        RunClosed,
        Setback,
        SidecarFailed,
        Stopped,
        Superseded,
        UnfitUpdate,
        Unreachable,
        WeightsFailed,
        WorkerError,
    )
    from quoracy.sdk.iteration import Iteration
    from quoracy.sdk.joining import join
    from quoracy.sdk.member import MemberSummary
    from quoracy.sdk.member_news import MemberNews
    from quoracy.sdk.mirror import Order
    from quoracy.sdk.news import News
    from quoracy.sdk.participating import participate
    from quoracy.sdk.participating_aio import participate_async
    from quoracy.sdk.ranks import Ranks, ranks
    from quoracy.sdk.ranks_aio import AsyncIteration, AsyncRanks, ranks_async
    from quoracy.sdk.tasks import ParticipantNews, Summary, Task
    from quoracy.sdk.worker import Worker

_ERRORS = (
    "AccessDenied", "BarrierAborted", "BarrierError", "BarrierTimeout", "Closed", "CutOff", "Draining", "Ejected",
    "Ended", "Forked", "GivenUp", "Quarantined", "Rejected", "RolledBack", "RunClosed", "Setback", "SidecarFailed",
    "Stopped", "Superseded", "UnfitUpdate", "Unreachable", "WeightsFailed", "WorkerError",
)  # fmt: skip
_LATER = dict.fromkeys(_ERRORS, "sdk.errors") | {
    "AsyncIteration": "sdk.ranks_aio",
    "AsyncRanks": "sdk.ranks_aio",
    "AsyncWorker": "sdk.aio",
    "ConfigError": "core.errors",
    "Iteration": "sdk.iteration",
    "MemberNews": "sdk.member_news",
    "MemberSummary": "sdk.member",
    "News": "sdk.news",
    "Order": "sdk.mirror",
    "ParticipantNews": "sdk.tasks",
    "Passage": "core.cluster.views",
    "QuoracyError": "core.errors",
    "Ranks": "sdk.ranks",
    "Summary": "sdk.tasks",
    "Task": "sdk.tasks",
    "Worker": "sdk.worker",
    "connect": "sdk.connecting",
    "connect_async": "sdk.connecting",
    "join": "sdk.joining",
    "participate": "sdk.participating",
    "participate_async": "sdk.participating_aio",
    "ranks": "sdk.ranks",
    "ranks_async": "sdk.ranks_aio",
}

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
    "SidecarFailed",
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
    "participate",
    "participate_async",
    "ranks",
    "ranks_async",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"quoracy.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
