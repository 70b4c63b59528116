"""``participate``: the door of the SDK for federated runs. All that it can be told is documented here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quoracy.core.errors import ConfigError
from quoracy.core.federated.events import ParticipantJoined
from quoracy.ports.objects import key_part
from quoracy.sdk.client.ask import Asker
from quoracy.sdk.client.names import lasting_name
from quoracy.sdk.client.only_run import only_run
from quoracy.sdk.client.settings import URL, Settings, Timeouts, settings
from quoracy.sdk.federated.participant import Means, Participant, Trainer
from quoracy.sdk.federated.task import OnNews, Summary
from quoracy.sdk.federated.weights import Depot, Life, Way
from quoracy.sdk.federated.weights_cache import Cache, default_folder

Initial = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


def participate(
    url: str | None = None,
    train: Trainer | Callable[..., Any] | None = None,
    run: str | None = None,
    *,
    participant: str | None = None,
    initial: Initial | bool | None = None,
    model: Any = None,
    dataset: Any = None,
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    labels: dict[str, str] | None = None,
    store: str = "",
    weights: Way = "auto",
    cache: str | os.PathLike[str] | None = None,
    check: bool = True,
    on_news: OnNews | None = None,
    handle_sigterm: bool | None = None,
    give_up_s: float | None = None,
    drain_s: float = 20.0,
    wait: bool = False,
) -> Summary:
    """Take part in a federated run until it is over. Returns how it went.

    ``url``: the coordinator, as ``tcp://HOST:PORT`` or ``tcps://``; or QUORACY_URL. ``run``: or QUORACY_RUN; without
    either, the only federated run that the coordinator has.
    ``train``: called with the weights and a ``Task`` whenever it is this participant's turn, in this thread; returns
    ``(weights, samples, metrics)``. Weights are numpy arrays by name, and may be changed in place.
    ``participant``: the id, under which a place in a round is kept across restarts; or QUORACY_MEMBER. Else one made
    from machine, folder and command line: the same when this is started again.
    ``initial``: weights to begin the run with, or a function that gives some. One participant is asked, once.
    ``model``: a torch module. Then ``train`` is called with the module, into which the weights were loaded, and the
    task, and returns ``(samples, metrics)``; the module also gives the initial weights, unless ``initial=False``.
    ``dataset``: handed on as ``task.dataset``.
    ``token``, ``ca``, ``key``: as for ``connect``. ``labels``: shown to people.
    ``store``: an object store for the weights, instead of the one that the coordinator names. ``weights``: "store" or
    "http" to insist on one way; "auto" takes the store if this machine can use it, else the coordinator's HTTP door.
    ``cache``: a folder for models that were fetched; participants on one machine may share it, and do by default.
    ``check``: look at every update before it is offered, and raise ``UnfitUpdate`` naming the tensor.
    ``on_news``: called with whatever happens, as ``ParticipantNews``, in the thread that happens to be here.
    ``handle_sigterm``: leave properly when SIGTERM comes; None: if this is the main thread and the program has no
    handler of its own. In training, ``drain_s`` are given to finish and offer it; then the place is handed back.
    ``give_up_s``: how long to look for a coordinator, to wait to be let in, and to try for the weights. None: for ever.
    ``wait``: if there is no such run, wait until somebody creates it. Without it that raises, with the names there are.

    Raises ``Quarantined``, ``UnfitUpdate``, ``AccessDenied``, ``Unreachable`` after ``give_up_s``, and what ``train``
    raises.
    """
    given = locals()
    return prepare(**given).take_part()


def prepare(
    url: str | None,
    train: Any,
    run: str | None,
    *,
    participant: str | None = None,
    initial: Initial | bool | None = None,
    model: Any = None,
    dataset: Any = None,
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    labels: dict[str, str] | None = None,
    store: str = "",
    weights: Way = "auto",
    cache: str | os.PathLike[str] | None = None,
    check: bool = True,
    on_news: OnNews | None = None,
    handle_sigterm: bool | None = None,
    give_up_s: float | None = None,
    drain_s: float = 20.0,
    wait: bool = False,
) -> Participant:
    """One that has begun to look for its coordinator."""
    asked = url or os.environ.get("QUORACY_URL") or URL
    run = run or os.environ.get("QUORACY_RUN") or only_run("federated", asked, token, ca, give_up_s, wait)
    means = _means(train, initial, model, dataset, check)
    told = _settings(url, run, participant, token, ca, key, labels, means.initial is not None, give_up_s, drain_s, wait)
    folder = Path(cache) if cache is not None else default_folder(key_part(told.run))

    def depot(on_progress: Callable[[], None], life: Life) -> Depot:
        kept = Cache(folder)

        def ask() -> dict[str, Any]:
            with Asker(asked, token=told.token, ca=told.ca) as asker:
                found: dict[str, Any] = asker.ask("weights", told.run)
                return found

        return Depot(
            told.run, ask, kept, way=weights, store=store, token=told.token, ca=told.ca, on_progress=on_progress,
            participant=told.member, life=life,
        )  # fmt: skip

    return Participant(told, means, depot, on_news=on_news, handle_sigterm=handle_sigterm)


def _means(train: Any, initial: Any, model: Any, dataset: Any, check: bool) -> Means:
    if not callable(train):
        raise ConfigError("train", train, "a function: train(weights, task) -> (weights, samples, metrics)")
    if model is not None:
        from quoracy.sdk.federated.torch import torch_means

        return torch_means(train, model, initial, dataset, check)
    if isinstance(initial, bool) and initial:
        raise ConfigError("initial", initial, "weights, or a function that gives some; True only goes with model=")
    if not initial:
        return Means(train, None, dataset=dataset, check=check)
    if not callable(initial) and not isinstance(initial, Mapping):
        raise ConfigError("initial", type(initial).__name__, "a dict of numpy arrays, or a function that gives one")
    given = initial if callable(initial) else lambda: initial
    return Means(train, given, dataset=dataset, check=check)


def _settings(
    url: str | None,
    run: str | None,
    participant: str | None,
    token: str | None,
    ca: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
    labels: dict[str, str] | None,
    initial: bool,
    give_up_s: float | None,
    drain_s: float,
    wait: bool,
) -> Settings:
    named = run or os.environ.get("QUORACY_RUN") or ""
    return settings(
        url,
        run,
        participant,
        token=token,
        ca=ca,
        key=key,
        about={"labels": labels or {}, "initial": initial},
        timeouts=Timeouts(give_up_s=give_up_s, drain_s=drain_s),
        joins=ParticipantJoined,
        called=lambda: lasting_name(named),
        wait=wait,
    )
