"""``quoracy ranks``: look at runs that have no coordinator, straight in their store, and stop them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quoracy.cli import reason as reason_of
from quoracy.cli.asking import Json, one_line, plain, print_object, said
from quoracy.cli.decision_log import as_object, log_rows, stretches
from quoracy.cli.run import check_reason
from quoracy.core.errors import JournalError, QuoracyError
from quoracy.core.ranks.state import RankState
from quoracy.hosts.decisions import Line
from quoracy.hosts.onlooker import Onlooker
from quoracy.hosts.peerless import OutOfReach, Shared, fix_of
from quoracy.stores.opening import open_store

app = typer.Typer(
    help="Look at runs that have no coordinator, straight in their store.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Store = Annotated[
    str,
    typer.Argument(
        envvar="QUORACY_STORE",
        metavar="STORE",
        help="What the ranks share: sqlite:///FOLDER, tcpstore://HOST:PORT or etcd://HOST:PORT/PREFIX.",
    ),
]
RunOption = Annotated[str, typer.Option("--run", envvar="QUORACY_RUN", help="The run.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, max=3600, help="Seconds to wait for the store.")]


@app.command()
def status(
    store: Store,
    run: RunOption,
    watch: Annotated[
        float, typer.Option(min=0.0, max=3600, help="Seconds to watch heartbeats, at most; their rhythm bounds it too.")
    ] = 10.0,
    timeout: Timeout = 5.0,
    json: Json = False,
) -> None:
    """Where the run stands: the iteration, the attempt, each rank's state and heartbeat, and what is awaited.

    Heartbeats carry no times, so it looks at them twice: that takes up to one and a half heartbeats.

    Examples:

        quoracy ranks status tcpstore://train-0:29500 --run bert

        quoracy ranks status sqlite:///srv/run --run bert --json
    """
    with _looking("ranks status", store, run, timeout, json) as (onlooker, answer):
        shown = onlooker.watch(watch)
        answer(shown, lambda console: _show_status(console, shown))


@app.command()
def log(
    store: Store,
    run: RunOption,
    last: Annotated[int, typer.Option(min=1, help="Only so many of the newest attempts.")] = 1000,
    faults: Annotated[
        bool, typer.Option("--faults", help="Only attempts in which somebody came, went or said no.")
    ] = False,
    fold: Annotated[
        bool, typer.Option("--fold", help="One row for attempts in a row in which nobody came, went or said no.")
    ] = False,
    timeout: Timeout = 5.0,
    json: Json = False,
) -> None:
    """The decision log: what came of each attempt, who decided, who was in, who came, who went and why, and how long it
    took: training until the first one arrived, waiting for the last one, deciding.

    Examples:

        quoracy ranks log tcpstore://train-0:29500 --run bert

        quoracy ranks log sqlite:///srv/run --run bert --faults --last 20
    """  # fmt: skip
    with _looking("ranks log", store, run, timeout, json) as (onlooker, answer):
        lines = [line for line in onlooker.lines if not faults or line.eventful()][-last:]
        value = {"run": run, "attempts": [as_object(line) for line in lines], "stopped": onlooker.stopped}
        answer(value, lambda console: _show_log(console, stretches(lines, fold), onlooker.stopped))


@app.command()
def stop(
    store: Store,
    run: RunOption,
    reason: Annotated[str, typer.Option("--reason", help="Why: every rank is told.")],
    timeout: Timeout = 5.0,
    json: Json = False,
) -> None:
    """End the run: every rank's loop ends with the attempt it is in, which does not count.

    Whoever may write to the store may do this, as whoever may write to it may be a rank.

    Examples:

        quoracy ranks stop sqlite:///srv/run --run bert --reason "the loss is flat"
    """
    check_reason(reason)
    with _looking("ranks stop", store, run, timeout, json) as (onlooker, answer):
        entry = onlooker.stop(reason)
        answer({"run": run, "entry": entry}, lambda console: console.print(f"stopped, by entry {entry}", markup=False))


Answer = Callable[[Any, Callable[[Console], None]], None]


@contextmanager
def _looking(command: str, store: str, run: str, timeout_s: float, json: bool) -> Iterator[tuple[Onlooker, Answer]]:
    console = Console(highlight=False, stderr=json)

    def answer(value: Any, show: Callable[[Console], None]) -> None:
        if json:
            print_object({"command": command, "ok": True, "value": value})
        else:
            show(console)

    try:
        with _opened(store, timeout_s) as shared:
            yield Onlooker(shared, run, store), answer
    except QuoracyError as error:
        if json:
            why, fix = reason_of(error)
            failed = {"code": error.code, "why": why, "fix": fix}
            print_object({"command": command, "ok": False, "error": failed})
        raise


@contextmanager
def _opened(store: str, timeout_s: float) -> Iterator[Shared]:
    try:
        shared = Shared(*open_store(store, timeout_s, create=False))
        try:
            yield shared
        finally:
            shared.close()
    except JournalError as error:
        fix = fix_of(error).replace(", and start the rank again", "")
        raise OutOfReach(f"the store {store}: {error}", fix, error.code) from None


# -- for people ----------------------------------------------------------------------------------------------------

_STYLES = {RankState.MEMBER.value: "green", RankState.LOST.value: "red", RankState.LEFT.value: "dim"}


def _show_status(console: Console, shown: dict[str, Any]) -> None:
    head = Text(f"{plain(shown['run'])} ", style="bold")
    head.append(shown["phase"], {"Running": "green", "Closed": "dim"}.get(shown["phase"], "yellow"))
    head.append(f"  iteration {shown['number']}, attempt {shown['attempt']}", "default not bold")
    console.print(head)
    console.print(Text(plain(shown["awaited"])))
    if shown["ranks"]:
        console.print()
        console.print(status_table(shown))


def status_table(shown: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("rank", justify="right", style="bold", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for column in ("life", "since", "last in"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("arrived", no_wrap=True)
    table.add_column("heartbeat", no_wrap=True)
    table.add_column(one_line("address, or why it went"), min_width=24)
    for rank in shown["ranks"]:
        state = rank["state"]
        last = rank["last_iteration"]
        table.add_row(
            str(rank["rank"]),
            Text(state, style=_STYLES.get(state, "yellow")),
            str(rank["incarnation"]),
            str(rank["since"]),
            "" if last is None else str(last),
            "yes" if rank["arrived"] else "",
            _heartbeat(rank, shown["config"]["t_dead_s"]),
            one_line(rank["reason"] or rank["address"]),
        )
    return table


def _heartbeat(rank: dict[str, Any], dead_s: float) -> Text:
    age_s = rank["beat_age_s"]
    if age_s is None:
        return Text("")
    if rank["beating"]:
        return Text(f"{said(age_s)} ago")
    return Text(f"none for {said(age_s)}", style="red" if age_s > dead_s / 2 else "yellow")


def _show_log(console: Console, shown: list[list[Line]], stopped: str | None) -> None:
    if shown:
        console.print(*log_rows(shown), sep="\n")
    else:
        console.print("no attempt has been decided", markup=False)
    if stopped is not None:
        console.print(f"the run was stopped: {plain(stopped)}", markup=False)
