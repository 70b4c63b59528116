"""Pictures and pages: whole XML, nothing fetched, names that stay names, and in a browser nothing cut off or on top of
something else."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, sync_playwright

from quoracy.plots import Plot, Series, page, svg
from quoracy.plots.picture import BARE, DARK, DOTTED, LIGHT, _apart

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</title><script>alert(1)</script>\"'&\0\x1b"


def grown(name: str, top: float, count: int = 50) -> Series:
    return Series(name, [(x, top * (1 - math.exp(-x / 8))) for x in range(1, count + 1)])


ACCURACY = Plot(
    "Fashion-MNIST, 100 partitions", "round", "accuracy",
    [grown("IID", 0.88), grown("2 classes each", 0.79), grown("volume 1.02", 0.876), grown("central", 0.882)],
)  # fmt: skip
MANY = Plot("Many", "step", "loss", [grown(f"a series called {i}", i * 1e6, 20) for i in range(1, 20)])


def texts(drawn: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


# -- what is in it -------------------------------------------------------------------------------------------------


def test_a_picture_has_title_names_ticks_and_where_curves_end() -> None:
    said = texts(svg(ACCURACY))
    for wanted in ("Fashion-MNIST, 100 partitions", "IID", "central", "round", "accuracy", "0.0", "0.6", "40"):
        assert wanted in said, wanted
    assert f"{0.88 * (1 - math.exp(-50 / 8)):.4g}" in said
    assert "Fashion-MNIST, 100 partitions" not in texts(svg(ACCURACY, titled=False))


def test_a_line_goes_from_the_first_point_to_the_last() -> None:
    drawn = ElementTree.fromstring(svg(Plot("", "", "", [Series("a", [(0, 0), (1, 5), (2, 10)])])))
    (line,) = [path for path in drawn.iter(f"{SVG}path") if "L" in path.attrib["d"]]
    places = [tuple(map(float, pair.split())) for pair in line.attrib["d"].removeprefix("M").split("L")]
    grid = [path.attrib["d"] for path in drawn.iter(f"{SVG}path") if path.attrib["class"] == "grid"]
    bottom, top = (float(re.findall(r"[\d.]+", grid[at])[1]) for at in (0, -1))
    left, right = (float(re.findall(r"[\d.]+", grid[0])[at]) for at in (0, 2))
    middle = (pytest.approx((left + right) / 2, abs=0.1), pytest.approx((bottom + top) / 2, abs=0.1))
    assert places == [(left, bottom), middle, (right, top)]


def test_gaps_break_the_line_and_a_lonely_point_is_a_dot() -> None:
    points = [(0, 1.0), (1, 2.0), (2, math.nan), (3, 3.0), (4, math.inf), (5, 1.0), (6, 1.0)]
    drawn = svg(Plot("", "", "", [Series("a", points)]))
    assert len(re.findall(r'd="M[\d. ]+L', drawn)) == 2
    assert "nan" not in drawn
    assert "inf" not in drawn


@pytest.mark.parametrize(
    ("count", "dots", "quiet"), [(DOTTED, DOTTED, 0), (DOTTED + 1, DOTTED + 1, DOTTED + 1), (BARE + 1, 0, 0)]
)
def test_dots_are_for_few_points(count: int, dots: int, quiet: int) -> None:
    drawn = ElementTree.fromstring(svg(Plot("", "round", "", [grown("a", 1.0, count)])))
    circles = list(drawn.iter(f"{SVG}circle"))
    assert len(circles) == dots
    assert sum("quiet" in circle.attrib["class"] for circle in circles) == quiet
    if dots:
        assert circles[1][0].text == "a: 0.2212 (round 2)"


def test_more_series_than_colours_have_dashes() -> None:
    drawn = svg(MANY)
    assert len(set(re.findall(r'class="line (l\d)"', drawn))) == len(LIGHT) == len(DARK)
    assert drawn.count('stroke-dasharray="7 4"') == 2 * 8
    assert drawn.count('stroke-dasharray="2 3"') == 2 * 3


@pytest.mark.parametrize(
    "series", [[], [Series("none", [])], [Series("nan", [(0, math.nan)])], [Series("one", [(3, 7)])]]
)
def test_little_or_nothing_is_drawn_too(series: list[Series]) -> None:
    ElementTree.fromstring(svg(Plot("Empty", "x", "y", series)))
    assert "<table>" in page("Empty", [Plot("Empty", "x", "y", series)])


def test_names_stay_names() -> None:
    evil = Plot(EVIL, EVIL, EVIL, [Series(EVIL, [(0, 0), (1, 1)])])
    drawn = svg(evil)
    assert any("<script>alert(1)</script>" in said for said in texts(drawn))
    for made in (drawn, page(EVIL, [evil], [EVIL])):
        assert "<script" not in made
        assert not re.search("[\0\x1b]", made)


def test_nothing_is_fetched_and_nothing_runs() -> None:
    made = page("Two", [ACCURACY, MANY], ["a note"])
    assert set(re.findall(r"\w+://[^\"' ]*", made)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|link|img|iframe|image|use)\b|@import|url\(|\bon\w+=", made)


def test_a_page_has_every_value() -> None:
    plot = Plot("Loss", "round", "", [Series("a", [(1, 0.5), (2, 0.25)]), Series("b", [(2, 8.0), (3, math.nan)])])
    made = page("Run <1>", [plot], ["a & b"])
    assert "<h1>Run &lt;1&gt;</h1>" in made
    assert "<p>a &amp; b</p>" in made
    assert "<tr><th>round</th><th>a</th><th>b</th></tr>" in made
    assert "<tr><td>1</td><td>0.5</td><td></td></tr>\n<tr><td>2</td><td>0.25</td><td>8</td></tr>\n</tbody>" in made
    assert "<tr><td>a</td><td>2</td><td>0.5</td><td>0.25</td><td>0.25</td><td>0.5</td></tr>" in made


def test_labels_that_would_touch_are_moved_apart_around_their_middle() -> None:
    assert _apart([10.0, 100.0], 14.0) == [10.0, 100.0]
    assert _apart([50.0, 50.0], 14.0) == [43.0, 57.0]
    assert _apart([50.0, 50.0, 65.0], 14.0) == pytest.approx([41.0, 55.0, 69.0])
    assert _apart([], 14.0) == []


# -- in a browser --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found is not None, "these tests need chromium: .ci/tools browser"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


BOXES = """() => {
  const svg = document.querySelector('svg').getBoundingClientRect();
  return [...document.querySelectorAll('svg text')].map(text => {
    const box = text.getBoundingClientRect();
    return {said: text.textContent, left: box.left - svg.left, right: svg.right - box.right, top: box.top - svg.top,
            bottom: svg.bottom - box.bottom, x: box.left, y: box.top, wide: box.width, high: box.height};
  });
}"""


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """By more than the empty rims of two letters."""
    across = min(a["x"] + a["wide"], b["x"] + b["wide"]) - max(a["x"], b["x"])
    down = min(a["y"] + a["high"], b["y"] + b["high"]) - max(a["y"], b["y"])
    return bool(across > 1 and down > 4)


@pytest.mark.soak("browser")
@pytest.mark.parametrize("titled", [True, False])
@pytest.mark.parametrize("plot", [ACCURACY, MANY], ids=["accuracy", "many"])
def test_no_text_is_cut_off_or_on_top_of_another(browser: Browser, tmp_path: Path, plot: Plot, titled: bool) -> None:
    path = tmp_path / "plot.html"
    path.write_text(f"<!doctype html><body style='margin:0;width:760px'>{svg(plot, titled=titled)}")
    shown = browser.new_page(viewport={"width": 760, "height": 700})
    shown.goto(path.as_uri())
    boxes = shown.evaluate(BOXES)
    shown.close()
    assert len(boxes) > 10
    for box in boxes:
        assert min(box["left"], box["right"], box["top"], box["bottom"]) >= -1, box
    assert [(a["said"], b["said"]) for a, b in combinations(boxes, 2) if overlap(a, b)] == []


@pytest.mark.soak("browser")
@pytest.mark.parametrize(
    ("scheme", "ground", "line"), [("light", "rgb(255, 255, 255)", LIGHT[0]), ("dark", "rgb(13, 17, 23)", DARK[0])]
)
def test_a_page_is_light_or_dark_as_the_screen_is(
    browser: Browser, tmp_path: Path, scheme: Any, ground: str, line: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page("Runs", [ACCURACY, MANY], ["a note"]), encoding="utf-8")
    shown = browser.new_page(color_scheme=scheme)
    asked: list[str] = []
    complaints: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("console", lambda said: complaints.append(said.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.goto(path.as_uri())
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert shown.evaluate(style.format("body", "backgroundColor")) == ground
    assert shown.evaluate(style.format("svg .ground", "fill")) == ground
    red, green, blue = (int(line[at : at + 2], 16) for at in (1, 3, 5))
    assert shown.evaluate(style.format("svg .line", "stroke")) == f"rgb({red}, {green}, {blue})"
    shown.click("summary >> nth=0")
    assert shown.locator("details >> nth=0 >> tbody tr").count() == 50
    shown.close()
    assert asked == [path.as_uri()]
    assert complaints == []
