"""Plots as one HTML page, with the numbers beside the curves: written today, it can be opened in ten years."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from quoracy.plots.picture import FONT, svg
from quoracy.plots.plot import Plot, clean, unbroken
from quoracy.plots.scale import number

PAGE_STYLE: Final = (
    ":root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--soft:#59636e;--rule:#d9dee3}"
    "@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#e6edf3;--soft:#9aa4af;--rule:#30363d}}"
    f"body{{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 {FONT}}}"
    "main{max-width:800px;margin:0 auto;padding:24px 20px 48px}h1{font-size:24px}h2{font-size:17px;margin:36px 0 4px}"
    "svg{display:block;width:100%;height:auto}p,summary{color:var(--soft)}summary{cursor:pointer;margin-top:12px}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin-top:8px}"
    "th,td{padding:4px 14px 4px 0;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}"
    "th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left}"
)


def page(title: str, plots: Sequence[Plot], notes: Sequence[str] = ()) -> str:
    """One HTML page: each plot with where its curves begin and end, and all values to unfold."""
    name = escape(clean(title))
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{name}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>",
        *(f"<p>{escape(clean(note))}</p>" for note in notes),
    ]
    for plot in plots:
        parts += [f"<h2>{escape(clean(plot.title))}</h2>", svg(plot, titled=False), _ends_table(plot)]
        parts += ["<details><summary>All values</summary>", _values_table(plot), "</details>"]
    return "\n".join([*parts, "</main>\n</body>\n</html>\n"])


def _ends_table(plot: Plot) -> str:
    rows = []
    for series in plot.series:
        known = [point for stretch in unbroken(series.points) for point in stretch]
        values = [y for _, y in known]
        told = [values[0], values[-1], min(values), max(values)] if values else []
        rows.append([clean(series.name), f"{len(known):,}", *map(number, told)])
    return _table(["", "points", "first", "last", "lowest", "highest"], rows)


def _values_table(plot: Plot) -> str:
    known = [dict(point for stretch in unbroken(series.points) for point in stretch) for series in plot.series]
    rows = [
        [number(x), *(number(values[x]) if x in values else "" for values in known)]
        for x in sorted({x for values in known for x in values})
    ]
    return _table([clean(plot.x_label), *(clean(series.name) for series in plot.series)], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
