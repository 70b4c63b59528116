"""Everything that can be wrong with a request is told as a problem that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.doors.http.live import Live, live, problem, raw

from quoracy.core.errors import CATALOG, Refusal, Retry
from quoracy.doors.http import cursors
from quoracy.doors.http.problems import OWN, Trouble
from quoracy.doors.questions import QUESTIONS


@pytest.mark.parametrize("code", [*CATALOG, *OWN])
def test_a_problem_says_whether_sending_it_again_helps(code: str) -> None:
    known = OWN[code].retry if code in OWN else CATALOG[code].retry
    told = Trouble(Refusal(code, "why", "fix"))
    assert json.loads(told.body())["retry"] == known.value
    assert dict(told.headers) == ({b"retry-after": b"1"} if known is Retry.LATER else {})
    assert "retry_after_s" not in json.loads(told.body())


def test_when_to_come_back_is_told_exactly_and_in_whole_seconds() -> None:
    told = Trouble(Refusal("come_later", "full", "wait", 2.25))
    assert json.loads(told.body())["retry_after_s"] == 2.25
    assert dict(told.headers) == {b"retry-after": b"3"}
    soon = Trouble(Refusal("too_fast", "full", "wait", 0.1))
    assert dict(soon.headers) == {b"retry-after": b"1"}


def test_the_page_of_a_code_says_whether_sending_it_again_helps(home: Live) -> None:
    pages = {
        code: home.http.get(f"/problems/{code}").json()["retry"] for code in ("superseded", "too_slow", "malformed")
    }
    assert pages == {"superseded": "over", "too_slow": "later", "malformed": "changed"}


def test_several_wrong_fields_are_all_named(home: Live) -> None:
    wrong = {"run": "", "kind": "other", "label": 3, "colour": "red", "config": {"barrier_min": 0}}
    told = problem(home.http.post("/api/runs", json=wrong), 400, "malformed")
    assert {fault["field"] for fault in told["errors"]} == {"run", "kind", "label", "colour", "config.barrier_min"}
    assert all(fault["value"] and fault["fix"] for fault in told["errors"])
    assert "5 fields are wrong" in told["detail"]


def test_what_is_wrong_with_a_new_run_is_told_in_plain_words(home: Live) -> None:
    """Every field with its value and what would do, and nothing in the words of a library."""
    wrong = {"run": "odd", "kind": "other", "config": {"barrier_min": -3, "foo": 1, "stuck_after_s": "long"}}
    told = problem(home.http.post("/api/runs", json=wrong), 400, "malformed")
    faults = {fault["field"]: (fault["value"], fault["fix"]) for fault in told["errors"]}
    assert faults["kind"] == ('"other"', "cluster")
    assert faults["config.barrier_min"] == ("-3", "a whole number from 1 to 10000")
    assert faults["config.stuck_after_s"][1].startswith("a number from 0.001 to")
    assert "there are: max_workers, " in faults["config.foo"][1]
    assert len(faults) == 4
    assert "Expected" not in str(told)


def test_a_fault_deep_inside_is_named_by_its_place(home: Live) -> None:
    wish = {"member": "w1", "nonce": "0" * 32, "labels": {"zone": 7}}
    told = problem(home.http.post("/api/runs/demo/workers", json=wish), 400, "malformed")
    (fault,) = told["errors"]
    assert fault["field"] == "labels"
    assert fault["fix"].startswith("names with values of at most 32; look at [")


def test_settings_that_exclude_each_other_are_told_by_the_run_itself(home: Live) -> None:
    wrong = {"run": "odd", "config": {"barrier_min": 5, "max_workers": 2}}
    told = problem(home.http.post("/api/runs", json=wrong), 400, "config")
    assert "barrier_min" in told["detail"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=x", "limit"), ("limit=1001", "limit"), ("colour=red", "colour"),
     ("cursor=!", "cursor"), ("cursor=gg", "cursor"), ("cursor=a", "cursor")],
)  # fmt: skip
def test_wrong_parameters_are_named(home: Live, query: str, field: str) -> None:
    told = problem(home.http.get(f"/api/runs?{query}"), 400, "malformed")
    assert [fault["field"] for fault in told["errors"]] == [field]


@pytest.mark.parametrize(
    ("path", "cursor"),
    [("/api/workers", "6161"), ("/api/workers", "61.6"), ("/api/workers", "."), ("/api/runs/demo/journal", "61" * 9),
     ("/api/runs/demo/journal", "-1")],
)  # fmt: skip
def test_a_cursor_of_another_list_is_told_what_to_send(home: Live, path: str, cursor: str) -> None:
    told = problem(home.http.get(path, params={"cursor": cursor}), 400, "malformed")
    assert [(fault["field"], fault["fix"]) for fault in told["errors"]] == [("cursor", cursors.FIX)]


@pytest.mark.parametrize(
    ("path", "field", "cursor"),
    [("/api/runs", "runs", "ff" * 512), ("/api/runs", "runs", "7a7a7a7a"), ("/api/workers", "workers", "ff.00"),
     ("/api/workers", "workers", "7a7a.ff" + "00" * 255), ("/api/runs/demo/journal", "entries", "9" * 15)],
)  # fmt: skip
def test_a_cursor_behind_the_end_leads_to_an_empty_page(home: Live, path: str, field: str, cursor: str) -> None:
    """Whatever fits the document is a place, also one that nobody was ever given."""
    told = home.http.get(path, params={"cursor": cursor}).json()
    assert (told[field], told["next"]) == ([], None)


@pytest.mark.parametrize("path", ["/api/runs", "/api/workers", "/api/runs/demo/journal"])
@pytest.mark.parametrize("cursor", ["", "\n"])
def test_an_empty_cursor_is_the_beginning(home: Live, path: str, cursor: str) -> None:
    """Also with a line's end behind it, as a careless script sends it."""
    assert home.http.get(path, params={"cursor": cursor}).content == home.http.get(path).content


