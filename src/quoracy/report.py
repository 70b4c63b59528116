"""What a command that measures or proves something says at its end: a table for people, one object for programs.

With ``--json`` the last line printed is one object: ``command, ok, seconds, measurements, notes``. ``ok`` is false, and
the exit code is not 0, when an outcome or a target is missed.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.table import Table

Sense = Literal["at least", "at most"]


class Measurement(msgspec.Struct, frozen=True):
    """One figure. ``against`` says what it was measured beside, in the same run."""

    name: str
    value: float
    unit: str
    target: float | None = None
    sense: Sense = "at least"
    against: str = ""

    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value >= self.target if self.sense == "at least" else self.value <= self.target


class Report(msgspec.Struct):
    command: str
    seconds: float = 0.0
    measurements: list[Measurement] = []
    notes: list[str] = []
    failures: list[str] = []

    def ok(self) -> bool:
        return not self.failures and all(measurement.met() is not False for measurement in self.measurements)

    def as_json(self) -> str:
        shown: dict[str, Any] = {
            "command": self.command,
            "ok": self.ok(),
            "seconds": round(self.seconds, 3),
            "measurements": [
                {
                    "name": m.name, "value": m.value, "unit": m.unit, "target": m.target, "met": m.met(),
                    "against": m.against,
                }
                for m in self.measurements
            ],
            "notes": [*self.notes, *self.failures],
        }  # fmt: skip
        return msgspec.json.encode(shown).decode()

    def show(self, console: Console) -> None:
        if self.measurements:
            table = Table(title=self.command, title_justify="left")
            for column in ("figure", "value", "target", "", "against"):
                right = column in ("value", "target")
                table.add_column(column, justify="right" if right else "left", no_wrap=column == "figure")
            for m in self.measurements:
                target = "" if m.target is None else f"{m.sense} {_figure(m.target)}"
                mark = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[m.met()]
                table.add_row(m.name, f"{_figure(m.value)} {m.unit}", target, mark, m.against)
            console.print(table)
        for note in self.notes:
            console.print(note, highlight=False)
        for failure in self.failures:
            console.print(f"[red]failed:[/] {failure}", highlight=False)


def _figure(value: float) -> str:
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
