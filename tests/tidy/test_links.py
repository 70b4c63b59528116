"""Every link and every file that a page names is there."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`((?:src|tests|docs|examples|proto|dashboard)/[\w./-]+)`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    return {slug(heading) for heading in _HEADING.findall(_FENCE.sub("", text))}


def broken(page: Path, root: Path) -> list[str]:
    """What the page names and is not there."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    missing = []
    for link in (first or second for first, second in _LINK.findall(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            missing.append(f"link {link}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            missing.append(f"anchor {link}")
    missing += [f"file {name}" for name in _NAMED.findall(text) if not (root / name).exists()]
    return missing


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_everything_that_a_page_names_is_there(page: Path) -> None:
    assert broken(page, ROOT) == []


def test_every_page_can_be_reached_from_the_map_of_the_pages() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "docs" / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        links = _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
        targets = [(first or second).partition("#")[0] for first, second in links]
        todo += [(page.parent / target).resolve() for target in targets if target and ":" not in target]
    unreached = [page.relative_to(ROOT).as_posix() for page in PAGES[1:] if page not in seen]
    assert unreached == []


def test_a_broken_link_anchor_or_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/there.md").write_text("# One `thing`\n", encoding="utf-8")
    page = tmp_path / "docs/page.md"
    page.write_text(
        "[a](there.md) [b](gone.md) [c](there.md#one-thing) [d](there.md#two) ![e](gone.svg)\n"
        "`docs/there.md` `src/gone.py`"
        '\n<img src="gone.png"> [f](https://example.org/x)\n```\n[g](not-a-link.md)\n```\n',
        encoding="utf-8",
    )
    found = broken(page, tmp_path)
    assert found == ["link gone.md", "anchor there.md#two", "link gone.svg", "link gone.png", "file src/gone.py"]


@pytest.mark.parametrize("path", sorted((ROOT / "docs/pictures").glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_whole_and_says_what_it_shows(path: Path) -> None:
    svg = ElementTree.parse(path).getroot()
    names = [child.tag.rpartition("}")[2] for child in svg]
    assert "viewBox" in svg.attrib
    assert {"title", "desc"} <= set(names)
