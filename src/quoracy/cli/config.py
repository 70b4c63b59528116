"""``quoracy config``: every setting with its default and why, and what a server here would use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from quoracy.config import read_settings
from quoracy.docs.settings import settings_page

app = typer.Typer(help="Every setting, its default and why.", no_args_is_help=True)


@app.command()
def show(
    config: Annotated[Path | None, typer.Option(help="The server's file.")] = None,
    json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """What a server would use, started here with this file and this environment. What is wrong is named, all at once.

    Examples:

        quoracy config show

        quoracy config show --config quoracy.toml --json
    """
    settings = read_settings(config, {}, os.environ)
    if json:
        typer.echo(msgspec.json.encode({"config": settings.config, "sources": settings.sources}).decode())
    else:
        typer.echo(settings_page(settings.config, settings.sources), nl=False)


@app.command()
def example() -> None:
    """A file with every setting and its default, to begin with.

    Examples:

        quoracy config example > quoracy.toml
    """
    typer.echo(settings_page(), nl=False)
