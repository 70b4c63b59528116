"""Enormous numbers through every API: refused by name, nothing computed, the server goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.doors.grpc.talk import Talk, place
from tests.doors.http.live import live, problem, raw

from quoracy.core.errors import Refused
from quoracy.sdk.client.ask import Asker
from quoracy.wire.pb import coordinator_pb2 as pb

QUORUM = "1e-20000000"


def test_every_api_refuses_what_would_take_long_to_compute(tmp_path: Path) -> None:
    with live(tmp_path, grpc={"enabled": True, "port": 0}) as home:
        home.coordinator.create("demo")
        asked = {"run": "slow", "kind": "witnessed", "config": {"witness_quorum": QUORUM}}
        told = problem(home.http.post("/api/runs", json=asked), 400, "config")
        assert "witness_quorum" in told["detail"]

        with Asker(home.coordinator.url) as asker, pytest.raises(Refused, match="witness_quorum"):
            asker.ask("create", "slow", kind="witnessed", config={"witness_quorum": QUORUM})
        with Asker(home.coordinator.url) as asker, pytest.raises(Refused, match=r"hyper\.x"):
            asker.ask("create", "slow", kind="witnessed", config={"hyper": {"x": float("nan")}})

        with Talk(place(home.coordinator)) as talk:
            request = pb.CreateRunRequest(run="slow", kind="witnessed")
            request.config.update({"witness_quorum": QUORUM})
            assert talk.refused(request)[1].code == "config"
            request.config.update({"witness_quorum": float("nan")})
            assert talk.refused(request)[1].code == "malformed"
            whole = pb.CreateRunRequest(run="slow")
            whole.config.update({"max_workers": 1e300})
            assert talk.refused(whole)[1].code == "config"
        assert home.http.get("/api/runs/slow").status_code == 404


def test_numbers_of_a_body_are_bounded_where_a_field_takes_anything(tmp_path: Path) -> None:
    with live(tmp_path) as home:
        home.coordinator.create("demo")
        for number in ("9" * 4000, "9" * 20, "1e999", "-" + "9" * 20):
            body = f'{{"command": "reconfigure", "arguments": {{"x": [1, {number}]}}}}'
            sent = home.http.post("/api/runs/demo/orders", content=body, headers={"content-type": "application/json"})
            told = problem(sent, 400, "malformed")
            assert "arguments.x[1]" in json.dumps(told), told
        assert home.http.get("/api/runs/demo").status_code == 200


def test_headers_with_thousands_of_digits_are_no_fault_of_the_server(tmp_path: Path) -> None:
    with live(tmp_path) as home:
        for header in (b"Content-Length: " + b"9" * 5000, b"Content-Length: " + b"0" * 5000 + b"9"):
            got = raw(
                home.port,
                b"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\nConnection: close\r\n\r\n{}       " % header,
            )
            assert not got.startswith(b"HTTP/1.1 5"), got[:200]
        for path in ("/api/runs?limit=" + "9" * 5000, "/api/runs?limit=nan", "/api/runs?limit=1e400"):
            assert home.http.get(path).status_code in (400, 414)
