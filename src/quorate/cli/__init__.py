"""The command line, one file per verb. ``main`` is the entry point."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.text import Text

from quorate.cli import bench, ca, config, demo, explain, journal, run, serve, sim, status, token, top
from quorate.cli.asking import plain, reason
from quorate.core.errors import CATALOG, QuorateError
from quorate.version import __version__

app = typer.Typer(
    name="quorate",
    help="The control plane for training on machines that come and go.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("status")(status.status)
app.command("explain")(explain.explain)
app.command("top")(top.top)
app.add_typer(run.app, name="run")
app.add_typer(journal.app, name="journal")
app.add_typer(config.app, name="config")
app.add_typer(token.app, name="token")
app.add_typer(ca.app, name="ca")
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
    """Errors of ours become a line that says what is wrong and one that says what to do, and the exit code the catalog
    gives them."""
    try:
        app()
    except QuorateError as error:
        why, fix = reason(error)
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(Text("error: ", style="red"), Text(f"{error.code}: {_lines(why)}"), sep="")
        if fix:
            console.print(Text("what to do: ", style="green"), Text(_lines(fix)), sep="")
        known = CATALOG.get(error.code)
        sys.exit(1 if known is None else known.exit)


def _lines(text: str) -> str:
    """As it is, line by line, but nothing that a terminal would obey: some of it came from a server."""
    return "\n".join(plain(line) for line in text.split("\n"))
