"""A plot as an SVG that needs nothing else: no script, no font, nothing fetched; light or dark as the screen is."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from quoracy.plots.plot import Plot, Point, Series, clean, cut, end_of, unbroken, wide
from quoracy.plots.scale import Axis, axes, number

LIGHT: Final = ("#1f6fb4", "#c9510c", "#1a7f4b", "#8250c4", "#9a6700", "#bf3989", "#57606a", "#0e7c86")
DARK: Final = ("#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#d9a520", "#f778ba", "#a3adb8", "#39c5cf")
DASHES: Final = ("none", "7 4", "2 3")
"""When the colours begin again."""
DOTTED: Final = 30
"""A series with more points is a line whose dots are seen only under the mouse, and with"""
BARE: Final = 500
"""more than these it has none."""
WIDTH: Final = 760
HEIGHT: Final = 340
"""Of the area of the curves alone."""
LETTER: Final = 6.6
DIGIT: Final = 7.7
BOLD: Final = 8.4
"""How wide a letter is at 12 pixels, a digit and a bold one, in the wider fonts: only a screen could measure them."""
FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


class Frame(NamedTuple):
    """Where the curves are, in pixels, and how large all of it is."""

    left: float
    top: float
    right: float
    bottom: float
    x_axis: Axis
    y_axis: Axis

    def at(self, point: Point) -> Point:
        x = self.left + self.x_axis.share(point[0]) * (self.right - self.left)
        return x, self.bottom - self.y_axis.share(point[1]) * (self.bottom - self.top)


def svg(plot: Plot, *, titled: bool = True) -> str:
    """A picture that needs nothing else, light or dark as the reader's screen is. ``titled``: with the title in it."""
    x_axis, y_axis = axes(plot, 9, 6)
    edge = 20.0 if titled else 1.0
    legend, legend_bottom = _svg_legend(plot, edge, 54.0 if titled else 14.0)
    top = legend_bottom + (44 if plot.y_label else 20)
    left = edge + 8 + DIGIT * max(map(len, y_axis.labels))
    right = WIDTH - edge - 10 - BOLD * max((len(said) for _, _, said in _ends(plot, x_axis)), default=0)
    frame = Frame(left, top, right, top + HEIGHT, x_axis, y_axis)
    height = frame.bottom + (52 if plot.x_label else 34)
    title = escape(clean(plot.title))
    size = f'viewBox="0 0 {WIDTH} {height:.0f}"'
    parts = [
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<desc>{escape(clean(_described(plot)))}</desc>",
        f"<style>{_style()}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height:.0f}"/>',
    ]
    if titled:
        parts.append(f'<text class="title" x="20" y="30">{escape(cut(plot.title, 80))}</text>')
    parts += [*legend, *_svg_axes(plot, frame, edge)]
    for index, series in enumerate(plot.series):
        parts += _svg_series(plot, frame, index, series)
    return "\n".join([*parts, *_svg_ends(plot, frame), "</svg>"]) + "\n"


def _described(plot: Plot) -> str:
    """For those who cannot see it: what is drawn against what, and where each curve ends."""
    ends = [(series.name, end_of(series)) for series in plot.series]
    where = [f"{name} ends at {number(end[1])}" for name, end in ends if end is not None]
    return f"{plot.y_label} against {plot.x_label}: {'; '.join(where)}"


def _style() -> str:
    """Colours twice, without variables: not everything that shows an SVG knows those."""

    def scheme(ground: str, ink: str, soft: str, grid: str, colors: Sequence[str]) -> str:
        rules = f".plot .ground{{fill:{ground}}}.plot text{{fill:{soft}}}.plot .title,.plot .name{{fill:{ink}}}"
        rules += f".plot .grid{{stroke:{grid}}}.plot .base{{stroke:{soft}}}.plot circle{{stroke:{ground}}}"
        for index, color in enumerate(colors):
            rules += f".plot .l{index}{{stroke:{color}}}.plot .f{index},.plot text.f{index}{{fill:{color}}}"
        return rules

    shape = (
        f".plot text{{font:12px {FONT}}}.plot .title{{font-size:16px;font-weight:600}}.plot .end{{font-weight:600}}"
        ".plot .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
        ".plot .quiet{opacity:0}.plot .quiet:hover{opacity:1}"
        ".plot .grid,.plot .base{stroke-width:1;shape-rendering:crispEdges}"
        ".plot .middle{text-anchor:middle}.plot .right{text-anchor:end}"
    )
    light = scheme("#ffffff", "#1f2328", "#59636e", "#e6e9ed", LIGHT)
    dark = scheme("#0d1117", "#e6edf3", "#9aa4af", "#262c36", DARK)
    return f"{shape}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _svg_legend(plot: Plot, edge: float, top: float) -> tuple[list[str], float]:
    """The names, in as many rows as they need, and where they end."""
    parts: list[str] = []
    x, y = edge, top
    for index, series in enumerate(plot.series):
        name = cut(series.name, 60)
        room = 40 + LETTER * wide(name)
        if x > edge and x + room > WIDTH - edge:
            x, y = edge, y + 20
        parts.append(f'<path class="line {_pen(index)}" d="M{x:.1f} {y:.1f}h20"{_dash(index)}/>')
        full = f"<title>{escape(clean(series.name))}</title>" if name != series.name else ""
        parts.append(f'<text class="name" x="{x + 26:.1f}" y="{y + 4:.1f}">{full}{escape(name)}</text>')
        x += room
    return parts, y if parts else top - 20


