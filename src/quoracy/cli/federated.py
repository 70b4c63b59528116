"""``quoracy federated``: how federated rounds went, and whole tasks to try out on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from quoracy.cli.asking import URL, Ca, Json, RunName, Timeout, Token, Url, asking, plain, print_object
from quoracy.cli.rounds import curves, drawn_line, epoch_curves, rounds_table, trainings_table, write_plots
from quoracy.cli.run import parse_settings
from quoracy.core.errors import ConfigError
from quoracy.demo.anchors import HONEST_ROUNDS, run_anchors
from quoracy.demo.beside import Beside, beside
from quoracy.demo.task import run_task
from quoracy.learn.experiment import SIZES, Lie, Settings
from quoracy.plots import Drawing, Plot, Series
from quoracy.sdk.client.ask import TIMEOUT_S, rounds_over, trainings_of

app = typer.Typer(
    help="How federated rounds went, and whole tasks to try out on this machine.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
PATIENCE_S = 3600.0
PlotFile = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Write the curves there, as .html or .svg.")
]


@app.command()
def history(
    run: RunName,
    url: Url = URL,
    plot: PlotFile = None,
    drawn: Annotated[bool, typer.Option("--drawn", help="Name everybody who was drawn, round by round.")] = False,
    participant: Annotated[
        str, typer.Option(metavar="ID", help="What this one reported of its trainings: metrics, and every epoch.")
    ] = "",
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Every round that is over: how many updates, what was not counted and why, metrics, and how long it took.

    Examples:

        quoracy federated history hospital

        quoracy federated history hospital --drawn

        quoracy federated history hospital --plot hospital.html

        quoracy federated history hospital --participant ward-3
    """
    if participant and drawn:
        raise ConfigError("--drawn", "--participant", "one of them: who was drawn is said of whole rounds")
    with asking("federated history", url, token, ca, timeout, json) as talk:
        if participant:
            told = trainings_of(talk.asker, run, participant)
            epochs = epoch_curves(told["rounds"], f"{plain(run)}, {plain(participant)}")
            if plot is not None:
                write_plots(plot, f"{plain(run)}, {plain(participant)}", epochs, [])
            talk.answer(told, lambda console: _show_trainings(console, told, epochs, plot))
            return
        rows = rounds_over(talk.asker, run)
        plots = curves(rows, plain(run))
        if plot is not None:
            write_plots(plot, f"{plain(run)}: {len(rows)} rounds", plots, [])
        talk.answer({"run": run, "rounds": rows}, lambda console: _show(console, rows, plots, plot, drawn))


def _show(console: Console, rows: list[dict[str, Any]], plots: list[Plot], written: Path | None, drawn: bool) -> None:
    if not rows:
        console.print("no round is over yet")
        return
    console.print(rounds_table(rows))
    for row in rows if drawn else []:
        console.print(drawn_line(row))
    for plot in plots[:1]:
        console.print(Drawing(plot))
    if written is not None:
        console.print(f"curves: {written}")


def _show_trainings(console: Console, told: dict[str, Any], plots: list[Plot], written: Path | None) -> None:
    if told["given_up"]:
        console.print(f"{told['given_up']:,} older reports of this run, of whomever, were given up: there is a bound")
    if not told["rounds"]:
        console.print(f"nothing is kept of a training of {plain(told['participant'])}")
        return
    console.print(trainings_table(told["rounds"]))
    for plot in plots[:1]:
        console.print(Drawing(plot))
    if written is not None:
        console.print(f"curves: {written}")


