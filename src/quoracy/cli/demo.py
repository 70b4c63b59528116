"""``quoracy demo``: a whole real run of one kind on this machine, with faults on the way."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from quoracy.cli.asking import plain
from quoracy.cli.decision_log import log_rows, sentences, stretches
from quoracy.cli.rounds import rounds_table, write_plots
from quoracy.core.errors import ConfigError
from quoracy.demo import demo_cluster, demo_federated, demo_ranks, demo_witnessed
from quoracy.demo.account import Account
from quoracy.demo.cluster import BARRIERS
from quoracy.demo.federated import ROUNDS, Outcome
from quoracy.demo.ranks import ITERATIONS
from quoracy.demo.serving import STORES
from quoracy.demo.witnessed import FATES, STEPS
from quoracy.demo.witnessed import Outcome as Witnessed
from quoracy.plots import Drawing, Plot, Series
from quoracy.report import Report

KINDS = ("cluster", "ranks", "federated", "witnessed")
SAMPLES = ("auto", "digits", "fashion-mnist")


def demo(
    kind: str = typer.Argument("cluster", help="Which kind of run: cluster, ranks, federated or witnessed."),
    store: str = typer.Option("sqlite", help="What ranks share: sqlite, tcpstore or etcd."),
    samples: str = typer.Option("auto", help="What participants train on: digits, fashion-mnist, or what is here."),
    plot: Annotated[
        Path | None, typer.Option(help="Where to write the curve of federated rounds, as .html or .svg.")
    ] = None,
    json: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> None:
    """A whole run with real processes and faults.

    cluster: eight workers meet at 200 barriers; one is killed, one joins late, the coordinator dies and returns.

    ranks: eight equal ranks train a model with no coordinator; the one about to decide is killed, one is stopped for
    too long, one is restarted, one joins late.

    federated: ten participants train on samples that each keeps to itself; one is killed, one joins late, one sends
    poison and is quarantined, the coordinator dies and returns. Shows the accuracy beside that of one machine.

    witnessed: five members train one model together; one is killed and returns, one joins late and fetches the model
    from the others, one is slow, the coordinator dies in the middle of a round. All end with the same model, bit for
    bit.

    Exit code 0 only if everything it claims held.

    Examples:

        quoracy demo cluster

        quoracy demo ranks --store etcd

        quoracy demo ranks --json

        quoracy demo federated --samples digits --plot demo.html

        quoracy demo witnessed
    """
    if kind not in KINDS:
        raise ConfigError("kind", kind, f"choose one of: {', '.join(KINDS)}")
    if store not in STORES:
        raise ConfigError("--store", store, f"choose one of: {', '.join(STORES)}")
    if samples not in SAMPLES:
        raise ConfigError("--samples", samples, f"choose one of: {', '.join(SAMPLES)}")
    console = Console(stderr=json)
    if kind == "federated":
        report = _federated(console, samples, plot, json)
    elif kind == "witnessed":
        report = _witnessed(console, json)
    else:
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
    if json:
        report.notes += sentences(lines)
    else:
        console.print("every attempt as the journal tells it; where nothing happened, several in one row with medians:")
        console.print(*log_rows(stretches(lines, fold=True)), sep="\n")
    return report


def _federated(console: Console, samples: str, plot: Path | None, json: bool) -> Report:
    with _progress(console) as progress:
        task = progress.add_task("rounds", total=ROUNDS)

        def say(what: str, done: int) -> None:
            progress.update(task, completed=done)
            if what:
                progress.console.print(f"  in round {done:>2}: {what}", highlight=False)

        report, outcome = demo_federated(say, samples)
    drawn = _curve(outcome)
    written = plot or Path(tempfile.gettempdir()) / "quoracy-demo-federated.html"
    notes = [f"not counted: {row['participant']}: {row['why']}" for row in _dropped(outcome)]
    write_plots(written, drawn.title, [drawn], notes)
    report.notes.append(f"the curve as a page: {written}")
    if not json:
        console.print(rounds_table(outcome.rows))
        console.print(_who(outcome))
        console.print(Drawing(drawn))
    return report


def _witnessed(console: Console, json: bool) -> Report:
    with _progress(console) as progress:
        task = progress.add_task("rounds applied", total=STEPS)

        def say(what: str, done: int) -> None:
            progress.update(task, completed=done)
            if what:
                progress.console.print(f"  at step {done:>2}: {what}", highlight=False)

        report, outcome = demo_witnessed(say)
    if not json:
        console.print(_members(outcome))
        console.print(_account(outcome), highlight=False)
        points = [(float(one["step"] + 1), one["loss"]) for one in outcome.shown["sealed"]]
        console.print(Drawing(Plot("digits: loss per round", "rounds", "loss", [Series("all members", points)])))
        beside = f"accuracy {_accuracy(outcome):.4f}; of one machine on the same samples {outcome.reference:.4f}"
        console.print(beside, style="bold", highlight=False)
    return report


def _accuracy(outcome: Witnessed) -> float:
    return min((told.get("metrics", {}).get("accuracy", 0.0) for told in outcome.told.values()), default=0.0)


def _members(outcome: Witnessed) -> Table:
    table = Table(title="who took part, and the model each ended with", title_justify="left")
    for column in ("member", "what happened to it", "life", "speed", "trained", "accuracy", "model hash"):
        table.add_column(column, justify="right" if column in ("life", "speed", "trained", "accuracy") else "left")
    known = {one["id"]: one for one in outcome.shown["members"]}
    for name in sorted(known):
        told = outcome.told.get(name, {})
        accuracy = told.get("metrics", {}).get("accuracy")
        model = str(told.get("model", ""))
        same = "green" if model and model == outcome.shown["checkpoint"]["model"] else "red"
        table.add_row(
            name, FATES.get(name, ""), str(known[name]["incarnation"]), f"{known[name]['speed'] or 0:.0f}",
            str(told.get("trained", "")),
            "" if accuracy is None else f"{accuracy:.4f}", f"[{same}]{model[:16]}[/]",
        )  # fmt: skip
    return table


def _account(outcome: Witnessed) -> str:
    account = outcome.shown["account"]
    why = ", ".join(f"{count} {reason}" for reason, count in account["reasons"].items())
    skipped = f"{account['skipped']} skipped" + (f" ({why})" if why else "")
    moved = f"{account['moved']} in the same round, {account['again']} in a later one"
    return (
        f"{outcome.shown['next_batch']} batches: {account['applied']} applied, once each; {skipped}\n"
        f"{account['trained']} trained; given to another member: {moved}"
    )


def _curve(outcome: Outcome) -> Plot:
    points = [(float(row["round"] + 1), row["evaluation"]["accuracy"]) for row in outcome.rows]
    beside = Series("one machine with all samples", outcome.reference.points)
    return Plot(f"{outcome.samples}: accuracy per round", "rounds", "accuracy", [Series("federated", points), beside])


def _dropped(outcome: Outcome) -> list[dict[str, str]]:
    return [dropped for row in outcome.rows for dropped in row["dropped"]]


def _who(outcome: Outcome) -> Table:
    table = Table(title="who took part, as the journal tells it", title_justify="left")
    for column in ("participant", "state", "updates counted", "refused", "why"):
        table.add_column(column, justify="right" if column in ("updates counted", "refused") else "left")
    for one in sorted(outcome.participants, key=lambda one: str(one["id"])):
        style = {"Quarantined": "red", "Lost": "yellow"}.get(one["state"], "green")
        counts = str(one["updates"]), str(one["refused"])
        table.add_row(one["id"], f"[{style}]{one['state']}[/]", *counts, plain(one["reason"]))
    return table


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
