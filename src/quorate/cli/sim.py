"""``quorate sim``: many simulated lives with faults; a failing one is shown, and can be replayed alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from quorate.core.errors import ConfigError
from quorate.report import Measurement, Report
from quorate.sim import Outcome, live

SHOWN_LINES = 80
MOST_SEEDS = 1_000_000
KINDS = ("cluster",)


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
    kind: str = typer.Argument(..., help="Which kind of run: cluster."),
    seeds: str = typer.Option("1..50", help="Which lives: 7, 1..500, or 3,8,20..25."),
    jobs: int = typer.Option(0, help="Processes; 0 for one per core."),
    transcript: Annotated[Path | None, typer.Option(help="Write the first (failing) life's transcript here.")] = None,
    json: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> None:
    """Live through faults that take years to happen, and check every promise.

    Examples:

        quorate sim cluster --seeds 1..500

        quorate sim cluster --seeds 42 --transcript life-42.txt
    """
    if kind not in KINDS:
        raise ConfigError("kind", kind, f"choose one of: {', '.join(KINDS)}")
    wanted = parse_seeds(seeds)
    console = Console(stderr=json)
    began = time.perf_counter()
    outcomes = list(_with_progress(_run(wanted, jobs), len(wanted), console))
    report = _judge(f"sim {kind} --seeds {seeds}", outcomes, time.perf_counter() - began)
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if failed or transcript:
        _transcribe(failed[0].seed if failed else wanted[0], bool(failed), transcript, console)
    if json:
        typer.echo(report.as_json())
    else:
        report.show(console)
    raise typer.Exit(0 if report.ok() else 1)


def _run(seeds: list[int], jobs: int) -> Iterator[Outcome]:
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


def _judge(command: str, outcomes: list[Outcome], seconds: float) -> Report:
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
            Measurement("barriers", sum(outcome.released for outcome in outcomes), "passed"),
        ],
        [],
        [f"seed {outcome.seed}: {outcome.violation}" for outcome in failed],
    )


def _transcribe(seed: int, failed: bool, path: Path | None, console: Console) -> None:
    """Live that life once more, this time with every message written down."""
    lines = live(seed, record=True).transcript
    if path is not None:
        path.write_text("\n".join(lines) + "\n")
        console.print(f"seed {seed}: {len(lines)} lines in {path}")
    if failed:
        console.print(f"seed {seed}, the last {SHOWN_LINES} of {len(lines)} lines:")
        for line in lines[-SHOWN_LINES:]:
            console.print(line, markup=False, highlight=False, overflow="ellipsis", no_wrap=True)
        console.print(f"replay it alone: quorate sim cluster --seeds {seed} --transcript life-{seed}.txt")
