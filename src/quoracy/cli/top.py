"""``quoracy top``: a run, live in the terminal. ``run show`` prints the same page once, with nothing left out.

A page has to fit whatever terminal there is, so each part says how much room it takes and the workers get the rest.
Those that somebody waits for come first: with a thousand workers the few that matter must not be below the edge.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from quoracy.cli.asking import (
    URL,
    Ca,
    Json,
    RunName,
    Talk,
    Timeout,
    Token,
    Url,
    asking,
    few,
    one_line,
    plain,
    said,
)
from quoracy.cli.curves import METRIC, Curve, Curves, curve_table, number
from quoracy.cli.top_rounds import RoundsPage
from quoracy.cli.top_witnessed import WitnessedPage
from quoracy.core.errors import Refused
from quoracy.sdk.client.ask import ELSEWHERE, TIMEOUT_S
from quoracy.sdk.client.errors import Unreachable

WIDE: Final = 100
"""From so many columns on there is room for what is only nice to know."""
LOW: Final = 16
"""Below so many lines the sentence gets one."""
SENTENCE_LINES: Final = 3
STATES: Final = {
    "Initializing": "white",
    "Idle": "cyan",
    "LoadingData": "blue",
    "Training": "green",
    "Checkpointing": "magenta",
    "Recovering": "yellow",
    "Failed": "red",
    "Left": "dim",
    "Absent": "dim",
}
GONE: Final = frozenset({"Failed", "Left", "Absent"})
SILENT: Final = "a heartbeat"
"""How an explanation begins that waits for one."""


def top(
    run: RunName,
    url: Url = URL,
    once: Annotated[bool, typer.Option("--once", help="Print one page and go.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds between two looks.")] = 0.5,
    metric: Annotated[str, typer.Option(help="Which metric to draw; else the loss, or the first there is.")] = "",
    span: Annotated[float, typer.Option(min=60, max=2_592_000, help="How many seconds the curves go back.")] = 900.0,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """A run, live: what it is waiting for, how fast it goes, its barriers and stragglers, its workers. Ctrl+C leaves.

    If the coordinator goes away it says so, and goes on when it is back. Into a pipe, one page is printed.

    Examples:

        quoracy top demo

        quoracy top demo tcps://train.example.org:7700 --ca ca.pem --interval 2

        quoracy top demo --once

        quoracy top demo --metric accuracy --span 3600
    """
    with asking("top", url, token, ca, timeout, json) as talk:
        shown = talk.ask("show", run)
        if json:
            talk.answer(shown, lambda _console: None)
            return
        curves = Curves(talk, run, metric, span)
        if once or not talk.console.is_terminal:
            height = talk.console.height - 1 if talk.console.is_terminal else None
            talk.console.print(page(shown, height, curves=curves.look()))
        else:
            _live(talk, run, shown, curves, interval)


def _live(talk: Talk, run: str, shown: dict[str, Any], curves: Curves, interval_s: float) -> None:
    """Until Ctrl+C. The terminal is left as it was."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    looked = Looked(shown, curves=curves.look())
    try:
        with Live(looked, console=talk.console, screen=True, auto_refresh=False) as live:
            while True:
                began_s = time.monotonic()
                live.update(looked, refresh=True)
                time.sleep(max(0.0, began_s + interval_s - time.monotonic()))
                try:
                    looked = looked.again(talk.ask("show", run), curves.look())
                except Unreachable as error:
                    looked = looked.in_trouble(error.why)
                except Refused as error:
                    if error.code not in ELSEWHERE:
                        raise
                    looked = looked.in_trouble(error.refusal.why)
    except KeyboardInterrupt:
        pass


class Looked(msgspec.Struct):
    """What was seen last, and what only two looks together show."""

    shown: dict[str, Any]
    at_s: float = msgspec.field(default_factory=time.monotonic)
    rates: dict[str, float] = {}
    """Releases a second of each barrier."""
    trouble: str = ""
    curves: list[Curve] = []

    def again(self, shown: dict[str, Any], curves: list[Curve] | None = None) -> Looked:
        looked = Looked(shown, curves=curves or [])
        past_s = max(1e-6, looked.at_s - self.at_s)
        before = {barrier["name"]: barrier["released"] for barrier in self.shown.get("barriers", ())}
        for barrier in shown.get("barriers", ()):
            rate = max(0, barrier["released"] - before.get(barrier["name"], 0)) / past_s
            known = self.rates.get(barrier["name"], rate)
            looked.rates[barrier["name"]] = known + 0.3 * (rate - known)
        return looked

    def in_trouble(self, why: str) -> Looked:
        return Looked(self.shown, self.at_s, self.rates, why, self.curves)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        trouble = f"{self.trouble}; this is {said(time.monotonic() - self.at_s)} old" if self.trouble else ""
        yield page(self.shown, options.height or console.height, self.rates, trouble, self.curves)


