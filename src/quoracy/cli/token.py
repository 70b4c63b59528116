"""``quoracy token``: makes tokens from the server's secret, on the server's machine."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from quoracy.config import Store, load_config
from quoracy.coordinator import open_authority
from quoracy.core.errors import ConfigError
from quoracy.doors.auth import Role
from quoracy.doors.tokens import MAX_IDS, SECRET_FILE

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
    ids: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_IDS,
            show_default=False,
            help="How many ids of members it may bring into each run. Left out: 1 into federated and witnessed runs, "
            "any number into others; admins any number.",
        ),
    ] = 0,
    folder: Annotated[Path, typer.Option(envvar="QUORACY_DATA", help="The server's folder.")] = Path("quoracy-data"),
    store: Annotated[str | None, typer.Option(help="The server's etcd://HOST:PORT/PREFIX, if it has one.")] = None,
    config: Annotated[Path | None, typer.Option(help="The server's file, if that says where its secret is.")] = None,
    json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Print a new token. Nothing is stored: whoever has the server's secret can make and check them.

    Examples:

        quoracy token new --role member --run bert --expires 7d

        quoracy token new --role member --run hospitals --ids 12

        export QUORACY_TOKEN=$(quoracy token new --role viewer --run 'bert-*')

        quoracy token new --role member --store etcd://127.0.0.1:2379/quoracy
    """
    expires_s = parse_duration(expires) if expires else None
    place = _store(folder, store, config)
    folder = Path(place.folder)
    fresh = place.kind != "etcd" and not (folder / SECRET_FILE).exists()
    now_s = time.time()
    token = open_authority(place).new_token(role, run, expires_s, name, now_s, ids)
    if fresh:
        note = f"a new server secret was made in {folder / SECRET_FILE}: serve from this folder, or the token is void"
        typer.echo(note, err=True)
    if not json:
        typer.echo(token)
        return
    ends = None if expires_s is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s + expires_s))
    said = {"token": token, "role": role.value, "run": run, "name": name, "expires": ends, "ids": ids or None}
    typer.echo(msgspec.json.encode(said).decode())


def _store(folder: Path, store: str | None, config: Path | None) -> Store:
    """Where the secret is: what the server's file says, or what its options say."""
    if config is not None:
        return load_config(config, {}, os.environ).store
    etcd = {} if store is None else {"store.kind": "etcd", "store.etcd": store}
    return load_config(None, {"store.folder": folder} | etcd, {}).store


def parse_duration(text: str) -> float:
    """``90m``, ``12h``, ``7d``, as seconds."""
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip().lower(), re.ASCII)
    if found is None or int(found[1]) == 0:
        raise ConfigError("--expires", text, "a number and a unit: 30s, 90m, 12h, 7d, 4w")
    return int(found[1]) * _UNITS_S[found[2]]
