"""The page of a witnessed run: its phase and what is left of it, who attested, what is missing, the loss, the members.

It fits whatever terminal there is: the curve gets what the members leave, and of the members those that are missed or
silent come first.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from quoracy.cli.asking import few, one_line, plain, said
from quoracy.plots import Drawing, Plot, Series, number, spark

PHASES: Final = {
    "WaitingForMembers": "yellow", "Warmup": "cyan", "RoundTrain": "green", "RoundWitness": "green", "Cooldown": "cyan",
    "Paused": "bold red", "Finished": "dim",
}  # fmt: skip
STATES: Final = {
    "Pending": "cyan", "Warming": "cyan", "InStep": "green", "Resyncing": "yellow", "Left": "dim", "Lost": "red",
    "Removed": "bold red", "Done": "dim", "Absent": "dim",
}  # fmt: skip
GONE: Final = frozenset({"Left", "Lost", "Removed", "Done", "Absent"})
WIDE: Final = 90
NARROW: Final = 60
LOW: Final = 16
"""Below so many lines only what matters most has a line of its own."""
SENTENCE_LINES: Final = 3
CURVE_LINES: Final = 8
"""Of the loss, where there is room for it; else it is one line."""
CURVE_FRAME: Final = 5
"""Lines around it: its name, the axis, ticks, the name of the axis, and where it stands."""
NAMES: Final = 6


class WitnessedPage:
    """One witnessed run. ``height``: how many lines there are; None for as many as it takes."""

    def __init__(self, shown: dict[str, Any], height: int | None, trouble: str) -> None:
        self.shown = shown
        self.height = height
        self.trouble = trouble
        self.current: dict[str, Any] = shown.get("current") or {}
        self.members: list[dict[str, Any]] = shown.get("members", [])
        self.sealed: list[dict[str, Any]] = shown.get("sealed", [])
        self.witnesses: list[str] = self.current.get("witnesses", [])
        self.attested = set(self.current.get("attested", ()))
        self.assignments: list[dict[str, Any]] = self.current.get("assignments", [])
        self.work: dict[str, list[dict[str, Any]]] = {}
        for one in self.assignments:
            self.work.setdefault(one["member"], []).append(one)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        head = [self._header(), self._place(), *self._sentence(console, width), *self._round(), self._account()]
        for line in head:
            line.truncate(width, overflow="ellipsis")
            yield line
        left = None if self.height is None else max(0, self.height - len(head))
        low = self.height is not None and self.height < LOW
        wanted = len(self.members) + 3 if self.members else 0
        room = None if left is None else left - min(wanted, max(6, left // 2))
        curve, taken = (None, 0) if low else self._loss(width, room)
        if curve is not None:
            yield Text()
            yield curve
        if not self.members:
            return
        left = None if left is None else max(0, left - taken - 3)
        rows = len(self.members) if left is None else min(len(self.members), left)
        yield Text()
        if rows:
            yield self._table(sorted(self.members, key=self._order)[:rows], width)
        counts = self._counts(rows)
        counts.truncate(width, overflow="ellipsis")
        yield counts

    # -- the top ----------------------------------------------------------------------------------------------------

    def _header(self) -> Text:
        shown = self.shown
        line = Text(plain(shown["run"]), style="bold")
        phase = str(shown.get("phase", ""))
        line.append(f"  {plain(phase)}", PHASES.get(phase, "yellow"))
        if shown.get("left_s") is not None:
            line.append(f"  {said(shown['left_s'])} left", "default not bold")
        for name in ("entry", "term"):
            line.append(f"  {name} ", "default not bold dim")
            line.append(f"{shown.get(name, 0):,}", "default not bold")
        line.append("  host ", "default not bold dim")
        line.append(f"{plain(shown.get('host', ''))} {plain(shown.get('address', ''))}", "default not bold")
        return line

    def _place(self) -> Text:
        shown = self.shown
        total = int(shown.get("total_steps") or 0)
        line = Text(f"epoch {shown.get('epoch', 0)}, round {shown.get('round', 0)}", style="bold")
        line.append(f"  step {shown.get('step', 0):,}" + (f" of {total:,}" if total else ""), "default not bold")
        needed = f"  {shown.get('here', 0)} here, {shown.get('min_clients', 0)} needed"
        line.append(needed, "default not bold dim")
        return line

    def _sentence(self, console: Console, width: int) -> list[Text]:
        calm = self.shown.get("phase") in ("Warmup", "RoundTrain", "RoundWitness", "Cooldown", "Finished")
        sentence = Text(plain(self.shown["explanation"]["sentence"]), style="green" if calm else "yellow")
        lines = list(sentence.wrap(console, width))
        most = SENTENCE_LINES if self.height is None or self.height >= LOW else 1
        if self.height is not None and len(lines) > most:
            lines = lines[:most]
            lines[-1].truncate(max(1, width - 1))
            lines[-1].append("…")
        return [Text(plain(self.trouble), style="bold red"), *lines] if self.trouble else lines

    def _round(self) -> list[Text]:
        """Who attested the round that is open, who did not, and whose result is missing."""
        if not self.current:
            return []
        done = sum(1 for one in self.assignments if one["committed"])
        line = Text(f"results {done} of {len(self.assignments)}", style="bold")
        came = sorted(plain(name) for name in self.witnesses if name in self.attested)
        line.append(f"  attested by {len(came)} of {len(self.witnesses)} witnesses", "default not bold")
        line.append(f", {self.shown.get('quorum', 0)} are a quorum", "default not bold dim")
        lines = [line]
        if came and (self.height is None or self.height >= LOW):
            lines.append(Text(f"attested: {few(came, NAMES)}", style="green"))
        silent = sorted(plain(name) for name in self.witnesses if name not in self.attested)
        late = sorted(plain(one["member"]) for one in self.assignments if not one["committed"])
        missing = []
        if late:
            missing.append(f"results of {few(late, NAMES)}")
        if silent:
            missing.append(f"attestations of {few(silent, NAMES)}")
        if missing:
            lines.append(Text(f"missing: {'; '.join(missing)}", style="yellow"))
        return lines

    def _account(self) -> Text:
        account, point = self.shown.get("account") or {}, self.shown.get("checkpoint") or {}
        told = [f"{account.get(name, 0):,} {name}" for name in ("applied", "open", "waiting")]
        line = Text(f"batches: {', '.join(told)}", style="dim")
        skipped = account.get("skipped", 0)
        why = ", ".join(f"{count:,} {plain(reason)}" for reason, count in (account.get("reasons") or {}).items())
        line.append(f", {skipped:,} skipped{f' ({why})' if why else ''}", "bold red" if skipped else "")
        if point:
            line.append(f"  checkpoint: {plain(point['source'])}, step {point['step']:,}")
        return line

    # -- the loss ---------------------------------------------------------------------------------------------------

    def _loss(self, width: int, room: int | None) -> tuple[Drawing | Text | None, int]:
        """A curve with axes if there is room for one, else one line; and how many lines it takes."""
        counted = [row for row in self.sealed if row.get("counts", True) and not row.get("rolled_back")]
        points = [(float(row["step"] + 1), float(row["loss"])) for row in counted]
        if not points:
            return None, 0
        high = CURVE_LINES + CURVE_FRAME + 1
        if len(points) > 1 and width >= WIDE // 2 and (room is None or room >= high):
            return Drawing(Plot("", "step", "loss", [Series("loss", points)]), CURVE_LINES), high
        values: list[float | None] = [value for _, value in points[-max(8, width - 20) :]]
        line = Text("loss  ", style="dim")
        line.append(spark(values), "cyan")
        line.append(f"  {number(points[-1][1])}", "default")
        line.truncate(width, overflow="ellipsis")
        return line, 2

    # -- members ----------------------------------------------------------------------------------------------------

    def _missed(self, member: dict[str, Any]) -> bool:
        unattested = member["id"] in self.witnesses and member["id"] not in self.attested
        return unattested or any(not work["committed"] for work in self.work.get(member["id"], ()))

    def _order(self, member: dict[str, Any]) -> tuple[int, str]:
        if member["state"] in GONE:
            return (4 if member["state"] in ("Removed", "Lost") else 5), member["id"]
        if member.get("stuck_s") or member.get("strikes"):
            return 0, member["id"]
        if self._missed(member):
            return 1, member["id"]
        return (2 if member["state"] == "InStep" else 3), member["id"]

    def _table(self, members: list[dict[str, Any]], width: int) -> Table:
        wide, narrow = width >= WIDE, width < NARROW
        table = Table(box=None, pad_edge=False, header_style="dim", expand=True, padding=(0, 1 if narrow else 2, 0, 0))
        table.add_column("member", no_wrap=True, overflow="ellipsis", max_width=28 if wide else 12)
        table.add_column("state", no_wrap=True)
        for name in ("health", "strikes", *(("speed", "batches") if wide else ()), *(() if narrow else ("beat",))):
            table.add_column(name, justify="right", no_wrap=True)
        if not narrow:
            table.add_column("witness", no_wrap=True)
        table.add_column("", ratio=1)
        for one in members:
            here = one["state"] not in GONE
            table.add_row(
                Text(plain(one["id"])),
                Text(plain(one["state"]), style=STATES.get(one["state"], "")),
                self._health(one) if here else "",
                Text(str(one.get("strikes") or ""), style="red"),
                *((str(one.get("speed") or "") if here else "", self._batches(one)) if wide else ()),
                *(() if narrow else (said(one.get("silent_s")) if here else "", self._witness(one))),
                self._doing(one),
                style="" if here else "dim",
            )
        return table

    def _health(self, one: dict[str, Any]) -> Text:
        """How many of the witnesses held its last result. Those that had nothing to train have no score."""
        score, of = one.get("score"), one.get("of")
        if score is None or not of:
            return Text("")
        quorum = int(one.get("quorum") or self.shown.get("quorum") or 0)
        return Text(f"{score}/{of}", style="red" if score < min(quorum, of) else "green")

    def _batches(self, one: dict[str, Any]) -> str:
        work = [batches for each in self.work.get(one["id"], ()) for batches in each["batches"]]
        return f"{sum(end - first for first, end in work):,}" if work else ""

    def _witness(self, one: dict[str, Any]) -> Text:
        if one["id"] not in self.witnesses:
            return Text("")
        return Text("attested", style="green") if one["id"] in self.attested else Text("awaited", style="yellow")

    def _doing(self, one: dict[str, Any]) -> Text:
        if one["state"] in GONE:
            return one_line(one.get("reason", ""))
        if one.get("stuck_s"):
            return one_line(f"stuck for {said(one['stuck_s'])}", "bold red")
        measured = "  ".join(f"{name} {number(value)}" for name, value in sorted(one.get("metrics", {}).items()))
        work = self.work.get(one["id"])
        if not work:
            return one_line(measured)
        attempt = max(each["attempt"] for each in work)
        again = f" (attempt {attempt})" if attempt > 1 else ""
        doing = "done" if all(each["committed"] for each in work) else "trains"
        return one_line(f"{doing}{again}  {measured}".strip())

    def _counts(self, rows: int) -> Text:
        hidden = len(self.members) - rows
        line = Text(f"{len(self.members):,} members", style="dim")
        line.append(f" ({hidden:,} not shown): " if hidden else ": ")
        counts = Counter(one["state"] for one in self.members)
        for index, state in enumerate(sorted(counts, key=lambda state: (state in GONE, -counts[state]))):
            line.append(", " if index else "")
            line.append(f"{counts[state]:,} {plain(state)}", STATES.get(state, ""))
        return line
