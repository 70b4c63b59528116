"""What a training script imports: ``quoracy.connect``, ``ranks``, ``participate``, ``join``. The map of the room:

    connecting connect and connect_async, and all that they can be told
    worker     for scripts that block
    aio        for scripts that await
    base       what both share: progress, reports, orders
    flows      what a worker does, written once, as generators
    mirror     what the training process knows of its session, without I/O
    drain      SIGTERM
    errors     what a script can be told
    settings   what ``connect`` was told, checked
    address    URLs
    asking     questions of people and tools

    participating      quoracy.participate, and all that it can be told; participating_aio: awaited
    participant        one participant: fetches, trains, brings; participant_torch: with a module
    partaking_flows    what it waits for; partaking_mirror what it knows; partaking_news what it tells
    tasks              what a trainer is given, and what comes out at the end
    arrays             weights as numpy arrays, from files and into them, looked at
    depot              where weights are fetched from and brought to: a store, or weights_http; weights_cache between
    naming             a name that outlives the process
    crowd              many participants in one process, for experiments

    joining            quoracy.join, and all that it can be told
    member             one member of a witnessed run: conducts, while the caller's thread trains
    member_tools       what it works with, made from the run's settings; member_folder: what it keeps on disk
    member_jobs        what the trainer has to do, and whether it is still wanted; member_work: doing it
    member_taking      results from others; member_blobs, member_models, member_newcomer: results and models
    member_flows       what it waits for; witnessing_mirror what it knows; member_news what it tells
    exchange           blobs between members: serving, links, fetching, relay
    samples_http       samples from the coordinator's door; http_line: requests to it
    finding            the run that is meant by one who names none

    ranks      quoracy.ranks: a loop among equals that share nothing but a store
    ranks_aio  the same for scripts that await
    iteration  one attempt at one iteration
    rank_parts small parts of ranks
    news       what happens to a rank: for a callback and the log
    beater     the process that beats for a rank and watches the others
    lookout    that process, seen from the training

    companion  what a training process holds, whatever the kind: page, bell, sidecar; waiting: for scripts that block
    flowing    waiting for news, written once; reflection: what is known of any membership
    spawn      starts the sidecar, the process that speaks to the coordinator while the training holds the GIL
    sidecar    that process: one loop over its sockets
    pipe       what the two processes say to each other
    page       the memory they share
    crossing   whose request was just answered, without I/O; bridge, partaking_bridge, witnessing_bridge: by kind
    line       dialing, greeting, reconnecting, without I/O
    membership joining, numbering, repeating, beating, without I/O; also driven by the simulator
    session    of a worker: barriers and orders; partaking: of a participant, rounds; witnessing: of a member
    dial       names, connections and handshakes, in a thread
    vitals     what a heartbeat says about the training

Names are looked up when they are first used: the sidecar must start fast and needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quoracy.sdk.session import Note, Session, Stage

if TYPE_CHECKING:
    from quoracy.sdk.aio import AsyncWorker
    from quoracy.sdk.connecting import connect, connect_async
    from quoracy.sdk.worker import Worker

_LATER = {"connect": "connecting", "connect_async": "connecting", "Worker": "worker", "AsyncWorker": "aio"}

__all__ = ["AsyncWorker", "Note", "Session", "Stage", "Worker", "connect", "connect_async"]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"quoracy.sdk.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
