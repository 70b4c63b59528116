"""Federated rounds for people: a line for each, and their metrics as curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from quoracy.cli.asking import few, one_line, plain, said
from quoracy.core.errors import ConfigError
from quoracy.plots import Plot, Series, number, page, spark, svg

MOST_NAMES = 4
MOST_EPOCHS = 24
"""Of a small curve; those before are in ``--json`` and ``--plot``."""


def figures(row: dict[str, Any]) -> dict[str, float]:
    """What was measured of a round: by the coordinator, and under its own name what participants sent."""
    sent = {f"{name} (participants)": value for name, value in row["metrics"].items() if not isinstance(value, list)}
    return dict(row["evaluation"]) | sent


def drawn(row: dict[str, Any]) -> list[str]:
    """Everybody who had a place in the round: it counts, or it is said why not."""
    return sorted({*row["admitted"], *(dropped["participant"] for dropped in row["dropped"])})


def drawn_line(row: dict[str, Any]) -> Text:
    names = [plain(name) for name in drawn(row)]
    return Text(f"round {row['round']:>4}  {len(names)} drawn: {', '.join(names)}")


def round_line(row: dict[str, Any]) -> Text:
    line = Text(f"round {row['round']:>4}  ")
    line.append(f"{row['updates']} updates, {row['samples']:,} samples  ")
    line.append("  ".join(f"{plain(name)} {number(value)}" for name, value in figures(row).items()), "cyan")
    line.append(f"  {said(row['done_s'] - row['began_s'])}", "dim")
    if row["attempts"] > 1:
        line.append(f"  taken up {row['attempts']} times", "yellow")
    for note in notes(row):
        line.append(f"\n            {note}", "yellow")
    return line


def notes(row: dict[str, Any]) -> list[str]:
    """Which updates do not count, or not for all they claim, and why."""
    dropped = [f"not counted: {plain(one['participant'])}: {plain(one['why'])}" for one in row["dropped"]]
    clipped = [
        f"clipped: {plain(one['participant'])} claims {one['claimed']:,} samples and counts for {one['counted']:,}"
        for one in row["clipped"]
    ]
    return dropped + clipped


def rounds_table(rows: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in figures(row)))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("round", "updates", "samples", *names, "took"):
        table.add_column(plain(column), justify="right", no_wrap=True)
    table.add_column("not counted or clipped, and why", min_width=24)
    for row in rows:
        known = figures(row)
        table.add_row(
            str(row["round"]), str(row["updates"]), f"{row['samples']:,}",
            *(number(known[name]) if name in known else "" for name in names),
            said(row["done_s"] - row["began_s"]), one_line("; ".join(notes(row))),
        )  # fmt: skip
    return table


def measured(row: dict[str, Any]) -> dict[str, str]:
    """The metrics of a training in a word each: numbers, and the shapes of arrays."""
    small = {
        name: number(value) if not isinstance(value, list) else _shape(value) for name, value in row["metrics"].items()
    }
    large = {name: " x ".join(map(str, shape)) for name, shape in row["arrays"]["shapes"].items()}
    return small | large


def _shape(value: Any) -> str:
    sizes = []
    while isinstance(value, list):
        sizes.append(str(len(value)))
        value = value[0] if value else None
    return " x ".join(sizes)


def trainings_table(rows: list[dict[str, Any]]) -> Table:
    """What one participant reported, a row for each training; its epochs as small curves."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("round", "samples"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("metrics", "epoch by epoch", "what became of it"):
        table.add_column(column)
    for row in rows:
        metrics = "\n".join(f"{plain(name)} {plain(value)}" for name, value in measured(row).items())
        epochs = Text("\n").join(_epochs(name, values) for name, values in row["history"].items())
        became = Text("\n".join(_became(row)))
        table.add_row(str(row["round"]), f"{row['samples']:,}", Text(metrics), epochs, became)
    return table


def _epochs(name: str, values: list[float]) -> Text:
    line = Text(plain(name))
    if values:
        line.append(f" {spark(list(values[-MOST_EPOCHS:]))} ", "cyan")
        line.append(" to ".join(dict.fromkeys(number(value) for value in (values[0], values[-1]))))
    return line


def _became(row: dict[str, Any]) -> list[str]:
    fate = plain(row["fate"]).lower() + (f": {plain(row['why'])}" if row["why"] else "")
    return [fate, *(plain(warning) for warning in row["warnings"])]


def epoch_curves(rows: list[dict[str, Any]], title: str) -> list[Plot]:
    """A plot for each list of a history, over all epochs of all trainings that are kept."""
    plots = []
    for name in dict.fromkeys(name for row in rows for name in row["history"]):
        values = [value for row in rows for value in row["history"].get(name, [])]
        points = [(float(at + 1), value) for at, value in enumerate(values)]
        plots.append(Plot(f"{title}: {name}", "epochs", name, [Series(name, points)]))
    return plots


def curves(rows: list[dict[str, Any]], title: str, only: str = "") -> list[Plot]:
    """A plot for each metric; ``only`` for that one."""
    names = list(dict.fromkeys(name for row in rows for name in figures(row)))
    plots = []
    for name in names:
        if only in ("", name):
            points = [(float(row["round"] + 1), figures(row)[name]) for row in rows if name in figures(row)]
            plots.append(Plot(f"{title}: {name}", "rounds", name, [Series(name, points)]))
    return plots


def write_plots(path: Path, title: str, plots: list[Plot], notes: list[str]) -> None:
    """As HTML, or as an SVG of the first plot, by the name of the file."""
    if not plots:
        raise ConfigError("--plot", str(path), "there is nothing to plot yet: no round is over, or none was measured")
    content = svg(plots[0]) if path.suffix == ".svg" else page(title, plots, notes)
    try:
        path.write_text(content)
    except OSError as error:
        raise ConfigError("--plot", str(path), f"cannot be written ({error.strerror})") from None


def who(names: list[str]) -> str:
    return few(names, MOST_NAMES)