@pytest.mark.parametrize("query", ["limit=1&limit=2", "%ff=1", "limit", "&&"])
def test_a_query_that_cannot_be_read_is_refused(home: Live, query: str) -> None:
    problem(home.http.get(f"/api/runs?{query}"), 400, "malformed")


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'"x"', b"nul", b'{"run": "a"} x', b"\xff\xfe", b'{"run": "\xff"}', b"[" * 100_000]
)
def test_a_body_that_is_no_object_is_refused(home: Live, content: bytes) -> None:
    response = home.http.post("/api/runs", content=content, headers={"content-type": "application/json"})
    problem(response, 400, "malformed")


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_of_another_type_is_refused(home: Live, media: str) -> None:
    response = home.http.post("/api/runs", content=b'{"run": "x"}', headers={"content-type": media} if media else {})
    problem(response, 415, "wrong_media_type")


def test_an_answer_nobody_can_take_is_refused(home: Live) -> None:
    for accept in ("text/html", "application/json;q=0", "image/*"):
        problem(home.http.get("/api/status", headers={"accept": accept}), 406, "not_acceptable")
    problem(home.http.get("/api/events", headers={"accept": "application/json"}), 406, "not_acceptable")
    for accept in ("application/json", "*/*", "application/*;q=0.1", "text/html, */*;q=0.5", "text/html;q=x,*/*"):
        assert home.http.get("/api/status", headers={"accept": accept}).status_code == 200


def test_a_wrong_method_names_those_that_are_right(home: Live) -> None:
    response = home.http.delete("/api/runs")
    problem(response, 405, "wrong_method")
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert home.http.request("BREW", "/api/status").status_code in (400, 405)
    assert home.http.put("/api/runs/demo/stop").headers["allow"] == "OPTIONS, POST"


