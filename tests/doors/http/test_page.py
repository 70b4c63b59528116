"""The page about this door: its commands and examples run, and its tables are right."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from tests.doors.http.live import Live, live, until
from tests.doors.talk import Talk
from tests.e2e.test_pages import example

from quoracy.core.federated.events import ParticipantJoined
from quoracy.core.members import Cause
from quoracy.doors.http.problems import OWN
from quoracy.doors.http.routes import ROUTES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/doors/http.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCK.findall(PAGE) for line in block.splitlines()]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("page")) as running:
        yield running


def shell(command: str, url: str) -> str:
    assert "http://127.0.0.1:3000" in command
    ours = command.replace("http://127.0.0.1:3000", url).replace("curl ", "curl --silent --show-error --fail ", 1)
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        ["bash", "-c", ours], capture_output=True, text=True, check=False, timeout=60, env=environment
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_command_runs(fresh: Live) -> None:
    """In the order of the page, against one server."""
    assert len(COMMANDS) >= 9
    said = {command: shell(command, fresh.url) for command in COMMANDS}
    assert json.loads(said[COMMANDS[1]])["run"] == "demo"
    once, again = [json.loads(shell(command, fresh.url)) for command in COMMANDS if "idempotency-key" in command]
    assert once == again
    stream = next(text for command, text in said.items() if "/events" in command)
    assert "event: position\n" in stream
    assert "event: entry\n" in stream


def test_two_workers_without_an_sdk_stay_in_step(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        running.coordinator.create("demo", barrier_min=2)
        command = [sys.executable, str(ROOT / "examples" / "http_worker.py"), running.url]
        workers = [subprocess.Popen([*command, name, "20"]) for name in ("w1", "w2")]
        assert [worker.wait(timeout=60) for worker in workers] == [0, 0]
        shown = running.coordinator.show("demo")
        assert shown["barriers"][0]["released"] == 20
        assert {worker["state"] for worker in shown["workers"]} == {"Left"}


def test_a_run_is_followed_across_a_restart(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        running.coordinator.create("demo")
        port = running.port
        entries = example("http_events").follow(running.url, "demo")
        assert next(entries)["n"] == 1
        running.http.post("/api/runs/demo/stop")
        assert next(entries)["n"] == 2
    with live(tmp_path, http={"port": port}) as running:
        until(lambda: running.coordinator.show("demo")["entry"] >= 3, "the new term")
        assert next(entries)["n"] == 3
        entries.close()


def test_every_get_has_a_tag_but_those_that_the_page_excepts(fresh: Live) -> None:
    excepted = "but for `/metrics`, event streams, and weights and metrics that are named by their round."
    assert f"Every GET that is answered with 200 has an `ETag`, {excepted}" in " ".join(PAGE.split())
    for created in ({"run": "tags"}, {"run": "rounds", "kind": "federated"}, {"run": "epochs", "kind": "witnessed"}):
        assert fresh.http.post("/api/runs", json=created).status_code == 201
    with Talk(fresh.coordinator.url) as talk:
        talk.call(Cause("p1", 0, 0), ParticipantJoined("p1", 0, bytes(16)), "rounds")
    for route in ROUTES:
        if route.method != "GET" or route.media in ("text/event-stream", "application/octet-stream"):
            continue
        run = {"history": "rounds", "reports": "rounds", "epochs": "epochs"}.get(route.name, "tags")
        named = {"{run}": run, "{code}": "malformed", "{participant}": "p1"}
        answer = fresh.http.get(reduce(lambda path, name: path.replace(name, named[name]), named, route.path))
        assert answer.status_code == 200, route.path
        assert ("etag" in answer.headers) is (route.name != "metrics"), route.path


def test_entries_are_as_they_were_written(fresh: Live) -> None:
    """Microseconds and base64 there; the rest is seconds and hex."""
    assert "`at_us` is run time in microseconds, and bytes inside of events, such as a key, are base64" in " ".join(
        PAGE.split()
    )
    assert fresh.http.post("/api/runs", json={"run": "bytes"}).status_code == 201
    fresh.http.post("/api/runs/bytes/workers", json={"member": "w1", "nonce": "0f" * 16})
    entries = fresh.http.get("/api/runs/bytes/journal").json()["entries"]
    (joined,) = [event for entry in entries for event in entry["events"] if event["type"] == "worker-registered"]
    assert b64decode(joined["key"]) == b""
    assert not {"nonce", "proof"} & joined.keys()
    assert isinstance(entries[-1]["at_us"], int)
    assert bytes.fromhex(entries[-1]["digest"])


def test_a_worker_in_a_run_says_which_run(fresh: Live) -> None:
    assert fresh.http.post("/api/runs", json={"run": "named"}).status_code == 201
    fresh.http.post("/api/runs/named/workers", json={"member": "w1", "nonce": "0" * 32})
    shown = fresh.http.get("/api/runs/named").json()
    assert [worker["run"] for worker in shown["workers"]] == ["named"]


def test_the_page_names_every_route_and_every_code_of_this_door() -> None:
    assert [code for code in OWN if f"`{code}`" not in PAGE] == []
    for route in ROUTES:
        last = [part for part in route.path.split("/") if part and not part.startswith("{")][-1]
        assert last in PAGE, route.path
