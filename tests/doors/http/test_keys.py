"""What an Idempotency-Key does, wherever something is posted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.doors.http.live import Live, live, problem

from quoracy.doors.http.openapi import document
from quoracy.doors.http.routes import ROUTES

POSTS = [route for route in ROUTES if route.method == "POST"]


def post(home: Live, path: str, body: Any, key: str = "") -> httpx.Response:
    return home.http.post(f"/api/runs/demo/{path}", json=body, headers={"idempotency-key": key} if key else {})


def test_a_key_may_stand_for_the_nonce_of_a_registration(home: Live) -> None:
    first, again = (post(home, "workers", {"member": "k1"}, "life-1") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["incarnation"] == again.json()["incarnation"] == 1
    assert first.json()["entry"] == again.json()["entry"]
    assert post(home, "workers", {"member": "k1"}, "life-2").json()["incarnation"] == 2


def test_a_key_stands_for_one_request_on_the_whole_server(home: Live) -> None:
    """Whichever run it is about, and whatever it asks for."""
    for run in ("one", "two"):
        assert home.http.post("/api/runs", json={"run": run}).status_code == 201
    keyed = {"headers": {"idempotency-key": "stop-it"}}
    first = home.http.post("/api/runs/one/stop", json={"reason": "enough"}, **keyed)
    assert first.status_code == 200
    assert home.http.post("/api/runs/one/stop", json={"reason": "enough"}, **keyed).json() == first.json()
    for path, body in (
        ("/api/runs/two/stop", {"reason": "enough"}), ("/api/runs/one/stop", {"reason": "other"}),
        ("/api/runs/two/orders", {"command": "pause"}), ("/api/runs", {"run": "three"}),
        ("/api/runs/demo/workers", {"member": "k9"}),
    ):  # fmt: skip
        told = problem(home.http.post(path, json=body, **keyed), 422, "contradiction")
        assert "'stop-it': the key has stood for another request: stop of one" in told["detail"]
    assert home.http.get("/api/runs/two").json()["phase"] == "Open"
    assert home.http.get("/api/runs/three").status_code == 404


def test_the_server_keeps_its_own_journal_to_itself(home: Live) -> None:
    assert post(home, "orders", {"command": "resume"}, "kept").status_code == 200
    assert "@server" not in [run["run"] for run in home.http.get("/api/runs").json()["runs"]]
    assert home.http.get("/api/runs/%40server").status_code == 404
    problem(home.http.post("/api/runs", json={"run": "@server"}), 400, "config")


def test_the_next_server_knows_what_a_key_stands_for(tmp_path: Path) -> None:
    keyed = {"headers": {"idempotency-key": "once"}}
    for begins in (True, False):
        with live(tmp_path) as running:
            if begins:
                assert running.http.post("/api/runs", json={"run": "a"}, **keyed).status_code == 201
            assert running.http.post("/api/runs", json={"run": "a"}, **keyed).status_code == 201
            problem(running.http.post("/api/runs", json={"run": "b"}, **keyed), 422, "contradiction")


def test_a_key_beside_another_nonce_is_a_contradiction(home: Live) -> None:
    told = problem(post(home, "workers", {"member": "k3", "nonce": "ab" * 16}, "life-3"), 422, "contradiction")
    meant = told["detail"].rpartition(" ")[2]
    assert post(home, "workers", {"member": "k3", "nonce": meant}, "life-3").status_code == 201


@pytest.mark.parametrize(("body", "key"), [({}, ""), ({"key": "00" * 32, "proof": "00" * 96}, "life-1")])
def test_a_registration_needs_one_of_them_and_a_signed_one_its_nonce(home: Live, body: Any, key: str) -> None:
    told = problem(post(home, "workers", {"member": "k4", **body}, key), 422, "nonce_missing")
    assert [fault["field"] for fault in told["errors"]] == ["nonce"]


def test_where_the_body_has_numbers_these_decide(home: Live) -> None:
    """Another number under the same key is another command, and the same number under another key is not."""
    life = {"incarnation": post(home, "workers", {"member": "k5"}, "life-5").json()["incarnation"]}
    ready, idle = ({**life, "seq": seq, "state": state} for seq, state in ((1, "ready"), (2, "idle")))
    first = post(home, "workers/k5/state", ready, "a")
    assert first.status_code == 200
    assert post(home, "workers/k5/state", ready, "b").json() == first.json()
    assert post(home, "workers/k5/state", idle, "a").json()["entry"] > first.json()["entry"]
    assert [post(home, "workers/k5/heartbeat", {**life, "seq": seq}, "a").json()["seq"] for seq in (1, 2)] == [1, 2]
    assert post(home, "workers/k5/leave", {**life, "seq": 3}, "a").status_code == 200


def test_every_post_says_what_a_key_does_and_takes_none_that_is_wrong(home: Live) -> None:
    paths = document()["paths"]
    for route in POSTS:
        named = [part for part in paths[route.path]["post"]["parameters"] if part["name"] == "Idempotency-Key"]
        assert [part["description"] for part in named] == [route.key]
        assert route.key
    for path in ("/api/challenge", "/api/logout"):
        assert home.http.post(path, headers={"idempotency-key": "once"}).is_success
        for wrong in (b"x" * 129, b"", b"a b", b"\xa0x"):
            problem(home.http.post(path, headers={b"idempotency-key": wrong}), 400, "malformed")


def test_no_get_takes_one() -> None:
    assert [route.path for route in ROUTES if route.method == "GET" and route.key] == []
