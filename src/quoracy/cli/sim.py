"""``quoracy sim``: many simulated lives with faults; a failing one is shown, and can be replayed alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from quoracy.core.errors import ConfigError
from quoracy.report import Measurement, Report
from quoracy.sim import cluster, federated, ranks, witnessed
from quoracy.sim.explore import explore

SHOWN_LINES = 80
MOST_SEEDS = 1_000_000
LEAST_STATES = 1_000_000
"""Fewer, and the world explored is too small to tell much."""
Outcome = cluster.Outcome | federated.Outcome | ranks.Outcome | witnessed.Outcome
LIVES: dict[str, Callable[..., Outcome]] = {
    "cluster": cluster.live,
    "federated": federated.live,
    "ranks": ranks.live,
    "witnessed": witnessed.live,
}
PASSED = {
    "cluster": ("barriers", "passed"),
    "federated": ("rounds", "aggregated"),
    "ranks": ("attempts", "decided"),
    "witnessed": ("rounds", "applied"),
}


def parse_seeds(text: str) -> list[int]:
    """``7``, ``1..500`` or ``3,8,20..25``."""
    seeds: list[int] = []
    for part in text.split(","):
        low, dots, high = part.partition("..")
        try:
            first = int(low)
            last = int(high) if dots else first
        except ValueError:
            raise ConfigError("--seeds", text, "write a number, a range like 1..500, or several with commas") from None
        if first < 0 or last < first:
            raise ConfigError("--seeds", text, f"{part} is empty; the first seed comes first")
        if len(seeds) + last - first >= MOST_SEEDS:
            raise ConfigError("--seeds", text, f"at most {MOST_SEEDS:,} at a time")
        seeds += range(first, last + 1)
    return seeds


def sim(
    kind: str = typer.Argument(..., help="Which kind of run: cluster, federated, ranks or witnessed."),
    seeds: str = typer.Option("1..50", help="Which lives: 7, 1..500, or 3,8,20..25."),
    jobs: int = typer.Option(0, help="Processes; 0 for one per core."),
    transcript: Annotated[Path | None, typer.Option(help="Write the first (failing) life's transcript here.")] = None,
    exhaustive: bool = typer.Option(
        False, "--exhaustive", help="Instead, every order of every step of a small world; for ranks. Takes minutes."
    ),
    json: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> None:
    """Live through faults that take years to happen, and check every promise.

    Examples:

        quoracy sim cluster --seeds 1..500

        quoracy sim federated --seeds 1..500 --json

        quoracy sim ranks --seeds 42 --transcript life-42.txt

        quoracy sim ranks --exhaustive

        quoracy sim witnessed --seeds 1..50
    """
    if kind not in LIVES:
        raise ConfigError("kind", kind, f"choose one of: {', '.join(LIVES)}")
    console = Console(stderr=json)
    if exhaustive:
        _end(_explored(kind, console), json, console)
    wanted = parse_seeds(seeds)
    began = time.perf_counter()
    outcomes = list(_with_progress(_run(LIVES[kind], wanted, jobs), len(wanted), console))
    report = _judge(f"sim {kind} --seeds {seeds}", PASSED[kind], outcomes, time.perf_counter() - began)
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if failed or transcript:
        _transcribe(kind, failed[0].seed if failed else wanted[0], bool(failed), transcript, console)
    _end(report, json, console)


def _end(report: Report, json: bool, console: Console) -> NoReturn:
    if json:
        typer.echo(report.as_json())
    else:
        report.show(console)
    raise typer.Exit(0 if report.ok() else 1)


def _explored(kind: str, console: Console) -> Report:
    """Three ranks, two attempts; a crash of each at any step, restarts, arbitrary suspicion and clean-up."""
    if kind != "ranks":
        raise ConfigError("--exhaustive", kind, "choose ranks: its protocol over a bare store is what is explored")
    with console.status("exploring"):
        found = explore()
    report = Report(f"sim {kind} --exhaustive", found.seconds)
    report.measurements += [
        Measurement("states", found.states, "distinct", LEAST_STATES, "at least"),
        Measurement("violations", len(found.violations), "found", 0, "at most"),
        Measurement("depth", found.depth, "steps"),
        Measurement("transitions", found.transitions, "taken"),
    ]
    report.notes.append("All there is was seen." if found.complete else "The search ended before all was seen.")
    report.failures += found.story
    return report


def _run(live: Callable[..., Outcome], seeds: list[int], jobs: int) -> Iterator[Outcome]:
    workers = jobs or os.cpu_count() or 1
    if workers == 1 or len(seeds) == 1:
        yield from map(live, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(live, seeds, chunksize=4)


def _with_progress(outcomes: Iterator[Outcome], total: int, console: Console) -> Iterator[Outcome]:
    columns = (TextColumn("living"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        for outcome in outcomes:
            progress.advance(task)
            yield outcome


def _judge(command: str, passed: tuple[str, str], outcomes: list[Outcome], seconds: float) -> Report:
    events = sum(outcome.events for outcome in outcomes)
    failed = [outcome for outcome in outcomes if not outcome.ok]
    return Report(
        command,
        seconds,
        [
            Measurement("lives", len(outcomes), "seeds"),
            Measurement("violations", len(failed), "seeds", 0, "at most"),
            Measurement("sim_events_per_s", round(events / seconds), "events/s"),
            Measurement("faults", sum(outcome.faults for outcome in outcomes), "planned"),
            Measurement("entries", sum(outcome.entries for outcome in outcomes), "journaled"),
            Measurement(passed[0], sum(outcome.released for outcome in outcomes), passed[1]),
        ],
        [],
        [f"seed {outcome.seed}: {outcome.violation}" for outcome in failed],
    )


def _transcribe(kind: str, seed: int, failed: bool, path: Path | None, console: Console) -> None:
    """Live that life once more, this time with every message written down."""
    lines = LIVES[kind](seed, record=True).transcript
    if path is not None:
        path.write_text("\n".join(lines) + "\n")
        console.print(f"seed {seed}: {len(lines)} lines in {path}")
    if failed:
        console.print(f"seed {seed}, the last {SHOWN_LINES} of {len(lines)} lines:")
        for line in lines[-SHOWN_LINES:]:
            console.print(line, markup=False, highlight=False, overflow="ellipsis", no_wrap=True)
        console.print(f"replay it alone: quoracy sim {kind} --seeds {seed} --transcript life-{seed}.txt")