def test_options_tells_what_may_be_done(home: Live) -> None:
    response = home.http.options("/api/runs/demo")
    assert (response.status_code, response.headers["allow"], response.content) == (204, "GET, HEAD, OPTIONS", b"")
    assert "access-control-allow-methods" not in response.headers


@pytest.mark.parametrize("path", ["/", "/api", "/api/", "/api/runs/", "/api/runs/demo/", "/api//runs", "/api/nothing"])
def test_an_address_under_which_nothing_is(home: Live, path: str) -> None:
    problem(home.http.get(path), 404, "no_such_page")


@pytest.mark.parametrize(
    "path", ["", "/explain", "/journal", "/events", "/series"], ids=["show", "explain", "journal", "events", "series"]
)
def test_an_unknown_run_is_unknown_everywhere(home: Live, path: str) -> None:
    problem(home.http.get(f"/api/runs/nowhere{path}"), 404, "unknown_run")


@pytest.mark.parametrize(
    ("path", "wish"),
    [("stop", {}), ("roll-back", {}), ("orders", {"command": "pause"}),
     ("workers", {"member": "w1", "nonce": "0" * 32})],
)  # fmt: skip
def test_orders_to_an_unknown_run_are_refused(home: Live, path: str, wish: dict[str, Any]) -> None:
    problem(home.http.post(f"/api/runs/nowhere/{path}", json=wish), 404, "unknown_run")


def test_workers_and_events_of_an_unknown_run(home: Live) -> None:
    problem(home.http.get("/api/workers?run=nowhere"), 404, "unknown_run")
    problem(home.http.get("/api/events?run=nowhere"), 404, "unknown_run")


def test_what_members_do_wrong_is_told_by_the_run(home: Live) -> None:
    state = {"incarnation": 1, "seq": 1, "state": "ready"}
    problem(home.http.post("/api/runs/demo/workers/ghost/state", json=state), 404, "unknown_member")
    wish = {"member": "once", "nonce": "1" * 32, "supersedes": 0}
    assert home.http.post("/api/runs/demo/workers", json=wish).status_code == 201
    assert home.http.post("/api/runs/demo/workers", json=wish).json()["incarnation"] == 1, (
        "the same nonce, the same life"
    )
    stale = {"member": "once", "nonce": "2" * 32, "supersedes": 0}
    problem(home.http.post("/api/runs/demo/workers", json=stale), 409, "stale_join")
    gap = {"incarnation": 1, "seq": 7, "state": "ready"}
    problem(home.http.post("/api/runs/demo/workers/once/state", json=gap), 409, "sequence_gap")
    problem(home.http.post("/api/runs/demo/workers/once/state", json={**state, "incarnation": 0}), 409, "superseded")
    training = {"incarnation": 1, "seq": 1, "state": "training"}
    problem(home.http.post("/api/runs/demo/workers/once/state", json=training), 409, "wrong_state")
    arrive = {"incarnation": 1, "step": 0}
    long = home.http.post(f"/api/runs/demo/workers/once/barriers/{'b' * 129}", json=arrive)
    assert "barrier" in problem(long, 400, "malformed")["detail"]


def test_a_path_that_is_no_text_is_refused(home: Live) -> None:
    problem(home.http.get("/api/runs/%ff"), 400, "malformed")


def test_a_body_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with live(tmp_path, limits={"max_frame_bytes": 2048}) as running:
        large = {"run": "x", "label": "y" * 4000}
        told = problem(running.http.post("/api/runs", json=large), 413, "too_large")
        assert "2048" in told["detail"]

        head = b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4000\r\n\r\n"
        assert raw(running.port, head).startswith(b"HTTP/1.1 413"), "nothing of it had to come"

        def chunks() -> Any:
            for _ in range(5):
                yield b"x" * 1000

        response = running.http.post("/api/runs", content=chunks(), headers={"content-type": "application/json"})
        problem(response, 413, "too_large")
        assert running.http.get("/livez").status_code == 200


