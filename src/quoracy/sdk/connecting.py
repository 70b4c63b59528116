"""``connect`` and ``connect_async``: the two doors of the SDK. All that they can be told is documented here."""

from __future__ import annotations

import os

from quoracy.sdk.aio import Connecting
from quoracy.sdk.base import OnOrder
from quoracy.sdk.settings import Patience, about_worker, settings
from quoracy.sdk.worker import Worker


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
    patience = Patience(connect_timeout_s, give_up_s, drain_s)
    told = settings(
        url, run, member, token=token, ca=ca, key=key, about=about_worker(gpus, labels), patience=patience, wait=wait
    )
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
    patience = Patience(connect_timeout_s, give_up_s, drain_s)
    told = settings(
        url, run, member, token=token, ca=ca, key=key, about=about_worker(gpus, labels), patience=patience, wait=wait
    )
    return Connecting(told, auto=auto, handle_sigterm=handle_sigterm, on_order=on_order)
