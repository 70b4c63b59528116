"""``quorate demo``: a whole real run of one kind on this machine, with faults on the way."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from quorate.core.errors import ConfigError
from quorate.demo import demo_cluster
from quorate.demo.account import Account
from quorate.demo.cluster import BARRIERS

KINDS = ("cluster",)


def demo(
    kind: str = typer.Argument("cluster", help="Which kind of run: cluster."),
    json: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> None:
    """Eight workers meet at 200 barriers; one is killed, one joins late, the coordinator dies and returns.

    Exit code 0 only if everything it claims held.

    Examples:

        quorate demo cluster

        quorate demo cluster --json
    """
    if kind not in KINDS:
        raise ConfigError("kind", kind, f"choose one of: {', '.join(KINDS)}")
    console = Console(stderr=json)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("barriers passed", total=BARRIERS)

        def say(what: str, passed: int) -> None:
            progress.update(task, completed=passed)
            if what:
                progress.console.print(f"  at barrier {passed:>3}: {what}", highlight=False)

        report, account = demo_cluster(say)
        progress.update(task, completed=BARRIERS)
    if json:
        typer.echo(report.as_json())
    else:
        _show(account, console)
        report.show(console)
    raise typer.Exit(0 if report.ok() else 1)


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