def _svg_axes(plot: Plot, frame: Frame, edge: float) -> list[str]:
    parts = []
    left, right, bottom = frame.left, frame.right, frame.bottom
    for tick, label in zip(frame.y_axis.ticks, frame.y_axis.labels, strict=True):
        y = frame.at((frame.x_axis.low, tick))[1]
        parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
        parts.append(f'<text class="right" x="{left - 8:.1f}" y="{y + 4:.1f}">{label}</text>')
    parts.append(f'<path class="base" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>')
    for tick, label in zip(frame.x_axis.ticks, frame.x_axis.labels, strict=True):
        x = frame.at((tick, frame.y_axis.low))[0]
        parts.append(f'<path class="base" d="M{x:.1f} {bottom:.1f}v5"/>')
        parts.append(f'<text class="middle" x="{x:.1f}" y="{bottom + 20:.1f}">{label}</text>')
    if plot.y_label:
        parts.append(f'<text x="{edge:.1f}" y="{frame.top - 17:.1f}">{escape(cut(plot.y_label, 90))}</text>')
    if plot.x_label:
        middle = (left + right) / 2
        said = escape(cut(plot.x_label, 90))
        parts.append(f'<text class="middle" x="{middle:.1f}" y="{bottom + 41:.1f}">{said}</text>')
    return parts


def _svg_series(plot: Plot, frame: Frame, index: int, series: Series) -> list[str]:
    parts = []
    stretches = unbroken(series.points)
    count = sum(map(len, stretches))
    kind = f"f{index % len(LIGHT)}" + (" quiet" if count > DOTTED else "")
    for stretch in stretches:
        places = [frame.at(point) for point in stretch]
        if len(places) > 1:
            way = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            parts.append(f'<path class="line {_pen(index)}" d="M{way}"{_dash(index)}/>')
        if count <= BARE or len(places) == 1:
            for (x, y), point in zip(places, stretch, strict=True):
                told = f"{clean(series.name)}: {number(point[1])} ({clean(plot.x_label) or 'at'} {number(point[0])})"
                alone = kind if len(places) > 1 else kind.split()[0]
                dot = f'<circle class="{alone}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
                parts.append(f"{dot}<title>{escape(told)}</title></circle>")
    return parts


def _ends(plot: Plot, x_axis: Axis) -> list[tuple[float, int, str]]:
    """The last value of every curve that reaches the right side, whose it is, and as text."""
    ends = [(end_of(series), index) for index, series in enumerate(plot.series)]
    return [(end[1], index, number(end[1])) for end, index in ends if end is not None and end[0] == x_axis.high]


def _svg_ends(plot: Plot, frame: Frame) -> list[str]:
    """Beside the curves; moved apart where they would touch."""
    ends = sorted(((frame.at((0.0, value))[1], index, said) for value, index, said in _ends(plot, frame.x_axis)))
    apart = _apart([y for y, _, _ in ends], 14.0)
    return [
        f'<text class="end f{index % len(LIGHT)}" x="{frame.right + 9:.1f}" y="{y + 4:.1f}">{said}</text>'
        for y, (_, index, said) in zip(apart, ends, strict=True)
    ]


def _apart(heights: Sequence[float], least: float) -> list[float]:
    """Ascending heights, moved as little as it takes for neighbours to be ``least`` apart: those that would touch
    become a group around their middle, and groups that would touch become one."""
    groups: list[tuple[float, int]] = []
    for height in heights:
        middle, size = height, 1
        while groups and middle - least * size / 2 < groups[-1][0] + least * groups[-1][1] / 2:
            below, count = groups.pop()
            middle, size = (below * count + middle * size) / (count + size), count + size
        groups.append((middle, size))
    return [middle + least * (i - (size - 1) / 2) for middle, size in groups for i in range(size)]


def _pen(index: int) -> str:
    return f"l{index % len(LIGHT)}"


def _dash(index: int) -> str:
    dash = DASHES[index // len(LIGHT) % len(DASHES)]
    return "" if dash == "none" else f' stroke-dasharray="{dash}"'
