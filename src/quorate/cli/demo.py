"""``quorate demo``: a whole real run of one kind on this machine, with faults on the way."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from quorate.cli.ranks import eventful, log_table
from quorate.core.errors import ConfigError
from quorate.demo import demo_cluster, demo_ranks
from quorate.demo.account import Account
from quorate.demo.cluster import BARRIERS
from quorate.demo.ranks import ITERATIONS
from quorate.demo.serving import STORES
from quorate.report import Report

KINDS = ("cluster", "ranks")


def demo(
    kind: str = typer.Argument("cluster", help="Which kind of run: cluster or ranks."),
    store: str = typer.Option("sqlite", help="What ranks share: sqlite, tcpstore or etcd."),
    json: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> None:
    """A whole run with real processes and faults.

    cluster: eight workers meet at 200 barriers; one is killed, one joins late, the coordinator dies and returns.

    ranks: eight equal ranks train a model with no coordinator; the one about to decide is killed, one is stopped for
    too long, one is restarted, one joins late.

    Exit code 0 only if everything it claims held.

    Examples:

        quorate demo cluster

        quorate demo ranks --store etcd

        quorate demo ranks --json
    """
    if kind not in KINDS:
        raise ConfigError("kind", kind, f"choose one of: {', '.join(KINDS)}")
    if store not in STORES:
        raise ConfigError("--store", store, f"choose one of: {', '.join(STORES)}")
    console = Console(stderr=json)
    report = _ranks(console, store, json) if kind == "ranks" else _cluster(console, json)
    if json:
        typer.echo(report.as_json())
    else:
        report.show(console)
    raise typer.Exit(0 if report.ok() else 1)


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _cluster(console: Console, json: bool) -> Report:
    with _progress(console) as progress:
        task = progress.add_task("barriers passed", total=BARRIERS)

        def say(what: str, passed: int) -> None:
            progress.update(task, completed=passed)
            if what:
                progress.console.print(f"  at barrier {passed:>3}: {what}", highlight=False)

        report, account = demo_cluster(say)
        progress.update(task, completed=BARRIERS)
    if not json:
        _show(account, console)
    return report


def _ranks(console: Console, store: str, json: bool) -> Report:
    with _progress(console) as progress:
        task = progress.add_task("iterations committed", total=ITERATIONS)

        def say(what: str, done: int) -> None:
            progress.update(task, completed=done)
            if what:
                progress.console.print(f"  after iteration {done:>3}: {what}", highlight=False)

        report, lines = demo_ranks(say, store)
    if not json:
        console.print("the attempts in which somebody came, went or said no, as the journal tells it:")
        console.print(log_table([line for line in lines if eventful(line)]))
    return report


def _show(account: Account, console: Console) -> None:
    table = Table(title="who was there, as the journal tells it", title_justify="left")
    for column in ("worker", "barriers", "waited", "last to come", "how it ended"):
        table.add_column(column, justify="left" if column in ("worker", "how it ended") else "right")
    for name in sorted(account.joined):
        waits = sorted(account.waits_us.get(name, []))
        middle = f"{waits[len(waits) // 2] / 1000:.1f} ms" if waits else ""
        last = account.last_to_come.get(name, 0)
        mark = " [yellow]straggler[/]" if name == account.straggler() else ""
        table.add_row(name, str(len(waits)), middle, f"{last}{mark}", account.ended.get(name, "still there"))
    console.print(table)
    console.print(
        f"{account.events} events in {account.entries} entries, {account.terms} terms; "
        f"{account.released} barriers released, {account.aborted} aborted",
        highlight=False,
    )
