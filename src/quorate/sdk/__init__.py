"""What a training script imports: ``quorate.connect`` and ``quorate.connect_async``. The map of the room:

    connecting connect and connect_async, and all that they can be told
    worker     for scripts that block, from any number of threads
    aio        for scripts that await
    base       what both share: progress, reports, orders, the life of the sidecar
    flows      what a worker does, written once, as generators
    mirror     what the training process knows of its session, without I/O
    drain      SIGTERM
    errors     what a script can be told
    settings   what ``connect`` was told, checked
    address    URLs
    asking     questions of people and tools

    ranks      quorate.ranks: a loop among equals that share nothing but a store
    ranks_aio  the same for scripts that await
    iteration  one attempt at one iteration
    rank_parts small parts of ranks
    news       what happens to a rank: for a callback and the log
    beater     the process that beats for a rank and watches the others
    lookout    that process, seen from the training

    spawn      starts the sidecar, the process that speaks to the coordinator while the training holds the GIL
    sidecar    that process: one loop over its sockets
    pipe       what the two processes say to each other
    page       the memory they share
    bridge     whose request was just answered, without I/O
    line       dialing, greeting, reconnecting, without I/O
    session    joining, numbering, repeating, waiting, without I/O; also driven by the simulator
    dial       names, connections and handshakes, in a thread
    vitals     what a heartbeat says about the training

Names are looked up when they are first used: the sidecar must start fast and needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quorate.sdk.session import Note, Session, Stage

if TYPE_CHECKING:
    from quorate.sdk.aio import AsyncWorker
    from quorate.sdk.connecting import connect, connect_async
    from quorate.sdk.worker import Worker

_LATER = {"connect": "connecting", "connect_async": "connecting", "Worker": "worker", "AsyncWorker": "aio"}

__all__ = ["AsyncWorker", "Note", "Session", "Stage", "Worker", "connect", "connect_async"]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"quorate.sdk.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
