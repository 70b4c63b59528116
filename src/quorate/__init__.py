"""Quorate: the control plane for training on machines that come and go.

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
bench/     what `quorate bench` measures
cli/       the command line, one file per verb

A training script needs no more than is here: ``quorate.connect``, ``quorate.ranks``, ``quorate.participate``, all also
with ``_async``, ``quorate.join``, and what they raise. Names are looked up when they are first used, because the core,
the command line and the sidecar do not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quorate.version import __version__

if TYPE_CHECKING:
    from quorate.core.cluster.views import Passage
    from quorate.core.errors import ConfigError, QuorateError
    from quorate.sdk.aio import AsyncWorker
    from quorate.sdk.connecting import connect, connect_async
    from quorate.sdk.errors import (
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
    from quorate.sdk.iteration import Iteration
    from quorate.sdk.joining import join
    from quorate.sdk.member import MemberSummary
    from quorate.sdk.member_news import MemberNews
    from quorate.sdk.mirror import Order
    from quorate.sdk.news import News
    from quorate.sdk.participating import participate
    from quorate.sdk.participating_aio import participate_async
    from quorate.sdk.ranks import Ranks, ranks
    from quorate.sdk.ranks_aio import AsyncIteration, AsyncRanks, ranks_async
    from quorate.sdk.tasks import ParticipantNews, Summary, Task
    from quorate.sdk.worker import Worker

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
    "QuorateError": "core.errors",
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
    "QuorateError",
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
        return getattr(import_module(f"quorate.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
