"""The command line, one file per verb. ``main`` is the entry point."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from quorate.cli import bench, demo, journal, sim
from quorate.core.errors import CATALOG, QuorateError
from quorate.version import __version__

app = typer.Typer(
    name="quorate",
    help="The control plane for training on machines that come and go.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.add_typer(journal.app, name="journal")
app.command("sim")(sim.sim)
app.command("bench")(bench.bench)
app.command("demo")(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quorate {__version__}")
        raise typer.Exit


@app.callback()
def _quorate(
    _version_wanted: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Say which version this is."
    ),
) -> None:
    pass


def main() -> None:
    """Errors of ours become one line that says what is wrong, and the exit code the catalog gives them."""
    try:
        app()
    except QuorateError as error:
        Console(stderr=True).print(f"[red]error:[/] {error.code}: {error}", highlight=False)
        sys.exit(CATALOG[error.code].exit)
