"""``quoracy bench``: one measurement, with the limit or a peer measured in the same run."""

from __future__ import annotations

import time

import typer
from rich.console import Console

from quoracy.bench import BENCHES
from quoracy.core.errors import ConfigError


def bench(
    name: str = typer.Argument(..., help=f"What to measure: {', '.join(BENCHES)}."),
    json: bool = typer.Option(False, "--json", help="Print one JSON object at the end."),
) -> None:
    """Measure one thing. The exit code is 0 only if every target is met.

    Examples:

        quoracy bench fold

        quoracy bench journal --json
    """
    if name not in BENCHES:
        raise ConfigError("name", name, f"choose one of: {', '.join(BENCHES)}")
    console = Console(stderr=json)
    began = time.perf_counter()
    with console.status(f"measuring {name}"):
        report = BENCHES[name]()
    report.seconds = time.perf_counter() - began
    if json:
        typer.echo(report.as_json())
    else:
        report.show(console)
    raise typer.Exit(0 if report.ok() else 1)
