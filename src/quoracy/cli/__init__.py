"""The command line, one file per verb. ``main`` is the entry point, ``app`` all verbs together.

A verb's module has a function of the same name, or an ``app`` with verbs of its own. Only the verb that is wanted is
imported: a coordinator that has to be started again should not wait for the benchmarks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

import typer
from rich.console import Console
from rich.text import Text

from quoracy.core.errors import CATALOG, QuoracyError, Refused
from quoracy.version import __version__

VERBS: Final = (
    "serve", "status", "explain", "top", "run", "ranks", "federate", "participate", "federated", "join", "demo",
    "bench", "sim", "journal", "config", "token", "ca",
)  # fmt: skip


def build(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """An app that knows these verbs."""
    built = typer.Typer(
        name="quoracy",
        help="The control plane for training on machines that come and go.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    built.callback()(_quoracy)
    for verb in verbs:
        module = import_module(f"{__name__}.{verb}")
        if hasattr(module, "app"):
            built.add_typer(module.app, name=verb)
        else:
            built.command(verb)(getattr(module, verb))
    return built


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quoracy {__version__}")
        raise typer.Exit


def _quoracy(
    _version_wanted: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Say which version this is."
    ),
) -> None:
    pass


def __getattr__(name: str) -> Any:
    if name == "app":
        return build()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Errors of ours become a line that says what is wrong and one that says what to do, and the exit code the catalog
    gives them."""
    try:
        build(_wanted(sys.argv[1:]))(prog_name="quoracy")
    except QuoracyError as error:
        why, fix = reason(error)
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(Text("error: ", style="red"), Text(f"{error.code}: {_lines(why)}"), sep="")
        if fix:
            console.print(Text("what to do: ", style="green"), Text(_lines(fix)), sep="")
        known = CATALOG.get(error.code)
        sys.exit(1 if known is None else known.exit)


def _wanted(arguments: list[str]) -> Iterable[str]:
    """The verb, or all of them where somebody wants to know which there are."""
    completing = "_QUORACY_COMPLETE" in os.environ
    return arguments[:1] if arguments and arguments[0] in VERBS and not completing else VERBS


def reason(error: QuoracyError) -> tuple[str, str]:
    """What is wrong, and what to do about it where the error knows."""
    if isinstance(error, Refused):
        return error.refusal.why, error.refusal.fix
    why, fix = getattr(error, "why", None), getattr(error, "fix", None)
    if isinstance(why, str) and isinstance(fix, str):
        return why, fix
    return str(error), ""


def plain(text: Any) -> str:
    """Somebody else's words, without anything that a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(text))


def _lines(text: str) -> str:
    return "\n".join(plain(line) for line in text.split("\n"))
