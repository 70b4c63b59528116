"""The catalog: every no has a name, every name has a place on every door."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import msgspec
import pytest

import quoracy
from quoracy.core import errors
from quoracy.core.cluster import table as cluster
from quoracy.core.codec import MAX_WHY, malformed
from quoracy.core.errors import (
    CATALOG,
    ConfigError,
    EntriesGone,
    JournalCorrupt,
    JournalGap,
    QuoracyError,
    Refusal,
    Retry,
)
from quoracy.core.federated import table as federated
from quoracy.core.machine import By, Refuse
from quoracy.core.ranks import table as ranks
from quoracy.core.witnessed import table as witnessed
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
    assert isinstance(entry.retry, Retry)


def codes_that_are(retry: Retry) -> set[str]:
    return {code for code, entry in CATALOG.items() if entry.retry is retry}


def test_what_ends_a_member_is_over_and_nothing_else_is() -> None:
    assert codes_that_are(Retry.OVER) == {
        "superseded", "key_mismatch", "run_closed", "unknown_member", "unknown_worker", "roster_full", "quarantined",
        "ejected", "too_many_ids", "store_lost",
    }  # fmt: skip


def test_what_a_server_says_while_it_is_busy_full_or_going_is_tried_later() -> None:
    said = {"too_fast", "overloaded", "draining", "not_serving", "unreachable", "come_later", "fleet_full"}
    assert said <= codes_that_are(Retry.LATER)


def test_a_request_that_is_wrong_in_itself_is_never_sent_again() -> None:
    """Those that gRPC calls an argument, a permission, or a bug of ours."""
    wrong = {"INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAUTHENTICATED", "NOT_FOUND", "UNIMPLEMENTED", "OUT_OF_RANGE"}
    assert not {code for code in codes_that_are(Retry.LATER) if CATALOG[code].grpc in wrong}
    assert CATALOG["bug"].retry is CATALOG["fold_diverged"].retry is Retry.CHANGED


def test_what_can_never_be_taken_again_is_not_told_as_unavailable() -> None:
    """Clients of gRPC repeat UNAVAILABLE by themselves."""
    assert {entry.retry for entry in CATALOG.values() if entry.grpc == "UNAVAILABLE"} == {Retry.LATER}


def test_a_refusal_that_is_remembered_is_none_that_passes() -> None:
    """A member that sends its command again would be told the same for ever."""
    remembered = {
        row.code
        for module in (cluster, federated, witnessed, ranks)
        for one in module.TABLES
        for (_, event), row in one.rows.items()
        if isinstance(row, Refuse) and event.by is By.MEMBER and not event.joins
    }
    assert remembered
    assert not remembered & codes_that_are(Retry.LATER)


HAND_MADE = {
    "hosts/server.py": "what concerns the store of all runs",
    "launch/crowd.py": "what a crowd of a benchmark expects",
    "sdk/client/heartbeat.py": "what ends an incarnation, and not its member",
    "sdk/cluster/operations.py": "what sets a script back",
    "sdk/federated/participant.py": "what another try sends anew",
    "sdk/witnessed/session.py": "what ends an incarnation, and not its member",
    "sim/checkers/answers.py": "what nobody wrote down",
}
"""Sets of codes that do not follow from the catalog, and what they are about."""


def test_what_may_be_sent_again_is_in_the_catalog_and_in_no_other_list() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Set):
                codes = {item.value for item in node.elts if isinstance(item, ast.Constant)}
                if len(codes & CATALOG.keys()) > 1:
                    found.add(path.relative_to(SOURCE).as_posix())
    assert found == HAND_MADE.keys()


def test_a_code_that_is_not_known_here_is_not_sent_again() -> None:
    assert Refusal("of_a_newer_server", "why", "fix").retry is Retry.CHANGED


def test_when_to_ask_again_is_a_field_and_not_a_sentence() -> None:
    advised = Refusal("come_later", "full", "try again in 99 s", 2.5)
    assert advised.retry_after_s == 2.5
    assert Refusal("come_later", "full", "try again in 99 s").retry_after_s is None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(advised), type=Refusal) == advised
    assert "try again" not in str(Refusal("come_later", "full", "wait", 2.5))


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
