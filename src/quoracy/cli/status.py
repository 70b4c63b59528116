"""``quoracy status``: who answers there, and which runs it has."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quoracy.cli.asking import URL, Ca, Json, Timeout, Token, Url, asking, one_line, plain, said
from quoracy.sdk.client.ask import TIMEOUT_S

PHASES: Final = {
    "Open": "green", "Closed": "dim", "Round": "green", "Closing": "green", "Evaluating": "green", "Finished": "dim",
    "Stopped": "dim", "Paused": "bold red", "Warmup": "green", "RoundTrain": "green", "RoundWitness": "green",
    "Cooldown": "green",
}  # fmt: skip


def status(url: Url = URL, token: Token = "", ca: Ca = None, timeout: Timeout = TIMEOUT_S, json: Json = False) -> None:
    """Who answers there, whether it serves, and what each of its runs is waiting for.

    Examples:

        quoracy status

        quoracy status tcps://train.example.org:7700 --ca ca.pem

        quoracy status --json
    """
    with asking("status", url, token, ca, timeout, json) as talk:
        server = talk.ask("status")
        runs = talk.ask("runs")
        talk.answer({"server": server, "runs": runs}, lambda console: _show(console, server, runs))


def _show(console: Console, server: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    line = Text(f"quoracy {plain(server['version'])} ", style="bold")
    if server["draining"]:
        line.append("drains", "yellow")
    elif server["serving"]:
        line.append("serves", "green")
    else:
        line.append("follows another host and takes over when that one goes", "yellow")
    line.append(f" on {plain(server['address'])}", "default not bold")
    console.print(line)
    console.print(f"host {plain(server['host'])}, up {said(server['uptime_s'])}, runs: {server['runs']}", markup=False)
    if runs:
        console.print()
        console.print(runs_table(runs))
    else:
        console.print("there is no run yet: quoracy run create NAME", markup=False)


def runs_table(runs: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", style="bold", no_wrap=True, max_width=24)
    table.add_column("kind", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    table.add_column("here", justify="right", no_wrap=True)
    table.add_column("entry", justify="right", no_wrap=True)
    table.add_column("term", justify="right", no_wrap=True)
    table.add_column(one_line("what it is waiting for"))
    for shown in runs:
        sentence = shown.get("explanation", {}).get("sentence", "")
        phase = str(shown.get("phase", "?"))
        table.add_row(
            Text(plain(shown["run"])),
            Text(plain(shown.get("kind", ""))),
            Text(plain(phase), style=PHASES.get(phase, "yellow")),
            *(f"{shown[name]:,}" if isinstance(shown.get(name), int) else "" for name in ("here", "entry", "term")),
            one_line(sentence),
        )
    return table
