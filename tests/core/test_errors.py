"""The catalog: every no has a name, every name has a place on every door."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import quoracy
from quoracy.core import errors
from quoracy.core.codec import MAX_WHY, malformed
from quoracy.core.errors import CATALOG, ConfigError, EntriesGone, JournalCorrupt, JournalGap, QuoracyError, Refusal
from quoracy.doors.http.problems import OWN

SOURCE = Path(quoracy.__path__[0])
GRPC = {
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
}  # fmt: skip


def codes_said() -> set[tuple[str, str]]:
    """(file, code) of every literal first argument of Refusal(...) or Refuse(...), and of every ``code = ...``."""
    found: set[tuple[str, str]] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Refusal" | "Refuse"), args=[ast.Constant(value=str(code)), *_]):
                    found.add((path.name, code))
                case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                    found.add((path.name, code))
    return found


def classes() -> dict[str, type[QuoracyError]]:
    return {
        name: sort
        for name, sort in vars(errors).items()
        if inspect.isclass(sort) and issubclass(sort, QuoracyError) and sort.__module__ == errors.__name__
    }


def drawn_tree() -> dict[str, str]:
    """From the docstring: name -> the name of the one above it."""
    above: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^    ((?:[│├└─ ]{4})*)([A-Z]\w+)(?:\s\s+\S.*)?$", line):
            depth = len(found[1]) // 4
            path[depth:] = [found[2]]
            above[found[2]] = path[depth - 1] if depth else "Exception"
    return above


def test_the_scan_finds_refusals_all_over_the_source() -> None:
    files = {name for name, _ in codes_said()}
    assert {"members.py", "run.py", "host.py", "rules.py", "table.py", "collect.py", "batch.py"} <= files


def test_every_code_that_is_said_anywhere_is_in_the_catalog() -> None:
    """Or in the list of those that only HTTP has: a URL that is too long, a method that is not taken."""
    known = CATALOG.keys() | OWN.keys()
    assert {(file, code) for file, code in codes_said() if code not in known} == set()
    assert not CATALOG.keys() & OWN.keys()


def test_no_refusal_hides_its_code_in_a_variable_but_those_that_pass_one_on() -> None:
    """Otherwise the scan would miss it."""
    hidden = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Refusal"), args=[ast.Constant(), *_]):
                    pass
                case ast.Call(func=ast.Name(id="Refusal"), args=[first, *_]):
                    hidden.add((path.relative_to(SOURCE).as_posix(), ast.unparse(first)))
    assert {pair for pair in hidden if pair[0].startswith("core/")} == {("core/machine.py", "refuse.code")}


@pytest.mark.parametrize("code", CATALOG)
def test_a_code_has_a_place_on_every_door(code: str) -> None:
    entry = CATALOG[code]
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
    assert entry.meaning
    assert entry.grpc in GRPC
    assert 400 <= entry.http <= 599
    assert 1 <= entry.exit <= 125


def test_every_exception_names_a_code_of_the_catalog() -> None:
    assert {name for name, sort in classes().items() if sort.code not in CATALOG} == set()


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    real = {name: sort.__bases__[0].__name__ for name, sort in classes().items()}
    assert drawn_tree() == real


def test_all_that_can_go_wrong_is_of_one_family() -> None:
    """Outside errors.py there are exceptions too, but each is a leaf of the same tree."""
    for path in (SOURCE / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any("Error" in ast.unparse(base) for base in node.bases):
                assert {ast.unparse(base) for base in node.bases} <= {*classes(), "QuoracyError", "Exception"}


def test_a_refusal_reads_as_code_reason_and_way_out() -> None:
    assert str(Refusal("malformed", "step is missing", "send it")) == "malformed: step is missing; send it"


def test_a_raised_refusal_keeps_its_code() -> None:
    raised = errors.Refused(Refusal("fleet_full", "no room", "wait"))
    assert raised.code == "fleet_full"
    assert str(raised) == "fleet_full: no room; wait"


def test_errors_of_the_world_name_what_they_are_about() -> None:
    assert str(ConfigError("port", 0, "from 1")) == "port = 0: from 1"
    assert "run 'demo': entry 3 at offset 7 of the file: torn" in str(JournalCorrupt("demo", 3, 7, "torn", "the file"))
    assert str(JournalGap("demo", 5, 3)) == "run 'demo': entry 5 cannot follow entry 3"
    assert "begins at 9" in str(EntriesGone("demo", 3, 9))


def test_a_decoding_error_names_the_field_and_quotes_no_more_than_a_little() -> None:
    refusal = malformed(ValueError("Expected `int` - at `$[2]`"), "event")
    assert refusal.why == "event[2]: Expected `int` - at `$[2]`"
    assert malformed(ValueError("Expected `array` of at least length 4, got 3"), "event").why.startswith("event: ")
    assert malformed(ValueError("Expected `int` - at `$.step`"), "config").why.startswith("config.step: ")
    long = malformed(ValueError(f"Invalid value '{'x' * 100_000}' - at `$[0]`"), "event")
    assert long.why.startswith("event[0]: Invalid value 'xxx")
    assert len(long.why) < 2 * MAX_WHY + 20
