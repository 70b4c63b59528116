"""Nobody who was built against a released OpenAPI document is broken: the rules, each with a break that it finds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.doors.http.breaking import breaks

from quoracy.core.errors import CATALOG
from quoracy.docs.release import DOCUMENT, releases
from quoracy.doors.http.openapi import document
from quoracy.doors.http.problems import MEDIA, OWN

ROOT = Path(__file__).parents[3]
RELEASES = releases(ROOT)
NOW: Any = msgspec.json.decode(msgspec.json.encode(document()))
Change = Callable[[Any], object]


@pytest.mark.parametrize("release", RELEASES, ids=[folder.name for folder in RELEASES])
def test_no_release_is_broken(release: Path) -> None:
    assert breaks(json.loads((release / DOCUMENT).read_text(encoding="utf-8")), NOW) == []


def test_the_last_release_is_compared_as_it_was() -> None:
    """With everything that it has in it, or a comparison would find nothing."""
    released = json.loads((RELEASES[0] / DOCUMENT).read_text(encoding="utf-8"))
    found = breaks(released, {"paths": {}, "components": {"schemas": {}}})
    assert {"GET /api/status is gone", "PATCH /api/runs/{run}/weights/{digest} is gone"} <= set(found)
    assert len(found) == sum(len(there) for there in released["paths"].values()) > 30


# -- planted breaks --------------------------------------------------------------------------------------------------


def at(*keys: Any) -> Callable[[Any], Any]:
    def find(made: Any) -> Any:
        for key in keys:
            made = made[key]
        return made

    return find


def gone(*keys: Any) -> Change:
    return lambda made: at(*keys[:-1])(made).pop(keys[-1])


def put(value: Any, *keys: Any) -> Change:
    return lambda made: at(*keys[:-1])(made).__setitem__(keys[-1], value)


def add(value: Any, *keys: Any) -> Change:
    return lambda made: at(*keys)(made).append(value)


RUNS, RUN, ORDERS = ("paths", "/api/runs"), ("paths", "/api/runs/{run}"), ("paths", "/api/runs/{run}/orders")
LIMIT = (*RUNS, "get", "parameters", 0)
KINDS = ("components", "schemas")
NEEDED = {"name": "x", "in": "query", "required": True, "schema": {"type": "string"}, "description": "x"}
EVENTS = ("paths", "/api/events", "get", "responses", "200", "content", "text/event-stream", "schema", "oneOf")

PLANTED: list[tuple[Change, str]] = [
    (gone("paths", "/api/status"), "GET /api/status is gone"),
    (gone(*RUNS, "post"), "POST /api/runs is gone"),
    (put("liste", *RUNS, "get", "operationId"), "GET /api/runs: operationId was runs, is liste"),
    (put([{"token": []}], "paths", "/livez", "get", "security"), "GET /livez needs a token now"),
    (gone(*LIMIT), "GET /api/runs: the query parameter limit is gone"),
    (put(True, *LIMIT, "required"), "GET /api/runs: the query parameter limit has to be sent now"),
    (add(NEEDED, *RUNS, "get", "parameters"), "GET /api/runs: the query parameter x has to be sent now"),
    (put("string", *LIMIT, "schema", "type"), "the query parameter limit: type was integer, is string"),
    (put(10, *LIMIT, "schema", "maximum"), "the query parameter limit: maximum was 1000, is 10"),
    (put(2, *LIMIT, "schema", "minimum"), "the query parameter limit: minimum was 1, is 2"),
    (put("^x$", *LIMIT, "schema", "pattern"), "the query parameter limit: pattern was None, is ^x$"),
    (put([1, 2], *LIMIT, "schema", "enum"), "the query parameter limit may not be anything else any more"),
    (gone(*ORDERS, "post", "requestBody"), "POST /api/runs/{run}/orders: a body of application/json is not taken"),
    (put(True, *RUN[:1], "/api/logout", "post", "requestBody", "required"), "/api/logout: a body has to be sent now"),
    (gone(*RUNS, "post", "requestBody", "content", "application/json", "schema", "anyOf", 1),
     "POST /api/runs: the body may not be FederatedCreation any more"),
    (gone(*KINDS, "Order", "properties", "member"), "POST /api/runs/{run}/orders: the body.member is gone"),
    (add("member", *KINDS, "Order", "required"), "POST /api/runs/{run}/orders: the body.member has to be sent now"),
    (gone(*KINDS, "Order", "properties", "command", "enum", 0), "orders: the body.command may not be checkpoint"),
    (put(8, *KINDS, "Order", "properties", "member", "maxLength"), "the body.member: maxLength was 64, is 8"),
    (put(2, *KINDS, "Order", "properties", "arguments", "maxProperties"), "arguments: maxProperties was 32, is 2"),
    (gone(*RUN, "get", "responses", "200"), "GET /api/runs/{run}: the status 200 is gone"),
    (gone(*RUN, "get", "responses", "200", "content", "application/json"), "200 is not application/json any more"),
    (gone(*RUNS, "post", "responses", "201", "headers", "Location"), "POST /api/runs: the header Location of 201 is"),
    (gone(*KINDS, "RunBrief", "properties", "entry"), "GET /api/runs: 200.runs[].entry is gone"),
    (gone(*KINDS, "RunShown", "properties", "explanation"), "GET /api/runs/{run}: 200.explanation is gone"),
    (put("string", *KINDS, "RunBrief", "properties", "entry", "type"), "runs[].entry: type was integer, is string"),
    (put([], *KINDS, "Explanation", "required"), "200.explanation.sentence may be missing now"),
    (gone(*KINDS, "Entry", "properties", "digest"), "/journal: 200.entries[].digest is gone"),
    (put({"type": "string"}, *KINDS, "Round", "properties", "evaluation", "additionalProperties"),
     "200.rounds[].evaluation[]: type was number, is string"),
    (gone(*KINDS, "Gap", "properties", "to"), "GET /api/events: 200.data.to is gone"),
    (gone(*EVENTS, 2), "GET /api/events: 200 may not be gap any more"),
    (put({"type": "null"}, *KINDS, "Runs", "properties", "next"), "GET /api/runs: 200.next: type was string, is null"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "named"), PLANTED, ids=[named for _, named in PLANTED])
def test_a_planted_break_is_found_and_named(change: Change, named: str) -> None:
    made = copy.deepcopy(NOW)
    change(made)
    found = breaks(NOW, made)
    assert any(named in one for one in found), found


MORE = {"type": "string", "default": ""}
HARMLESS: list[tuple[str, Change]] = [
    ("a new path", put({"get": {}}, "paths", "/api/new")),
    ("a new method", put({}, *RUN, "delete")),
    ("a new parameter", add({**NEEDED, "required": False}, *RUNS, "get", "parameters")),
    ("a wider bound", put(2000, *LIMIT, "schema", "maximum")),
    ("no bound", gone(*LIMIT, "schema", "maximum")),
    ("a new field to send", put(MORE, *KINDS, "Order", "properties", "mood")),
    ("a new word to send", add("dance", *KINDS, "Order", "properties", "command", "enum")),
    ("a field less to send", put([], *KINDS, "Order", "required")),
    ("a new field that comes", put(MORE, *KINDS, "RunBrief", "properties", "mood")),
    ("a new status", put({"description": "x"}, *RUN, "get", "responses", "418")),
    ("an error less", gone(*RUN, "get", "responses", "404")),
    ("other words", put("x", *RUN, "get", "summary")),
    ("no null", put({"type": "string"}, *KINDS, "Runs", "properties", "next")),
    ("no token", gone(*RUN, "get", "security")),
    ("another event", add({"type": "object", "properties": {"event": {"const": "new"}}}, *EVENTS)),
]


@pytest.mark.parametrize("change", [change for _, change in HARMLESS], ids=[name for name, _ in HARMLESS])
def test_what_breaks_nobody_is_left_alone(change: Change) -> None:
    made = copy.deepcopy(NOW)
    change(made)
    assert made != NOW
    assert breaks(NOW, made) == []


@pytest.mark.parametrize("release", RELEASES, ids=[folder.name for folder in RELEASES])
def test_no_code_of_a_release_is_gone(release: Path) -> None:
    """Programs know problems by them."""
    paths = json.loads((release / DOCUMENT).read_text(encoding="utf-8"))["paths"]
    told = [operation["responses"].items() for there in paths.values() for operation in there.values()]
    codes = {code for answers in told for status, answer in answers for code in named(status, answer)}
    assert len(codes) > 40
    assert codes - OWN.keys() - CATALOG.keys() == set()


def named(status: str, answer: Any) -> list[str]:
    is_problem = int(status) >= 400 and MEDIA in answer.get("content", {})
    return answer["description"].split(", ") if is_problem else []
