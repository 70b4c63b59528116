"""``connect`` and ``connect_async``: the two doors of the SDK. All that they can be told is documented here."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from quoracy.core.cluster.events import WorkerRegistered
from quoracy.sdk.client.settings import Settings, Timeouts, settings
from quoracy.sdk.cluster.worker import OnOrder, Worker

if TYPE_CHECKING:
    from quoracy.sdk.cluster.aio import Connecting


def connect(
    url: str | None = None,
    run: str | None = None,
    member: str | None = None,
    *,
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    gpus: int = 0,
    labels: dict[str, str] | None = None,
    auto: bool = True,
    handle_sigterm: bool | None = None,
    on_order: OnOrder | None = None,
    connect_timeout_s: float = 30.0,
    give_up_s: float | None = 600.0,
    drain_s: float = 20.0,
    wait: bool = False,
) -> Worker:
    """Join a run as one of its workers. Returns when the coordinator counts this process in.

    ``url``: ``tcp://host:port``, or ``tcps://`` for TLS; several hosts separated by commas. Or QUORACY_URL.
    ``run``: the name of the run. Or QUORACY_RUN.
    ``member``: who this is, across restarts. Or QUORACY_MEMBER; else host and process number, new each time. Two
    processes under one id: the newer one wins, the older one gets ``Superseded``.
    ``token``: a join token, where the coordinator asks for one. Or QUORACY_TOKEN.
    ``ca``: the file of the authority to believe, with tcps://; without it those that this machine trusts.
    ``key``: the file of the key that this id is bound to; made if it is not there. Or QUORACY_KEY; where a token is
    used, else one key for all of this user's workers, under ~/.config/quoracy.
    ``gpus``, ``labels``: shown to people, and what work is given out by.
    ``auto``: report ready, and recovered after a setback, without being asked. With False the script calls ``ready``
    and ``recovered`` when that is true: barriers do not wait for it before.
    ``handle_sigterm``: drain when SIGTERM comes (see ``Worker.draining``). None: if this is the main thread and the
    program has no handler of its own.
    ``on_order``: called with each order of an operator, inside the next call of this worker and in its thread.
    ``connect_timeout_s``: how long to look for a coordinator now. ``give_up_s``: how long to wait for one that goes
    away later; None: for ever. ``drain_s``: how long after SIGTERM to wait for the barrier under way.
    ``wait``: if there is no such run, wait until somebody creates it. Without it that raises, with the names there are.
    """
    timeouts = Timeouts(connect_timeout_s, give_up_s, drain_s)
    told = _settings(url, run, member, token, ca, key, gpus, labels, timeouts, wait)
    return Worker(told, auto=auto, handle_sigterm=handle_sigterm, on_order=on_order)


def connect_async(
    url: str | None = None,
    run: str | None = None,
    member: str | None = None,
    *,
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    gpus: int = 0,
    labels: dict[str, str] | None = None,
    auto: bool = True,
    handle_sigterm: bool | None = None,
    on_order: OnOrder | None = None,
    connect_timeout_s: float = 30.0,
    give_up_s: float | None = 600.0,
    drain_s: float = 20.0,
    wait: bool = False,
) -> Connecting:
    """``connect`` for asyncio: ``async with connect_async(...) as worker``, or ``await connect_async(...)``."""
    from quoracy.sdk.cluster.aio import Connecting  # asyncio is not needed by scripts that block

    timeouts = Timeouts(connect_timeout_s, give_up_s, drain_s)
    told = _settings(url, run, member, token, ca, key, gpus, labels, timeouts, wait)
    return Connecting(told, auto=auto, handle_sigterm=handle_sigterm, on_order=on_order)


def _settings(
    url: str | None,
    run: str | None,
    member: str | None,
    token: str | None,
    ca: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
    gpus: int,
    labels: dict[str, str] | None,
    timeouts: Timeouts,
    wait: bool,
) -> Settings:
    about = {"address": socket.gethostname()[:255], "gpus": gpus, "labels": labels or {}}
    return settings(
        url, run, member, token=token, ca=ca, key=key, about=about, timeouts=timeouts, joins=WorkerRegistered, wait=wait
    )
