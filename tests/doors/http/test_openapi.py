"""The document: whole, served, and with words for everything. Whether it is true, ``test_schemathesis`` finds out."""

from __future__ import annotations

import json

import jsonschema_rs
import msgspec
from tests.doors.http.live import Live

from quoracy.core.errors import CATALOG
from quoracy.doors.http.openapi import document
from quoracy.doors.http.pages import FOLDER
from quoracy.doors.http.problems import OWN
from quoracy.doors.http.routes import PAGES, ROUTES
from quoracy.doors.http.shapes_events import EVENTS


def test_the_document_is_served_and_names_every_route(home: Live) -> None:
    served = home.http.get("/api/openapi.json").json()
    assert served == msgspec.json.decode(msgspec.json.encode(document()))
    assert served["openapi"] == "3.1.0"
    named = {(method.upper(), path) for path, there in served["paths"].items() for method in there}
    assert named == {(route.method, route.path) for route in ROUTES} | {("GET", "/api/openapi.json")}
    assert not {route.path for route in PAGES} & served["paths"].keys()


def test_every_reference_leads_somewhere_and_every_word_is_there() -> None:
    made = document()
    text = msgspec.json.encode(made).decode()
    for part in text.split('"$ref":"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in made["components"]["schemas"]
    operations = [operation for there in made["paths"].values() for operation in there.values()]
    assert all(operation["summary"] and operation["responses"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    uptime = made["components"]["schemas"]["Status"]["properties"]["serving"]
    assert "another server" in uptime["description"]


def test_codes_of_this_door_and_of_the_catalog_do_not_mix() -> None:
    assert not OWN.keys() & CATALOG.keys()
    for route in ROUTES:
        assert set(route.wrong) <= OWN.keys() | CATALOG.keys(), route.path


def test_every_schema_is_one_of_openapi_3_1() -> None:
    """Which is JSON Schema of 2020-12, where some words of the drafts before mean nothing any more."""
    made = document()
    kinds = made["components"]["schemas"]
    assert len(kinds) > 40
    for name, schema in kinds.items():
        try:
            jsonschema_rs.Draft202012Validator({**schema, "components": made["components"]})
        except jsonschema_rs.ValidationError as error:
            raise AssertionError(f"{name}: {error}") from None


def test_every_status_is_named_and_none_stands_for_all_others() -> None:
    """With ``default`` among them a document could not be wrong about any status."""
    for path, there in document()["paths"].items():
        for method, operation in there.items():
            statuses = list(operation["responses"])
            assert statuses == sorted(statuses, key=int), (path, method)


def test_what_a_stream_may_say_is_said() -> None:
    """The names that the page listens to are those of the document."""
    for path in ("/api/runs/{run}/events", "/api/events"):
        choices = document()["paths"][path]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"][
            "oneOf"
        ]
        assert [choice["properties"]["event"]["const"] for choice in choices] == list(EVENTS)
    assert f"for (const kind of {json.dumps(list(EVENTS))})" in (FOLDER / "docs.js").read_text(encoding="utf-8")
