"""The page of a federated run: where it stands, how the rounds went, and who takes part.

As the page of a fleet it fits whatever terminal there is: the participants get the lines that are left, those that are
silent or stuck first, then those whose update is awaited.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from quoracy.cli.asking import one_line, plain, said
from quoracy.cli.rounds import figures
from quoracy.plots import number, spark

PHASES: Final = {"Round": "green", "Finished": "green", "Stopped": "red", "Paused": "bold red"}
STATES: Final = {
    "Training": "green", "Waiting": "cyan", "Quarantined": "bold red", "Lost": "red", "Left": "dim", "Done": "dim",
    "Absent": "dim",
}  # fmt: skip
GONE: Final = frozenset({"Lost", "Left", "Done", "Absent", "Quarantined"})
MAX_CURVES: Final = 4
WIDE: Final = 72
"""From so many columns on there is room for what is only nice to know."""
SENTENCE_LINES: Final = 3


class RoundsPage:
    """One federated run. ``height``: how many lines there are; None for as many as it takes."""

    def __init__(self, shown: dict[str, Any], height: int | None, trouble: str) -> None:
        self.shown = shown
        self.height = height
        self.trouble = trouble
        self.open: dict[str, Any] = shown.get("open") or {}
        self.participants: list[dict[str, Any]] = shown.get("participants", [])
        self.history: list[dict[str, Any]] = shown.get("history", [])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        head = [self._header(), self._place(), *self._sentence(console, width)]
        curves = self._curves(width >= WIDE)
        taken = len(head) + (1 + curves.row_count if curves.row_count else 0)
        for line in head:
            line.truncate(width, overflow="ellipsis")
            yield line
        if curves.row_count:
            yield Text()
            yield curves
        if not self.participants:
            return
        left = None if self.height is None else max(0, self.height - taken - 3)
        rows = len(self.participants) if left is None else min(len(self.participants), left)
        yield Text()
        if rows:
            yield self._table(sorted(self.participants, key=self._order)[:rows], width >= WIDE)
        yield self._counts(rows)

    def _header(self) -> Text:
        shown = self.shown
        line = Text(plain(shown["run"]), style="bold")
        phase = str(shown.get("phase", ""))
        line.append(f"  {plain(phase)}", PHASES.get(phase, "yellow"))
        for name in ("entry", "term"):
            line.append(f"  {name} ", "default not bold dim")
            line.append(f"{shown.get(name, 0):,}", "default not bold")
        line.append("  host ", "default not bold dim")
        line.append(f"{plain(shown.get('host', ''))} {plain(shown.get('address', ''))}", "default not bold")
        return line

    def _place(self) -> Text:
        """Round i of n, and what it has."""
        number_, of = int(self.shown.get("round", 0)), int(self.shown.get("rounds", 0))
        over = self.shown.get("phase") in ("Finished", "Stopped")
        where = "initial weights" if number_ < 0 else f"round {min(number_ + (not over), of)} of {of}"
        line = Text(where, style="bold")
        if self.open and number_ >= 0:
            line.append(f"  {self.open['admitted']} of {self.open['target']} updates", "default not bold")
            line.append(f", {self.open['offered']} looked at, {self.open['training']} train", "default not bold dim")
        line.append(
            f"  {self.shown.get('here', 0)} here, {self.shown.get('clients', 0)} needed", "default not bold dim"
        )
        return line

    def _sentence(self, console: Console, width: int) -> list[Text]:
        calm = self.shown.get("phase") in ("Round", "Closing", "Evaluating", "Finished")
        sentence = Text(plain(self.shown["explanation"]["sentence"]), style="green" if calm else "yellow")
        lines = list(sentence.wrap(console, width))
        if self.height is not None and len(lines) > SENTENCE_LINES:
            lines = lines[:SENTENCE_LINES]
            lines[-1].truncate(max(1, width - 1))
            lines[-1].append("…")
        return [Text(plain(self.trouble), style="bold red"), *lines] if self.trouble else lines

    def _curves(self, wide: bool) -> Table:
        """A line for each number that was measured, over the rounds that are shown."""
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True, overflow="ellipsis", max_width=28 if wide else 12)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        if wide:
            table.add_column(style="dim", no_wrap=True)
        names = list(dict.fromkeys(name for row in self.history for name in figures(row)))
        for name in names[:MAX_CURVES]:
            values = [figures(row).get(name) for row in self.history]
            known = [value for value in values if value is not None]
            between = (f"{number(min(known))} to {number(max(known))}",) if wide else ()
            table.add_row(one_line(name), spark(values), number(known[-1]), *between)
        if self.history:
            took = [row["done_s"] - row["began_s"] if row["done_s"] else None for row in self.history]
            done = [seconds for seconds in took if seconds is not None]
            if done:
                between = (f"{said(min(done))} to {said(max(done))}",) if wide else ()
                table.add_row("took", spark(took), said(done[-1]), *between)
        return table

    def _order(self, participant: dict[str, Any]) -> tuple[int, int]:
        if participant["state"] in GONE:
            return (3 if participant["state"] in ("Quarantined", "Lost") else 4), participant["seat"]
        if participant["stuck_s"]:
            return 0, participant["seat"]
        return (1 if participant["state"] == "Training" else 2), participant["seat"]

    def _table(self, participants: list[dict[str, Any]], wide: bool) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim", expand=True, padding=(0, 2, 0, 0))
        table.add_column("participant", no_wrap=True, overflow="ellipsis", max_width=28 if wide else 14)
        table.add_column("state", no_wrap=True)
        for name in ("epoch", "beat", "updates", "refused", "losses") if wide else ("beat",):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", ratio=1)
        fates = self.open.get("assignments", {})
        for one in participants:
            here = one["state"] not in GONE
            table.add_row(
                Text(plain(one["id"])),
                Text(plain(one["state"]), style=STATES.get(one["state"], "")),
                *((f"{one['epoch']:,}" if here and "epoch" in one else "",) if wide else ()),
                said(one["silent_s"]) if here else "",
                *(self._tally(one) if wide else ()),
                self._doing(one, str(fates.get(one["id"], ""))),
                style="" if here else "dim",
            )
        return table

    def _tally(self, one: dict[str, Any]) -> tuple[Text, ...]:
        bad = (Text(str(one[name] or ""), style="red") for name in ("refused", "losses"))
        return (Text(f"{one['updates']:,}"), *bad)

    def _doing(self, one: dict[str, Any], fate: str) -> Text:
        reported = self._reported(one.get("last"))
        if one["state"] in GONE:
            return one_line("  ".join(part for part in (one["reason"], reported) if part))
        if one["stuck_s"]:
            return one_line(f"stuck for {said(one['stuck_s'])}", "bold red")
        measured = "  ".join(f"{name} {number(value)}" for name, value in sorted(one.get("metrics", {}).items()))
        if fate == "Training":
            return one_line(f"{fate.lower()}  {measured}".strip())
        return one_line("  ".join(part for part in (fate.lower(), reported or measured) if part))

    def _reported(self, last: dict[str, Any] | None) -> str:
        """What its last training came to: its own numbers, and one of them epoch by epoch."""
        if last is None:
            return ""
        numbers = [f"{name} {number(value)}" for name, value in last["metrics"].items()]
        curve = [f"{last['curve']} by epoch {spark(last['epochs'])}"] if len(last["epochs"]) > 1 else []
        warned = [f"{last['warnings']} metrics left out"] if last["warnings"] else []
        return f"round {last['round']}: " + "  ".join([*numbers, *curve, *warned])

    def _counts(self, rows: int) -> Text:
        hidden = len(self.participants) - rows
        line = Text(f"{len(self.participants):,} participants", style="dim")
        line.append(f" ({hidden:,} not shown): " if hidden else ": ")
        counts = Counter(one["state"] for one in self.participants)
        for index, state in enumerate(sorted(counts, key=lambda state: (state in GONE, -counts[state]))):
            line.append(", " if index else "")
            line.append(f"{counts[state]:,} {plain(state)}", STATES.get(state, ""))
        return line
