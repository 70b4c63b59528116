"""The pages that are made from the code say what the code says, and we would notice if they did not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from tests.core import tally

from quoracy.core.errors import CATALOG, ConfigError
from quoracy.core.federated.state import OVER, Phase
from quoracy.core.federated.table import RUN
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Kind, Refuse, Table, To
from quoracy.docs import pages, stale, write
from quoracy.docs.__main__ import main
from quoracy.docs.diagram import edges, mermaid
from quoracy.docs.excerpts import excerpt, with_excerpts
from quoracy.docs.fields import attribute_docs

ROOT = Path(__file__).parents[2]
TABLES = [table for kind in (*KINDS, tally.KIND) for table in kind.tables]


def test_no_page_is_stale() -> None:
    assert stale(ROOT) == [], "run: python -m quoracy.docs"


def with_other_table(kind: Kind) -> Kind:
    """The kind with one reason changed, deep inside one table."""
    first, *rest = kind.tables
    rows = dict(first.rows)
    pair, row = next((pair, row) for pair, row in rows.items() if isinstance(row, To | Refuse))
    rows[pair] = msgspec.structs.replace(row, why="for another reason")
    other = Table(first.name, first.states, first.events, first.start, rows)
    return msgspec.structs.replace(kind, tables=(other, *rest))


def test_a_changed_table_makes_its_page_stale() -> None:
    for kind in KINDS:
        assert stale(ROOT, [with_other_table(kind)]) == [f"docs/machines/{kind.name}.md"]


def test_a_page_changed_by_hand_is_stale_until_it_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    made = write(tmp_path, [tally.KIND])
    reference = ["docs/reference/errors.md", "docs/reference/ports.md", "docs/reference/quoracy.toml"]
    assert made == ["docs/machines/tally.md", *reference]
    assert stale(tmp_path, [tally.KIND]) == []
    page = tmp_path / "docs/machines/tally.md"
    page.write_text(page.read_text(encoding="utf-8").replace("adds up", "adds down"), encoding="utf-8")
    assert stale(tmp_path, [tally.KIND]) == ["docs/machines/tally.md"]
    assert write(tmp_path, [tally.KIND]) == ["docs/machines/tally.md"]
    assert stale(tmp_path, [tally.KIND]) == []


def test_checking_exits_with_1_and_names_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert "stale: docs/machines/cluster.md" in capsys.readouterr().out
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path / "docs")]) == 2


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_pages_do_not_depend_on_the_order_of_hashes(seed: str) -> None:
    command = [sys.executable, "-m", "quoracy.docs", "--check", "--root", str(ROOT)]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- diagrams ------------------------------------------------------------------------------------------------------


def drawn(text: str, table: Table) -> set[tuple[str, str, str]]:
    """(source, event, target) of every arrow in a diagram, read back from its text, boxes opened again."""
    boxes = {name: members.split(", ") for members, name in re.findall(r'state "any of: (.+?)" as (\w+)', text)}
    arrows = set()
    for start, end, label in re.findall(r"^ *(\w+) --> (\w+) : (.+)$", text, re.MULTILINE):
        for source in boxes.get(start, [start]):
            target = source if end == start else end
            arrows |= {(source, said.split(" (")[0], target) for said in label.split("<br/>")}
    return arrows


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_diagram_shows_every_edge_of_its_table_and_no_other(table: Table) -> None:
    wanted = {(source.value, event, target.value) for source, event, _, target in edges(table)}
    assert drawn(mermaid(table), table) == wanted


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_diagram_names_every_state(table: Table) -> None:
    states = {state.value for state in table.states}
    assert states <= set(re.findall(r"^ {4}(\w+)$", mermaid(table), re.MULTILINE))


def test_a_page_lists_every_pair_of_its_tables() -> None:
    for kind in KINDS:
        page = pages(ROOT, [kind])[f"docs/machines/{kind.name}.md"]
        for table in kind.tables:
            heads = "| event | " + " | ".join(state.value for state in table.states) + " |"
            overview = page.partition(heads)[2].partition("\n\n")[0]
            assert overview.count("\n| ") - 1 == len(table.events)
            assert overview.count(" |") == (len(table.events) + 1) * (len(list(table.states)) + 1)


def test_every_code_is_on_the_page_of_codes() -> None:
    page = pages(ROOT)["docs/reference/errors.md"]
    assert [code for code in CATALOG if f"| `{code}` |" not in page] == []


def test_every_setting_of_every_kind_says_why() -> None:
    for kind in KINDS:
        fields = kind.config.__struct_fields__
        assert [name for name in fields if not attribute_docs(kind.config).get(name)] == [], kind.name


def test_every_piece_of_python_in_a_page_is_taken_from_a_file() -> None:
    loose = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        lines = page.read_text(encoding="utf-8").splitlines()
        loose += [
            f"{page.relative_to(ROOT)}:{number}"
            for number, (above, line) in enumerate(pairwise(lines), 2)
            if line.startswith("```python") and not above.startswith("<!-- source: ")
        ]
    assert loose == []


# -- excerpts ------------------------------------------------------------------------------------------------------

SOURCE = '''
LIMIT = 3


class Box:
    """Holds things."""

    @property
    def size(self) -> int:
        return LIMIT


class Colour(Enum):
    RED = "red"
'''
PAGE = "Text.\n\n<!-- source: box.py LIMIT Box.size -->\n```python\nold\n```\n\nMore.\n"


def test_a_page_shows_its_source_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "box.py").write_text(SOURCE, encoding="utf-8")
    fresh = with_excerpts(PAGE, tmp_path, "page.md")
    assert fresh is not None
    assert "LIMIT = 3\n\n\n@property\ndef size(self) -> int:\n    return LIMIT\n```\n\nMore.\n" in fresh
    assert with_excerpts(fresh, tmp_path, "page.md") == fresh


def test_a_page_without_excerpts_is_left_alone(tmp_path: Path) -> None:
    assert with_excerpts("Text.\n", tmp_path, "page.md") is None


def test_a_name_that_is_gone_is_an_error_of_the_page() -> None:
    with pytest.raises(ConfigError, match=r"page\.md.*'Box\.weight'"):
        excerpt(SOURCE, ["Box.weight"], "page.md: box.py")


def test_short_things_stand_together() -> None:
    assert excerpt("A = 1\nB = 2\n", ["A", "B"], "here") == "A = 1\nB = 2\n"


def test_an_enum_is_found_by_its_name() -> None:
    assert excerpt(SOURCE, ["Colour"], "here") == 'class Colour(Enum):\n    RED = "red"\n'


def test_the_picture_of_a_federated_run_has_every_arrow_of_its_table() -> None:
    """It was drawn by hand, with words of its own."""
    drawn = (ROOT / "docs" / "federated.md").read_text(encoding="utf-8").partition("```mermaid")[2].partition("```")[0]
    arrows = set(re.findall(r"^ +(\w+) --> (\w+)", drawn, re.MULTILINE))
    moves = {(source.value, target.value) for source, _, _, target in edges(RUN) if source is not target}
    stops = {(source, target) for source, target in moves if target == Phase.STOPPED.value}
    assert {source for source, _ in stops} == {phase.value for phase in Phase} - {phase.value for phase in OVER}
    assert arrows == (moves - stops) | {("any", Phase.STOPPED.value)}
