"""The document says what the door does: schemathesis tries every route with everything it can think of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.doors.http.live import Live, door

from quorate.core.errors import CATALOG
from quorate.doors.auth import Authority, Role
from quorate.doors.http.openapi import document
from quorate.doors.http.problems import OWN
from quorate.doors.http.routes import PAGES, ROUTES
from quorate.hosts.metrics import Metrics
from quorate.stores.memory_series import MemorySeries

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
FINE = ["2xx", "3xx", "401", "403", "404", "409", "422", "429"]
"""What may be answered to a request that fits the document; 422: the same Idempotency-Key with another wish."""
EXPECTED = f"""
[checks.positive_data_acceptance]
expected-statuses = {json.dumps(FINE)}

[[operations]]
include-operation-id = ["create", "register"]
checks.positive_data_acceptance.expected-statuses = {json.dumps([*FINE, "400"])}

[[operations]]
include-operation-id = ["runs", "workers", "journal", "series", "history"]
checks.positive_data_acceptance.expected-statuses = {json.dumps([*FINE, "400"])}
"""
"""Settings may exclude each other, a registration needs a nonce or a key, a cursor must be one of ours, a time
not in the future: no schema can say that."""


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


@pytest.mark.timeout(150)
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    """With every check it has, and a token. Event streams never end, and weights have to fit their digest, so both
    have tests of their own."""
    folder = tmp_path / "data"
    with door(folder, MemorySeries(), Metrics(), access={"tokens": "required"}) as running:
        token = Authority.open(folder).new_token(Role.ADMIN)
        config = tmp_path / "schemathesis.toml"
        config.write_text(EXPECTED)
        command = [
            str(SCHEMATHESIS), "--config-file", str(config), "run", f"{running.url}/api/openapi.json",
            "--header", f"Authorization: Bearer {token}", "--checks", "all", "--max-examples", "20",
            "--phases", "examples,coverage,fuzzing,stateful", "--exclude-path-regex", "events$|/weights/",
            "--request-timeout", "20", "--seed", "1", "--no-color", "--max-failures", "20",
        ]  # fmt: skip
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=140
        )
        assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
        assert running.http.get("/livez").status_code == 200
        assert json.loads(running.http.get("/readyz").text)["ready"] is True
