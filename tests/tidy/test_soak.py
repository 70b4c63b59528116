"""The parts of ``make soak``: each has a target, a line in the page and tests, and is run with the others."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.soak import PARTS, belongs, soaking

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_part_has_a_target_a_line_in_the_page_and_tests() -> None:
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if file != Path(__file__)]
    marked = {part for file in files for part in re.findall(r'mark\.soak\("(\w+)"', file.read_text(encoding="utf-8"))}
    together = re.search(r"^soak: ([^#]*)", MAKEFILE, re.MULTILINE)
    assert together is not None
    assert together[1].split() == [f"soak-{part}" for part in PARTS]
    for part in PARTS:
        assert f"QUORACY_SOAK={part} " in MAKEFILE
        assert f"| `make soak-{part}` |" in page
    assert marked == set(PARTS)


def item(*marks: pytest.MarkDecorator) -> Any:
    return SimpleNamespace(nodeid="test", iter_markers=lambda _name: [each.mark for each in marks])


def test_a_test_is_collected_where_it_belongs() -> None:
    plain, long = item(), item(pytest.mark.soak("faults"))
    both = item(pytest.mark.soak("faults", shorter=True))
    assert [belongs(each, "") for each in (plain, long, both)] == [True, False, True]
    assert [belongs(each, "faults") for each in (plain, long, both)] == [False, True, True]
    assert [belongs(each, "sim") for each in (plain, long, both)] == [False, False, False]


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (pytest.mark.soak("fautls"), "soak('fautls')"),
        (pytest.mark.soak(), "soak()"),
        (pytest.mark.soak("sim", short=True), "short=True"),
    ],
)
def test_a_part_that_does_not_exist_is_named(mark: pytest.MarkDecorator, said: str) -> None:
    with pytest.raises(pytest.UsageError, match="give it one of: sim, faults, hostile, integrations, browser") as error:
        belongs(item(mark), "")
    assert said in str(error.value)


def test_a_part_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORACY_SOAK", "1")
    with pytest.raises(pytest.UsageError, match="QUORACY_SOAK = '1': choose one of: sim"):
        soaking("sim")
    monkeypatch.setenv("QUORACY_SOAK", "sim")
    assert [soaking(part) for part in PARTS] == [True, False, False, False, False]