@app.command()
def task(
    name: Annotated[str, typer.Argument(help=f"What to train on: {' or '.join(SIZES)}.", metavar="TASK")],
    partition: Annotated[str, typer.Option(help="iid, classes:N or volume:B.")] = "iid",
    participants: Annotated[int, typer.Option(min=1, max=1000, help="How many, each with its part.")] = 100,
    per_round: Annotated[int, typer.Option(min=0, help="How many train in a round; 0: all.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 50,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over its part that each makes in a round.")] = 1,
    batch_size: Annotated[int, typer.Option(min=0, help="Of the trainers; 0: all samples at once.")] = 10,
    lr: Annotated[float, typer.Option(min=0.0, help="The trainers' learning rate.")] = 0.05,
    aggregation: Annotated[str, typer.Option(help="The rule, such as fedavg, median or krum.")] = "fedavg",
    liars: Annotated[int, typer.Option(min=0, help="So many participants send lies.")] = 0,
    lie: Annotated[str, typer.Option(help="Which: flip, noise, nan, shape or scale.")] = "flip",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other setting of the run.")
    ] = None,
    central: Annotated[bool, typer.Option("--central", help="Train on one machine as well, to compare.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of partitions, weights and draws.")] = 1,
    plot: PlotFile = None,
    json: Json = False,
) -> None:
    """A whole task on this machine: a coordinator, and its participants in two processes. Shows accuracy per round.

    Examples:

        quoracy federated task fashion-mnist --partition classes:2

        quoracy federated task fashion-mnist --liars 20 --aggregation median --plot median.html

        quoracy federated task digits --participants 10 --per-round 0 --rounds 20 --central
    """
    if name not in SIZES:
        raise ConfigError("TASK", name, f"one of: {', '.join(SIZES)}")
    if lie not in get_args(Lie):
        raise ConfigError("--lie", lie, f"one of: {', '.join(get_args(Lie))}")
    if per_round > participants:
        raise ConfigError("--per-round", per_round, f"at most --participants ({participants}), or 0 for all of them")
    wished = Settings(name, partition, participants, seed, liars, lie)  # type: ignore[arg-type]
    config: dict[str, Any] = {
        "rounds": rounds, "epochs": epochs, "per_round": per_round, "aggregation": {"rule": aggregation},
        "hyper": {"lr": lr, "batch_size": batch_size},
    } | parse_settings(settings or [])  # fmt: skip
    console = Console(stderr=json, highlight=False)
    rows = _run(console, wished, config, f"{name}, {partition}, {aggregation}")
    reference = None
    if central:
        with console.status("trains on one machine, on as many samples"):
            reference = beside(wished, rows, epochs, batch_size, lr)
    plots = [_accuracy(rows, f"{name}, {partition}, {aggregation}", reference), *curves(rows, name)]
    if plot is not None:
        write_plots(plot, plain(name), plots, [])
    if json:
        value = {"rounds": rows, "central": None if reference is None else reference.accuracy}
        print_object({"command": "federated task", "ok": True, "value": value})
        return
    console.print(rounds_table(rows[-10:]))
    console.print(Drawing(plots[0]))
    if reference is not None:
        console.print(f"on one machine, {reference.passes:,} samples: accuracy {reference.accuracy:.3f}")


@app.command()
def anchors(
    out: Annotated[Path, typer.Option(help="A folder for the pictures.")] = Path(),
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds in each, at most.")] = HONEST_ROUNDS,
    json: Json = False,
) -> None:
    """What federated learning is known to do, on Fashion-MNIST, in two pictures: beside one machine, and with liars.

    Three tasks of 300 rounds, five of 100, and one machine beside them, three times: about ten minutes
    on two cores. Exit code 0 only if every figure is as it should be.

    Examples:

        quoracy federated anchors --out pictures
    """
    if not out.is_dir():
        raise ConfigError("--out", str(out), "a folder that is there")
    console = Console(stderr=json, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bars: dict[str, TaskID] = {}

        def say(name: str, shown: dict[str, Any] | None) -> None:
            if name not in bars:
                bars[name] = progress.add_task(name, total=None)
            if shown is None:
                progress.update(bars[name], completed=progress.tasks[bars[name]].total or 1)
            elif shown:
                progress.update(bars[name], total=shown["rounds"], completed=max(0, shown["round"]))

        found = run_anchors(say, rounds)
    for name, plot in zip(("federated-anchors", "federated-liars"), found.plots, strict=True):
        write_plots(out / f"{name}.svg", plot.title, [plot], [])
        console.print(Drawing(plot))
    if json:
        typer.echo(found.report.as_json())
    else:
        found.report.show(console)
    raise typer.Exit(0 if found.report.ok() else 1)


def _run(console: Console, wished: Settings, config: dict[str, Any], title: str) -> list[dict[str, Any]]:
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[accuracy]}"),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=config["rounds"], accuracy="")

        def look(shown: dict[str, Any]) -> None:
            measured = [row["evaluation"]["accuracy"] for row in shown["history"] if row["evaluation"]]
            accuracy = f"accuracy {measured[-1]:.3f}" if measured else plain(shown["phase"])
            progress.update(bar, completed=max(0, shown["round"]), accuracy=accuracy)

        return run_task(wished, config, look, PATIENCE_S)


def _accuracy(rows: list[dict[str, Any]], title: str, reference: Beside | None) -> Plot:
    measured = Series("federated", [(float(row["round"] + 1), row["evaluation"]["accuracy"]) for row in rows])
    series = [measured]
    if reference is not None:
        series.append(Series("one machine", reference.points))
    return Plot(title, "rounds", "accuracy", series)
