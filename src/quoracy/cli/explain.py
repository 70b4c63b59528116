"""``quoracy explain``: what a run is waiting for and why, and what happens if nobody comes."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quoracy.cli.asking import URL, Ca, Json, RunName, Timeout, Token, Url, asking, cut, few, plain, said
from quoracy.sdk.client.ask import TIMEOUT_S

MAX_SENTENCE: Final = 600
MAX_WAITS: Final = 50


def explain(
    run: RunName,
    url: Url = URL,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """What the run is waiting for and why; who is missing, since when, and what happens if they stay away.

    Examples:

        quoracy explain demo

        quoracy explain demo --json
    """
    with asking("explain", url, token, ca, timeout, json) as talk:
        explanation = talk.ask("show", run)["explanation"]
        talk.answer(explanation, lambda console: _show(console, run, explanation))


def _show(console: Console, run: str, explanation: dict[str, Any]) -> None:
    sentence = Text(f"{plain(run)}: ", style="bold")
    sentence.append(cut(plain(explanation["sentence"]), MAX_SENTENCE), "default not bold")
    console.print(sentence)
    waits = explanation["waits"]
    if not waits:
        return
    console.print()
    console.print(waits_table(waits[:MAX_WAITS]))
    if len(waits) > MAX_WAITS:
        console.print(f"and {len(waits) - MAX_WAITS} more; --json shows all", style="dim")


def waits_table(waits: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("waits for")
    table.add_column("missing", style="yellow")
    table.add_column("since", justify="right", no_wrap=True)
    table.add_column("then")
    for wait in waits:
        left_us = wait["left_us"]
        soon = "at any moment" if left_us == 0 else f"in {said((left_us or 0) / 1e6)}"
        then = "" if left_us is None else f"{wait['then']} {soon}"
        table.add_row(
            Text(plain(wait["what"])),
            Text(plain(few(list(wait["missing"]), 10))),
            said(wait["waited_us"] / 1e6),
            Text(plain(then or "nothing else ends it")),
        )
    return table
