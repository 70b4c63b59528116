"""``quoracy participate``: this machine takes part in a federated run, with a trainer that is named.

A trainer is a function ``train(weights, task)`` that returns ``(weights, samples, metrics)``, as
``quoracy.participate`` takes it. What ``--data`` says is in ``task.dataset``, and is also given to a function that has
a parameter ``data`` or ``dataset``. With ``--initial`` the weights to begin with come from the function ``initial``
that the trainer has as an attribute, or that stands beside it in its module.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from quoracy.cli import reason
from quoracy.cli.asking import URL, Ca, Json, Token, Url, plain, print_object
from quoracy.core.errors import CATALOG, ConfigError, QuoracyError
from quoracy.sdk.federated.api import participate as take_part
from quoracy.sdk.federated.task import ParticipantNews, Summary
from quoracy.sdk.federated.weights import WAYS, Way

SHORT: Final = {"digits": "quoracy.learn.trainers:digits", "fashion": "quoracy.learn.trainers:fashion"}
"""What comes with Quoracy, by its own name."""
WAITS: Final = "waits for a round"


def participate(
    url: Url = URL,
    trainer: Annotated[
        str, typer.Option(metavar="MODULE:FUNCTION", help="What trains; digits and fashion come with Quoracy.")
    ] = "",
    dataset: Annotated[
        str, typer.Option("--data", metavar="PATH_OR_SPEC", help="Handed on to the trainer, as task.dataset.")
    ] = "",
    run: Annotated[str, typer.Option(envvar="QUORACY_RUN", help="The run.")] = "",
    name: Annotated[
        str, typer.Option("--id", help="Under which a place in a round is kept; else made from machine and command.")
    ] = "",
    initial: Annotated[bool, typer.Option("--initial", help="Can give the weights that the run begins with.")] = False,
    store: Annotated[str, typer.Option(help="Object store for weights, instead of the one the run names.")] = "",
    weights: Annotated[str, typer.Option(help="auto, store or http: the way that weights take.")] = "auto",
    cache: Annotated[Path | None, typer.Option(help="Folder for models; may be shared on one machine.")] = None,
    give_up: Annotated[
        float, typer.Option(min=0.0, help="Seconds to look for a coordinator before giving up; 0: for ever.")
    ] = 0.0,
    wait: Annotated[bool, typer.Option("--wait", help="If there is no such run, wait until it is created.")] = False,
    token: Token = "",
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Take part in a federated run: wait for a round, train, send the update, and so on until the run is over.

    The trainer is imported from the current folder or from what is installed: train(weights, task) ->
    (weights, samples, metrics), with weights as numpy arrays by name. SIGTERM lets a training finish, then leaves.
    Killed and started again, it takes its place again.

    Exits 0 when the run is over or after SIGTERM, 5 if a newer process has taken the id, and by the error otherwise.

    Examples:

        quoracy participate --run hospital --trainer ward:train --data /srv/scans

        quoracy participate tcp://10.0.0.1:7700 --run digits --trainer digits --data digits:3/10 --initial

        quoracy participate --run clothes --trainer fashion --data fashion:classes:2:17/100 --id ward-17
    """
    console = Console(highlight=False, stderr=json)
    try:
        train, gives = _trainer(trainer, dataset, initial)
        if weights not in WAYS:
            raise ConfigError("--weights", weights, f"one of: {', '.join(WAYS)}")
        way: Way = weights  # type: ignore[assignment]
        with Lines(console) as lines:
            summary = take_part(
                url,
                train,
                run or None,
                participant=name or None,
                initial=gives,
                dataset=dataset,
                token=token or None,
                ca=ca,
                store=store,
                weights=way,
                cache=cache,
                give_up_s=give_up or None,
                wait=wait,
                on_news=lines.tell,
            )
    except QuoracyError as error:
        if json:
            why, fix = reason(error)
            print_object({"command": "participate", "ok": False, "error": {"code": error.code, "why": why, "fix": fix}})
        raise
    _end(summary, console, json)


def _end(summary: Summary, console: Console, json: bool) -> None:
    ok = summary.ended != "superseded"
    if json:
        print_object({"command": "participate", "ok": ok, "value": summary})
    text = f"{summary.admitted} updates of {summary.trained} rounds trained count"
    console.print(Text(f"{plain(summary.participant)}: {text}; {summary.ended}: {plain(summary.reason)}", "bold"))
    if not ok:
        raise typer.Exit(CATALOG["superseded"].exit)


class Lines:
    """Each round as one line when its end is known, other news as it comes; in a terminal, below, what goes on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._round = Text()
        self._status = console.status(WAITS) if console.is_terminal else None

    def __enter__(self) -> Lines:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._status is not None:
            self._status.stop()

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(plain(text)))

    def tell(self, news: ParticipantNews) -> None:
        match news.what:
            case "round":
                self._round = Text(f"round {news.round:>4}  " if news.round >= 0 else "initial weights  ")
                self._show(news.text)
            case "epoch":
                self._show(news.text)
            case "trained":
                self._round.append(f"{news.samples:,} samples  ")
                loss = news.metrics.get("loss")
                if isinstance(loss, float):
                    self._round.append(f"loss {loss:.4g}  ", "cyan")
            case "verdict":
                verdict = Text("admitted", "green") if news.admitted else Text(plain(news.text), "yellow")
                self._console.print(self._round + verdict)
                self._round = Text()
                self._show(WAITS)
            case "over":
                pass
            case _:
                self._console.print(Text(plain(news.text), "dim"))


def _trainer(name: str, dataset: str, initial: bool) -> tuple[Callable[..., Any], Callable[[], Any] | None]:
    """Raises ConfigError."""
    fix = "write --trainer MODULE:FUNCTION, such as ward:train; digits and fashion come with Quoracy"
    module_name, colon, function_name = SHORT.get(name, name).partition(":")
    if not colon or not module_name or not function_name:
        raise ConfigError("--trainer", name, fix)
    module = _module(module_name, name)
    train = getattr(module, function_name, None)
    if not callable(train):
        raise ConfigError("--trainer", name, f"{module_name} has no function {function_name!r}")
    gives = getattr(train, "initial", None) or getattr(module, "initial", None)
    if initial and not callable(gives):
        raise ConfigError("--initial", True, f"write a function initial() in {module_name} that gives the weights")
    return _with(train, dataset), _with(gives, dataset) if initial and callable(gives) else None


def _module(module_name: str, name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module_name)
    except ImportError as error:
        raise ConfigError("--trainer", name, f"cannot be imported from {here} or what is installed ({error})") from None


def _with(function: Callable[..., Any], dataset: str) -> Callable[..., Any]:
    try:
        takes = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function
    wanted = {name: dataset for name in ("data", "dataset") if name in takes}
    return functools.partial(function, **wanted) if wanted else function
