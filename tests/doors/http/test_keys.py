"""What an Idempotency-Key does, wherever something is posted."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.doors.http.live import Live, problem

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
    assert post(home, "workers", {"member": "k2"}, "life-1").json()["incarnation"] == 1


def test_a_key_beside_another_nonce_is_a_contradiction(home: Live) -> None:
    told = problem(post(home, "workers", {"member": "k3", "nonce": "ab" * 16}, "life-1"), 422, "contradiction")
    meant = told["detail"].rpartition(" ")[2]
    assert post(home, "workers", {"member": "k3", "nonce": meant}, "life-1").status_code == 201


@pytest.mark.parametrize(("body", "key"), [({}, ""), ({"key": "00" * 32, "proof": "00" * 96}, "life-1")])
def test_a_registration_needs_one_of_them_and_a_signed_one_its_nonce(home: Live, body: Any, key: str) -> None:
    told = problem(post(home, "workers", {"member": "k4", **body}, key), 422, "nonce_missing")
    assert [fault["field"] for fault in told["errors"]] == ["nonce"]


def test_where_the_body_has_numbers_these_decide(home: Live) -> None:
    """Another number under the same key is another command, and the same number under another key is not."""
    life = {"incarnation": post(home, "workers", {"member": "k5"}, "life-1").json()["incarnation"]}
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