def page(
    shown: dict[str, Any],
    height: int | None = None,
    rates: dict[str, float] | None = None,
    trouble: str = "",
    curves: list[Curve] | None = None,
) -> Page | RoundsPage | WitnessedPage:
    """Each kind of run has its own."""
    if shown.get("kind") == "federated":
        return RoundsPage(shown, height, trouble)
    if shown.get("kind") == "witnessed":
        return WitnessedPage(shown, height, trouble)
    return Page(shown, height, rates or {}, trouble, curves or [])


class Page:
    """One run. ``height``: how many lines there are; None for as many as it takes."""

    def __init__(
        self, shown: dict[str, Any], height: int | None, rates: dict[str, float], trouble: str, curves: list[Curve]
    ) -> None:
        self.shown = shown
        self.height = height
        self.rates = rates
        self.trouble = trouble
        self.curves = curves
        self.metric = next((curve.called for curve in curves if curve.name.startswith(METRIC)), "")
        self.barriers: list[dict[str, Any]] = sorted(
            shown.get("barriers", []), key=lambda barrier: ("arrived" not in barrier, barrier["name"])
        )
        self.workers: list[dict[str, Any]] = shown.get("workers", [])
        waits = shown.get("explanation", {}).get("waits", [])
        self.silent = {name: wait for wait in waits if wait["what"].startswith(SILENT) for name in wait["missing"]}
        self.missing: dict[str, str] = {}
        for barrier in self.barriers:
            self.missing.update(dict.fromkeys(barrier.get("missing", ()), barrier["name"]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        head = [self._header(), *self._sentence(console, width)]
        curves = curve_table(self.curves, width) if self.height is None or self.height >= LOW else None
        taken = len(head) + (0 if curves is None else 1 + curves.row_count)
        left = None if self.height is None else max(0, self.height - taken)
        barriers = len(self.barriers)
        if left is not None:
            barriers = min(barriers, max(1, left // 3 - 2))
        yield from (_fit(line, width) for line in head)
        if curves is not None:
            yield Text()
            yield curves
        if self.barriers:
            yield Text()
            yield self._barrier_table(self.barriers[:barriers], width)
            left = None if left is None else left - barriers - 2
            if barriers < len(self.barriers):
                yield Text(f"and {len(self.barriers) - barriers} more barriers", style="dim")
                left = None if left is None else left - 1
        if not self.workers:
            return
        rows = len(self.workers) if left is None else max(0, min(len(self.workers), left - 3))
        yield Text()
        if rows:
            yield self._worker_table(sorted(self.workers, key=self._place)[:rows], width)
        yield _fit(self._counts(rows), width)

    # -- the top ----------------------------------------------------------------------------------------------------

    def _header(self) -> Text:
        shown = self.shown
        line = Text(plain(shown["run"]), style="bold")
        phase = str(shown.get("phase", ""))
        line.append(f"  {plain(phase)}", {"Open": "green", "Closed": "red"}.get(phase, "yellow"))
        for name in ("entry", "term", "generation"):
            if name in shown:
                line.append(f"  {name} ", "default not bold dim")
                line.append(f"{shown[name]:,}", "default not bold")
        if shown.get("host"):
            line.append("  host ", "default not bold dim")
            line.append(f"{plain(shown['host'])} {plain(shown.get('address', ''))}", "default not bold")
        return line

    def _sentence(self, console: Console, width: int) -> list[Text]:
        """At most a few lines of it: the tables below tell the same in full."""
        sentence = Text(plain(self.shown["explanation"]["sentence"]), style="yellow" if self._waits() else "green")
        lines = list(sentence.wrap(console, width))
        most = SENTENCE_LINES if self.height is None or self.height >= LOW else 1
        if self.height is not None and len(lines) > most:
            lines = lines[:most]
            lines[-1].truncate(max(1, width - 1))
            lines[-1].append("…")
        if self.trouble:
            lines.insert(0, Text(plain(self.trouble), style="bold red"))
        return lines

    def _waits(self) -> bool:
        return bool(self.shown["explanation"]["waits"]) or self.shown.get("phase") != "Open"

    # -- barriers ---------------------------------------------------------------------------------------------------

    def _barrier_table(self, barriers: list[dict[str, Any]], width: int) -> Table:
        wide = width >= WIDE
        rates = self.rates if wide else {}
        table = _table(wide)
        table.add_column("barrier", style="bold", no_wrap=True, overflow="ellipsis", max_width=32 if wide else 14)
        for name in ("gen", "step", "passed", *(("per s",) if rates else ()), "aborted", "here"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("longest", justify="right", no_wrap=True)
        last = "last to come" if wide else "last"
        table.add_column(last, no_wrap=True, overflow="ellipsis", max_width=24 if wide else 10)
        table.add_column("missing", ratio=1)
        expected = self.shown.get("taking_part")
        for barrier in barriers:
            open_ = "arrived" in barrier
            names = [plain(name) for name in barrier.get("missing", ())]
            here = f"{barrier['arrived']:,}" + ("" if expected is None else f"/{expected:,}") if open_ else ""
            absent = (expected - barrier["arrived"]) if open_ and expected is not None else len(names)
            table.add_row(
                Text(plain(barrier["name"])),
                f"{barrier['generation']:,}",
                "" if barrier["step"] < 0 else f"{barrier['step']:,}",
                f"{barrier['released']:,}",
                *((f"{rates.get(barrier['name'], 0.0):.1f}",) if rates else ()),
                Text(f"{barrier['aborted']:,}", style="red" if barrier["aborted"] else ""),
                here,
                said(barrier.get("longest_wait_s")),
                Text(plain(barrier.get("last_to_come") or "")),
                one_line(few(names, 8 if wide else 3, max(absent, len(names))), "yellow"),
            )
        return table

    # -- workers ----------------------------------------------------------------------------------------------------

    def _place(self, worker: dict[str, Any]) -> tuple[int, int, str]:
        """Silent or stuck, then waited for, then all who are here, then those who were lost, then those who left."""
        if worker["state"] in GONE:
            return (4 if worker["state"] == "Left" else 3), worker["rank"], worker["id"]
        if worker["id"] in self.silent or worker["stuck_s"]:
            return 0, worker["rank"], worker["id"]
        return (1 if worker["id"] in self.missing else 2), worker["rank"], worker["id"]

    def _worker_table(self, workers: list[dict[str, Any]], width: int) -> Table:
        wide = width >= WIDE
        metric = self.metric if wide else ""
        table = _table(wide)
        table.add_column("rank", justify="right", no_wrap=True)
        table.add_column("worker", no_wrap=True, overflow="ellipsis", max_width=32 if wide else 18)
        table.add_column("state", no_wrap=True)
        for name in ("step", "progress", "beat", "losses", *(("gpu", "mem") if wide else ())):
            table.add_column(name, justify="right", no_wrap=True)
        if metric:
            table.add_column(plain(metric), justify="right", no_wrap=True, overflow="ellipsis", max_width=16)
        table.add_column("", ratio=1)
        for worker in workers:
            here = worker["state"] not in GONE
            style = "" if here else "dim"
            beat_style = "bold yellow" if worker["id"] in self.silent else ""
            table.add_row(
                str(worker["rank"]) if here else "",
                Text(plain(worker["id"])),
                Text(plain(worker["state"]), style=STATES.get(worker["state"], "")),
                *(_count(worker, name) for name in ("step", "progress")),
                Text(said(worker["silent_s"]) if here else "", style=beat_style),
                Text(str(worker["losses"] or ""), style="red"),
                *((_share(worker, name) for name in ("gpu", "memory")) if wide else ()),
                *((_measured(worker, metric),) if metric else ()),
                self._doing(worker),
                style=style,
            )
        return table

    def _doing(self, worker: dict[str, Any]) -> Text:
        if worker["state"] in GONE:
            return one_line(worker["reason"])
        if (wait := self.silent.get(worker["id"])) is not None:
            then = wait["then"].removeprefix("it is ")
            left_us = wait["left_us"]
            soon = "at any moment" if left_us == 0 else f"in {said((left_us or 0) / 1e6)}"
            return one_line("silent" if left_us is None else f"silent: {then} {soon}", "bold yellow")
        if worker["stuck_s"]:
            return one_line(f"stuck for {said(worker['stuck_s'])}", "bold red")
        if worker["id"] in self.missing:
            elsewhere = ", waits at another" if worker["waits"] else ""
            return one_line(f"awaited at {self.missing[worker['id']]}{elsewhere}", "yellow")
        if worker["waits"]:
            return one_line("waits", "cyan")
        return one_line(worker.get("task", ""))

    def _counts(self, rows: int) -> Text:
        """How many there are in each state, and how many of them are not on the page."""
        hidden = len(self.workers) - rows
        line = Text(f"{len(self.workers):,} workers", style="dim")
        if hidden:
            line.append(f" ({hidden:,} not shown)")
        line.append(": ")
        counts = Counter(worker["state"] for worker in self.workers)
        for index, state in enumerate(sorted(counts, key=lambda state: (state in GONE, -counts[state]))):
            line.append(", " if index else "")
            line.append(f"{counts[state]:,} {plain(state)}", STATES.get(state, ""))
        return line


def _table(wide: bool) -> Table:
    between = (0, 2 if wide else 1, 0, 0)
    return Table(box=None, pad_edge=False, header_style="dim", expand=True, padding=between)


def _fit(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


def _count(worker: dict[str, Any], name: str) -> str:
    return f"{worker[name]:,}" if name in worker else ""


def _share(worker: dict[str, Any], name: str) -> str:
    return f"{worker[name]:.0%}" if worker.get(name) else ""


def _measured(worker: dict[str, Any], metric: str) -> str:
    value = worker.get("metrics", {}).get(metric)
    return "" if value is None or worker["state"] in GONE else number(value)
