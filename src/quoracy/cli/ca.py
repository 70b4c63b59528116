"""``quoracy ca``: a private authority, so that TLS needs nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from quoracy.docs.settings import toml
from quoracy.trust.ca import SERVER_DAYS, Issued, create_authority, issue

app = typer.Typer(help="A private authority for TLS.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option(help="Where keys and certificates are.")]
Hosts = Annotated[list[str] | None, typer.Option("--host", help="A name or address members use; several are fine.")]
Days = Annotated[int, typer.Option(help="How long the server's certificate is good.")]
FOLDER = Path("quoracy-data/tls")


@app.command()
def init(
    folder: Folder = FOLDER,
    host: Hosts = None,
    days: Days = SERVER_DAYS,
    json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Make an authority, and a certificate for the server. Nothing that is there is overwritten.

    Examples:

        quoracy ca init --host train.example.org --host 192.0.2.7
    """
    founded = create_authority(folder, host or [], days)
    if json:
        typer.echo(msgspec.json.encode(founded).decode())
        return
    made, server = founded.authority, founded.server
    typer.echo(f"{made.cert}: the authority, until {made.until}. Give this file to members; it is no secret.")
    typer.echo(f"{made.key}: its key. Only `quoracy ca issue` needs it: move it off this machine if you can.")
    typer.echo(f"{server.cert}: the server, until {server.until}, as {', '.join(server.hosts)}.")
    typer.echo("\nWhat to do next:\n\n1. Tell the server, in its file (quoracy serve --config quoracy.toml):\n")
    typer.echo(_tls(server))
    typer.echo("2. Make a token for members: quoracy token new --role member --expires 7d")
    typer.echo(f"3. Give members the token and {made.cert}; they connect to tcps://NAME:7700, with a name from above.")


@app.command("issue")
def issue_(
    name: Annotated[str, typer.Option(help="Of the two files.")],
    folder: Folder = FOLDER,
    host: Hosts = None,
    days: Days = SERVER_DAYS,
    json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """A further certificate from the same authority: for another server, or before the old one ends.

    Examples:

        quoracy ca issue --name server-2027 --host train.example.org
    """
    server = issue(folder, name, host or [], days)
    if json:
        typer.echo(msgspec.json.encode(server).decode())
        return
    typer.echo(f"{server.cert}: until {server.until}, as {', '.join(server.hosts)}.\n\n{_tls(server)}")


def _tls(server: Issued) -> str:
    return f"[tls]\ncert = {toml(server.cert)}\nkey = {toml(server.key)}\n"
