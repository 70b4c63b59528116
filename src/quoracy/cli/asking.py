"""What the verbs that ask a coordinator have in common: where it is, who asks, how the answer is printed.

With ``--json`` the last line printed is one object: ``command``, ``ok``, and ``value``; or, if it did not work,
``error`` with ``code``, ``why`` and ``fix``. The exit code is that of the error's code in the catalog, in either case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from quoracy.cli import plain as plain
from quoracy.cli import reason
from quoracy.core.codec import builtins
from quoracy.core.errors import QuoracyError
from quoracy.core.kinds import KINDS
from quoracy.sdk.client.ask import Asker
from quoracy.sdk.client.settings import URL as URL

COMPLETION_S: Final = 0.5
"""Somebody has pressed the tab key and waits."""


def complete_runs(incomplete: str) -> list[str]:
    """The runs of the coordinator that the environment names, or the one on this machine. Never fails, only knows
    nothing."""
    with suppress(Exception):
        url, token, ca = (os.environ.get(f"QUORACY_{name}", "") for name in ("URL", "TOKEN", "CA"))
        with Asker(url or URL, token=token, ca=ca or None, timeout_s=COMPLETION_S) as asker:
            return [shown["run"] for shown in asker.ask("runs") if shown["run"].startswith(incomplete)]
    return []


def complete_kinds(incomplete: str) -> list[str]:
    return sorted({kind.name for kind in KINDS if kind.name.startswith(incomplete)})


RunName = Annotated[str, typer.Argument(help="The run.", metavar="RUN", autocompletion=complete_runs)]
Url = Annotated[
    str,
    typer.Argument(envvar="QUORACY_URL", metavar="URL", help="The coordinator: tcp://HOST:PORT, or tcps:// for TLS."),
]
Token = Annotated[
    str, typer.Option(envvar="QUORACY_TOKEN", help="Who asks. Better in the environment: others can see options.")
]
Ca = Annotated[Path | None, typer.Option("--ca", envvar="QUORACY_CA", help="With tcps://: the authority to believe.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, max=3600, help="Seconds to wait for the answer.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


class Talk:
    """One verb at work: asks, and prints the answer as it was wanted."""

    def __init__(self, command: str, asker: Asker, json: bool) -> None:
        self.command = command
        self.json = json
        self.console = Console(highlight=False, stderr=json)
        self.asker = asker

    def ask(self, what: str, run: str = "", **arguments: Any) -> Any:
        return self.asker.ask(what, run, **arguments)

    def answer(self, value: Any, show: Callable[[Console], None]) -> None:
        """The value for programs, or ``show`` for people."""
        if self.json:
            print_object({"command": self.command, "ok": True, "value": value})
        else:
            show(self.console)


@contextmanager
def asking(command: str, url: str, token: str, ca: Path | None, timeout_s: float, json: bool) -> Iterator[Talk]:
    try:
        with Asker(url, token=token, ca=ca, timeout_s=timeout_s) as asker:
            yield Talk(command, asker, json)
    except QuoracyError as error:
        if json:
            why, fix = reason(error)
            failed = {"code": error.code, "why": why, "fix": fix}
            print_object({"command": command, "ok": False, "error": failed})
        raise


def print_object(value: dict[str, Any]) -> None:
    typer.echo(msgspec.json.encode(builtins(value)).decode())


def one_line(text: Any, style: str = "") -> Text:
    """A cell that gives way to its neighbours, and is cut where its room ends. Its column must be one that wraps: a
    column that does not never gives way."""
    return Text(plain(text), style=style, no_wrap=True, overflow="ellipsis")


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def few(names: list[str], most: int, total: int | None = None) -> str:
    """The first of them, and how many more there are."""
    total = len(names) if total is None else total
    more = f" +{total - most}" if total > most else ""
    return ", ".join(names[:most]) + more


def said(seconds: float | None) -> str:
    """A duration in a few letters."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if 0 < seconds < 0.01 else f"{seconds * 1000:.0f} ms"
    for limit_s, unit_s, unit in ((100, 1, "s"), (6_000, 60, "min"), (360_000, 3600, "h")):
        if seconds < limit_s:
            return f"{seconds / unit_s:.1f} {unit}" if seconds < 10 * unit_s else f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
