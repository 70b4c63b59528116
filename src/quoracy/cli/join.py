"""``quoracy join``: this machine takes part in a witnessed run, with a trainer that is named."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from quoracy.cli import reason
from quoracy.cli.asking import URL, Ca, Json, Token, Url, plain, print_object
from quoracy.core.errors import CATALOG, QuoracyError
from quoracy.sdk.witnessed.api import join as take_part
from quoracy.sdk.witnessed.events import MemberNews
from quoracy.sdk.witnessed.member import MemberSummary

WAITS: Final = "waits for an epoch to begin"


def join(
    url: Url = URL,
    run: Annotated[str, typer.Option(envvar="QUORACY_RUN", help="The run.")] = "",
    trainer: Annotated[
        str, typer.Option(metavar="MODULE:TRAINER", help="What trains; digits and fashion come with Quoracy.")
    ] = "",
    identity: Annotated[
        Path | None, typer.Option(envvar="QUORACY_KEY", help="This member's Ed25519 key, made if it is not there.")
    ] = None,
    name: Annotated[
        str, typer.Option("--id", help="Under which it is known again; else made from machine and command.")
    ] = "",
    listen: Annotated[
        str, typer.Option(help="HOST:PORT where other members may fetch from; '' if nobody can reach this machine.")
    ] = "127.0.0.1:0",
    address: Annotated[str, typer.Option(help="HOST:PORT to tell them instead, if a port is forwarded.")] = "",
    device: Annotated[str, typer.Option(help="Handed on to the trainer, such as cpu or cuda:0.")] = "cpu",
    store: Annotated[str, typer.Option(help="Object store for checkpoints, instead of the one the run names.")] = "",
    cache: Annotated[Path | None, typer.Option(help="Folder for what is fetched.")] = None,
    give_up: Annotated[
        float, typer.Option(min=0.0, help="Seconds to look for a coordinator before giving up; 0: for ever.")
    ] = 0.0,
    wait: Annotated[bool, typer.Option("--wait", help="If there is no such run, wait until it is created.")] = False,
    token: Token = "",
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Take part in a witnessed run: load the model, train what is assigned, exchange results, until the run is over.

    The trainer is imported from the current folder or from what is installed. SIGTERM lets a round finish, then leaves.
    Killed and started again with the same key, it catches up in the same epoch.

    Exits 0 when the run is over or after SIGTERM, 3 if this member was proven to lie, 5 if a newer process has taken
    the id, and by the error otherwise.

    Examples:

        quoracy join --run digits --trainer digits

        quoracy join tcp://10.0.0.1:7700 --run mine --trainer mine:Trainer --identity ~/my.key --listen 0.0.0.0:7800
    """
    console = Console(highlight=False, stderr=json)
    try:
        with Lines(console) as lines:
            summary = take_part(
                url,
                trainer or None,
                run or None,
                member=name or None,
                identity=identity,
                token=token or None,
                ca=ca,
                listen=listen,
                address=address or None,
                device=device,
                store=store,
                cache=cache,
                give_up_s=give_up or None,
                wait=wait,
                on_news=lines.tell,
            )
    except QuoracyError as error:
        if json:
            why, fix = reason(error)
            print_object({"command": "join", "ok": False, "error": {"code": error.code, "why": why, "fix": fix}})
        raise
    _end(summary, console, json)


def _end(summary: MemberSummary, console: Console, json: bool) -> None:
    ok = summary.ended in ("finished", "drained")
    if json:
        print_object({"command": "join", "ok": ok, "value": summary})
    numbers = "".join(f", {name} {value:.4f}" for name, value in summary.metrics.items())
    text = f"trained {summary.trained} assignments, model of step {summary.step} is {summary.model[:16]}{numbers}"
    console.print(Text(f"{plain(summary.member)}: {text}; {summary.ended}: {plain(summary.reason)}", "bold"))
    if not ok:
        raise typer.Exit(CATALOG["superseded"].exit)


class Lines:
    """News as lines; in a terminal, below, what goes on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status(WAITS) if console.is_terminal else None

    def __enter__(self) -> Lines:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._status is not None:
            self._status.stop()

    def tell(self, news: MemberNews) -> None:
        if news.what in ("round", "trained", "applied"):
            if self._status is not None:
                self._status.update(Text(plain(news.text)))
        elif news.what != "over":
            style = {"trouble": "yellow", "evaluated": "green"}.get(news.what, "dim")
            self._console.print(Text(plain(news.text), style))
