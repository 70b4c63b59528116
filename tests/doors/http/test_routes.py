"""Every route does what it says."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.doors.http.live import Live, live, problem

from quoracy.core.members import signed_by_joiner
from quoracy.doors.auth import Authority, MemberKey, Role
from quoracy.doors.http import shapes
from quoracy.version import __version__


def body(response: httpx.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


class Worker:
    """A worker that lives through HTTP."""

    def __init__(self, http: httpx.Client, run: str, member: str, **registration: Any) -> None:
        self.http = http
        wish = {"member": member, "nonce": secrets.token_hex(16), **registration}
        self.registered = body(http.post(f"/api/runs/{run}/workers", json=wish), 201)
        self.home = f"/api/runs/{run}/workers/{member}"
        self.incarnation = self.registered["incarnation"]
        self.headers = {"authorization": f"Bearer {self.registered['token']}"} if self.registered["token"] else {}
        self.seq = 0

    def post(self, what: str, **wish: Any) -> httpx.Response:
        wish = {"incarnation": self.incarnation, **wish}
        return self.http.post(f"{self.home}/{what}", json=wish, headers=self.headers)

    def be(self, state: str, **more: Any) -> httpx.Response:
        self.seq += 1
        return self.post("state", seq=self.seq, state=state, **more)


def test_status_tells_about_the_server(home: Live) -> None:
    told = body(home.http.get("/api/status"))
    assert (told["version"], told["serving"], told["draining"]) == (__version__, True, False)
    assert told["address"] == home.coordinator.url
    assert told["uptime_s"] > 0


def test_a_run_is_created_shown_listed_and_explained(home: Live) -> None:
    created = home.http.post(
        "/api/runs", json={"run": "a/b c", "label": "odd name", "config": {"barrier_min": 3, "heartbeat_timeout_s": 60}}
    )
    shown = body(created, 201)
    assert (shown["run"], shown["kind"], shown["phase"], shown["entry"]) == ("a/b c", "cluster", "Open", 1)
    assert created.headers["location"] == "/api/runs/a%2Fb%20c"
    assert body(home.http.get(created.headers["location"])) == shown
    assert "a/b c" in [run["run"] for run in body(home.http.get("/api/runs"))["runs"]]
    told = body(home.http.get("/api/runs/a%2Fb%20c/explain"))
    assert told == {"sentence": "no worker is here: waits for one to register", "waits": []}
    [first] = body(home.http.get("/api/runs/a%2Fb%20c/journal"))["entries"]
    config = next(event["config"] for event in first["events"] if event["type"] == "run-created")
    assert (config["barrier_min"], config["heartbeat_timeout_s"]) == (3, 60)
    assert config["barrier_deadline_s"] == 600.0, "what was not said is left to the server's defaults"


def test_a_worker_lives_through_http_alone(home: Live) -> None:
    home.coordinator.create("alone")
    one = Worker(home.http, "alone", "w1", address="here", gpus=2, labels={"rack": "7"})
    assert (one.registered["incarnation"], one.registered["result"]["rank"]) == (1, 0)
    assert one.registered["barriers"] == {}
    assert body(one.be("ready"))["entry"] > one.registered["entry"]
    again = body(one.post("state", seq=1, state="ready"))
    assert again["entry"] == one.registered["entry"] + 1, "the same number gets the same answer"
    assert body(one.post("heartbeat", seq=1, step=3, cpu=0.5, task="warm-up", metrics={"loss": 2.5}))["seq"] == 1
    passage = body(one.post("barriers/step", step=0))
    assert (passage["released"], passage["generation"], passage["of"]) == (True, 1, 1)
    for state in ("loading", "training", "checkpointing", "idle"):
        assert body(one.be(state))["entry"] > 0
    ordered = body(home.http.post("/api/runs/alone/orders", json={"command": "checkpoint", "member": "w1"}))
    assert ordered["order"] == 1
    beat = body(one.post("heartbeat", seq=2))
    assert (beat["order"], beat["command"]) == (1, "checkpoint")
    [worker] = body(home.http.get("/api/workers", params={"run": "alone"}))["workers"]
    assert (worker["run"], worker["id"], worker["state"], worker["gpus"]) == ("alone", "w1", "Idle", 2)
    one.seq += 1
    assert body(one.post("leave", seq=one.seq, reason="done"))["entry"] > 0
    assert body(home.http.get("/api/runs/alone"))["workers"][0]["state"] == "Left"
    second = Worker(home.http, "alone", "w1")
    assert second.incarnation == 2, "without supersedes a registration follows whichever life there is"
    assert second.registered["barriers"] == {"step": [1, 0]}


def test_a_barrier_is_waited_for_and_the_wait_can_be_repeated(home: Live) -> None:
    home.coordinator.create("pair", barrier_min=2)
    one, two = Worker(home.http, "pair", "w1"), Worker(home.http, "pair", "w2")
    body(one.be("ready"))
    body(two.be("ready"))
    told = problem(one.post("barriers/step", step=0, timeout_s=0.2), 504, "still_waiting")
    assert "w2" in told["detail"]
    assert body(two.post("barriers/step", step=0))["released"] is True
    assert body(one.post("barriers/step", step=0))["released"] is True, "the arrival counted"


def test_orders_to_runs(home: Live) -> None:
    home.coordinator.create("ends")
    back = body(home.http.post("/api/runs/ends/roll-back", json={"reason": "bad data"}))
    assert back["fence"] == 1
    assert body(home.http.post("/api/runs/ends/stop"))["entry"] == back["entry"] + 1, (
        "a body without fields may be left out"
    )
    assert body(home.http.get("/api/runs/ends"))["phase"] == "Closed"
    problem(home.http.post("/api/runs/ends/roll-back", json={}), 409, "run_closed")


def test_pages_of_runs_workers_and_entries_cover_everything_once(home: Live) -> None:
    for name in ("page-1", "page-2", "page-3"):
        home.coordinator.create(name)
        Worker(home.http, name, "w2")
        Worker(home.http, name, "w1")
    for path, field, key in (
        ("/api/runs", "runs", lambda item: item["run"]),
        ("/api/workers", "workers", lambda item: (item["run"], item["id"])),
        ("/api/runs/page-1/journal", "entries", lambda item: item["n"]),
    ):
        whole = [key(item) for item in body(home.http.get(path))[field]]
        seen, cursor = [], ""
        while True:
            page = body(home.http.get(path, params={"limit": 2, **({"cursor": cursor} if cursor else {})}))
            assert 1 <= len(page[field]) <= 2
            seen += [key(item) for item in page[field]]
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == sorted(whole)
        assert len(seen) > 2


def test_entries_of_the_journal_are_whole(home: Live) -> None:
    home.coordinator.create("told")
    Worker(home.http, "told", "w1")
    page = body(home.http.get("/api/runs/told/journal"))
    assert (page["first"], page["last"], page["next"]) == (1, 2, None)
    joined = page["entries"][1]["events"][0]
    assert (joined["type"], joined["member"], joined["cause"]) == ("worker-registered", "w1", ["w1", 0, 0])
    assert len(page["entries"][1]["digest"]) == 64


def test_health(home: Live) -> None:
    assert body(home.http.get("/livez")) == {"alive": True}
    assert body(home.http.get("/readyz")) == {"ready": True, "reasons": []}


def test_a_server_that_drains_says_so_and_is_not_ready(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        running.coordinator.create("demo")
        running.on_loop(lambda: setattr(running.coordinator._open().service, "draining", True))
        told = running.http.get("/readyz")
        assert told.status_code == 503
        assert "retry-after" in told.headers
        assert "draining" in told.json()["reasons"][0]
        refused = running.http.post("/api/runs/demo/workers", json={"member": "w1", "nonce": "0" * 32})
        problem(refused, 503, "draining")
        assert int(refused.headers["retry-after"]) >= 1
        assert running.http.get("/livez").status_code == 200


def test_a_server_that_follows_is_not_ready(tmp_path: Path) -> None:
    with live(tmp_path) as first:
        first.coordinator.create("demo")
        with live(tmp_path) as second:
            told = second.http.get("/readyz")
            assert told.status_code == 503
            assert "following" in told.json()["reasons"][0]
            problem(second.http.post("/api/runs/demo/stop"), 503, "not_serving")
            problem(second.http.post("/api/runs", json={"run": "other"}), 503, "not_serving")


def test_a_problem_has_a_page_of_its_own(home: Live) -> None:
    told = problem(home.http.get("/api/runs/nowhere"), 404, "unknown_run")
    meaning = body(home.http.get(told["type"]))
    said = {"code": "unknown_run", "status": 404, "meaning": "there is no such run here", "retry": "changed"}
    assert meaning == said
    assert body(home.http.get("/problems/wrong_method"))["status"] == 405
    problem(home.http.get("/problems/nonsense"), 404, "no_such_page")


# -- with tokens and keys ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, Authority]]:
    folder = tmp_path_factory.mktemp("guarded")
    with live(folder, access={"tokens": "required"}) as running:
        running.coordinator.create("demo")
        yield running, Authority.open(folder)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_worker_joins_with_a_token_and_a_key_and_goes_on_with_its_session_token(
    guarded: tuple[Live, Authority],
) -> None:
    running, authority = guarded
    http, key = running.http, MemberKey.create()
    headers = bearer(authority.new_token(Role.MEMBER, run="demo"))
    challenge = bytes.fromhex(body(http.post("/api/challenge", headers=headers))["challenge"])
    nonce = secrets.token_bytes(16)
    signature = key.sign(signed_by_joiner(challenge, "demo", "w1", 0, nonce))
    wish = {
        "member": "w1", "supersedes": 0, "nonce": nonce.hex(), "key": key.public.hex(),
        "proof": (challenge + signature).hex(),
    }  # fmt: skip
    problem(http.post("/api/runs/demo/workers", json=wish), 401, "bad_token")
    false = {**wish, "proof": (challenge + bytes(64)).hex()}
    problem(http.post("/api/runs/demo/workers", json=false, headers=headers), 401, "bad_token")
    problem(
        http.post("/api/runs/demo/workers", json={"member": "w1", "nonce": "0" * 32}, headers=headers), 401, "bad_token"
    )
    registered = body(http.post("/api/runs/demo/workers", json=wish, headers=headers), 201)
    session = bearer(registered["token"])
    ready = {"incarnation": 1, "seq": 1, "state": "ready"}
    problem(http.post("/api/runs/demo/workers/w1/state", json=ready, headers=headers), 401, "bad_token")
    assert body(http.post("/api/runs/demo/workers/w1/state", json=ready, headers=session))["entry"] == 3
    problem(http.post("/api/runs/demo/workers/w2/state", json=ready, headers=session), 401, "bad_token")
    assert (
        body(http.post("/api/runs/demo/workers/w1/heartbeat", json={"incarnation": 1, "seq": 1}, headers=session))[
            "seq"
        ]
        == 1
    )
    assert body(http.post("/api/runs/demo/workers/w1/barriers/b", json={"incarnation": 1, "step": 0}, headers=session))[
        "released"
    ]
    problem(http.get("/api/status", headers=session), 401, "bad_token")
    left = {"incarnation": 1, "seq": 2}
    assert body(http.post("/api/runs/demo/workers/w1/leave", json=left, headers=session))["entry"] > 0


def test_roles_hold(guarded: tuple[Live, Authority]) -> None:
    running, authority = guarded
    http = running.http
    viewer = bearer(authority.new_token(Role.VIEWER))
    assert body(http.get("/api/runs/demo", headers=viewer))["run"] == "demo"
    problem(http.post("/api/runs/demo/stop", headers=viewer), 403, "forbidden")
    problem(http.post("/api/runs", json={"run": "x"}, headers=viewer), 403, "forbidden")
    wish = {"member": "w9", "nonce": "0" * 32}
    problem(http.post("/api/runs/demo/workers", json=wish, headers=viewer), 403, "forbidden")
    other = bearer(authority.new_token(Role.VIEWER, run="other"))
    for path in (
        "/api/runs/demo",
        "/api/runs/demo/journal",
        "/api/runs/demo/events",
        "/api/runs/demo/series",
        "/metrics",
    ):
        problem(http.get(path, headers=other), 403, "forbidden")
    problem(http.get("/api/workers", params={"run": "demo"}, headers=other), 403, "forbidden")
    problem(http.get("/api/events", params={"run": "demo"}, headers=other), 403, "forbidden")
    assert body(http.get("/api/runs", headers=other))["runs"] == []
    operator = bearer(authority.new_token(Role.OPERATOR))
    assert body(http.post("/api/runs", json={"run": "by-operator"}, headers=operator), 201)["phase"] == "Open"


@pytest.mark.parametrize("path", ["/api/status", "/api/runs", "/api/runs/demo/events", "/api/events", "/metrics"])
def test_without_a_token_nothing_is_told(guarded: tuple[Live, Authority], path: str) -> None:
    response = guarded[0].http.get(path)
    problem(response, 401, "bad_token")
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/api/docs", "/api/openapi.json", "/problems/bug"])
def test_what_tells_nothing_of_runs_needs_no_token(guarded: tuple[Live, Authority], path: str) -> None:
    assert guarded[0].http.get(path).status_code == 200


def test_an_expired_token_is_refused(guarded: tuple[Live, Authority]) -> None:
    running, authority = guarded
    old = authority.new_token(Role.ADMIN, expires_s=1, now_s=1000.0)
    assert "expired" in problem(running.http.get("/api/status", headers=bearer(old)), 401, "bad_token")["detail"]


def test_answers_are_what_their_types_say(home: Live) -> None:
    """Field for field: the document is written from the types, so nothing undocumented goes out."""
    for path, shape in (
        ("/api/status", shapes.Status),
        ("/api/runs", shapes.Runs),
        ("/api/runs/demo", shapes.RunShown),
    ):
        told = body(home.http.get(path))
        assert msgspec.to_builtins(msgspec.convert(told, shape)) == told