def test_a_fault_inside_is_told_by_number_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def broken(*_anything: object) -> None:
        raise KeyError("the inner secret")

    action, right = QUESTIONS["status"]
    with live(tmp_path) as running:
        try:
            QUESTIONS["status"] = (action, broken)
            response = running.http.get("/api/status")
        finally:
            QUESTIONS["status"] = (action, right)
        told = problem(response, 500, "internal")
        assert "secret" not in response.text
        assert running.http.get("/api/status").status_code == 200
    log = capfd.readouterr().err
    assert f"id={told['id']}" in log
    assert "the inner secret" in log


# -- tags ----------------------------------------------------------------------------------------------------------


def test_what_has_not_changed_is_not_sent_again(home: Live) -> None:
    first = home.http.get("/api/runs/demo/journal")
    tag = first.headers["etag"]
    assert tag.startswith('"')
    for wanted in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        same = home.http.get("/api/runs/demo/journal", headers={"if-none-match": wanted})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        assert "content-length" not in same.headers
    other = home.http.get("/api/runs/demo/journal", headers={"if-none-match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)
    home.http.post("/api/runs/demo/orders", json={"command": "pause"})
    changed = home.http.get("/api/runs/demo/journal", headers={"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_head_is_get_without_its_body(home: Live) -> None:
    for path in ("/api/runs/demo/journal", "/api/docs", "/livez"):
        got, head = home.http.get(path), home.http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        kept = ("etag", "content-length", "content-type")
        assert [head.headers[name] for name in kept] == [got.headers[name] for name in kept]
    assert home.http.head("/api/runs/nowhere").status_code == 404
    assert home.http.head("/api/runs/demo/events").headers["content-type"] == "text/event-stream"


# -- the same wish twice -------------------------------------------------------------------------------------------


def same(http: httpx.Client, path: str, key: str, **wish: Any) -> httpx.Response:
    return http.post(path, json=wish, headers={"idempotency-key": key})


def test_the_same_wish_gets_the_same_answer_across_a_restart(tmp_path: Path) -> None:
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/api/runs", {"run": "demo", "config": {"barrier_min": 2}}),
        ("/api/runs/demo/orders", {"command": "pause"}),
        ("/api/runs/demo/roll-back", {"reason": "again"}),
        ("/api/runs/demo/stop", {"reason": "enough"}),
    )
    with live(tmp_path) as running:
        first = [same(running.http, path, f"wish-{n}", **wish).json() for n, (path, wish) in enumerate(asked)]
        repeated = [same(running.http, path, f"wish-{n}", **wish).json() for n, (path, wish) in enumerate(asked)]
        assert repeated[1:] == first[1:]
        head = running.http.get("/api/runs/demo/journal").json()["last"]
    with live(tmp_path) as running:
        again = [same(running.http, path, f"wish-{n}", **wish) for n, (path, wish) in enumerate(asked)]
        assert [response.json() for response in again[1:]] == first[1:]
        assert again[0].status_code == 201
        told = running.http.get("/api/runs/demo/journal").json()
        tags = [event["type"] for entry in told["entries"] for event in entry["events"]]
        assert tags.count("worker-ordered") == tags.count("run-rolled-back") == tags.count("run-stopped") == 1
        assert told["last"] <= head + 1, "only the new server's term was added"
        problem(same(running.http, "/api/runs/demo/stop", "wish-3", reason="other"), 422, "contradiction")
        problem(same(running.http, "/api/runs", "wish-0", run="demo", config={"barrier_min": 3}), 422, "contradiction")
        problem(same(running.http, "/api/runs", "wish-9", run="demo"), 409, "run_exists")


@pytest.mark.parametrize("key", ["", "x" * 129, "caf\u00e9"])
def test_a_key_that_cannot_be_kept_is_refused(home: Live, key: str) -> None:
    headers = {"idempotency-key": key.encode("latin-1")}
    response = home.http.post("/api/runs/demo/orders", json={"command": "pause"}, headers=headers)  # type: ignore[arg-type]
    problem(response, 400, "malformed")
