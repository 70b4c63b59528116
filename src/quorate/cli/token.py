"""``quorate token``: makes tokens from the server's secret, on the server's machine."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from quorate.core.errors import ConfigError
from quorate.doors.auth import Authority, Role
from quorate.doors.tokens import SECRET_FILE

app = typer.Typer(help="Tokens: who may do what, in which runs, until when.", no_args_is_help=True)
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@app.callback()
def _token() -> None:
    """So that ``new`` stays a word of its own."""


@app.command()
def new(
    role: Annotated[Role, typer.Option(help="member joins runs; viewer looks; operator also commands; admin all.")],
    run: Annotated[str, typer.Option(help="For which runs: a name, a beginning as in 'bert-*', or '*'.")] = "*",
    expires: Annotated[str, typer.Option(help="How long it is good: 90m, 12h, 7d. Left out: for ever.")] = "",
    name: Annotated[str, typer.Option(help="Whose it is, for people and logs.")] = "",
    folder: Annotated[Path, typer.Option(envvar="QUORATE_DATA", help="The server's folder.")] = Path("quorate-data"),
    json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Print a new token. Nothing is stored: whoever has the server's secret can make and check them.

    Examples:

        quorate token new --role member --run bert --expires 7d

        export QUORATE_TOKEN=$(quorate token new --role viewer --run 'bert-*')
    """
    expires_s = parse_duration(expires) if expires else None
    fresh = not (folder / SECRET_FILE).exists()
    now_s = time.time()
    token = Authority.open(folder).new_token(role, run, expires_s, name, now_s)
    if fresh:
        note = f"a new server secret was made in {folder / SECRET_FILE}: serve from this folder, or the token is void"
        typer.echo(note, err=True)
    if not json:
        typer.echo(token)
        return
    ends = None if expires_s is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s + expires_s))
    said = {"token": token, "role": role.value, "run": run, "name": name, "expires": ends}
    typer.echo(msgspec.json.encode(said).decode())


def parse_duration(text: str) -> float:
    """``90m``, ``12h``, ``7d``, as seconds."""
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip().lower(), re.ASCII)
    if found is None or int(found[1]) == 0:
        raise ConfigError("--expires", text, "a number and a unit: 30s, 90m, 12h, 7d, 4w")
    return int(found[1]) * _UNITS_S[found[2]]
