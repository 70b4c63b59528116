"""Event streams: nothing missed, nothing twice, whatever happens in between."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.doors.http.live import Event, Live, Stream, free_port, live, problem, until
from tests.e2e.command import Serving

from quoracy.doors.auth import Authority, Role
from quoracy.doors.http import streams
from quoracy.ports import Saved
from quoracy.stores import SqliteJournal


def order(running: Live, run: str, times: int = 1) -> None:
    for _ in range(times):
        assert running.http.post(f"/api/runs/{run}/orders", json={"command": "pause"}).status_code == 200


def test_entries_come_as_they_are_written(home: Live) -> None:
    home.coordinator.create("live")
    with Stream(home.url, "/api/runs/live/events") as stream:
        assert stream.response.headers["content-type"] == "text/event-stream"
        first = stream.next()
        assert (first.kind, first.id, first.value) == ("position", "1", {"entries": {"live": 1}})
        assert int(stream.retry) > 0
        order(home, "live", 3)
        found = stream.take(3)
    assert [event.id for event in found] == ["2", "3", "4"]
    entries = home.http.get("/api/runs/live/journal").json()["entries"]
    assert [event.value for event in found] == [{"run": "live", **entry} for entry in entries[1:]]


def test_a_reader_goes_on_where_it_was(home: Live) -> None:
    home.coordinator.create("on")
    order(home, "on", 5)
    with Stream(home.url, "/api/runs/on/events", last="2") as stream:
        assert [event.id for event in stream.take(4)] == ["3", "4", "5", "6"]
    with Stream(home.url, "/api/runs/on/events?after=4") as stream:
        assert [event.id for event in stream.take(2)] == ["5", "6"]
    with Stream(home.url, "/api/runs/on/events?after=1", last="5") as stream:
        assert [event.id for event in stream.take(1)] == ["6"], "what was seen wins over where it began"


def test_a_long_history_comes_whole_and_in_order(home: Live) -> None:
    home.coordinator.create("long")
    order(home, "long", 450)
    with Stream(home.url, "/api/runs/long/events?after=0") as stream:
        assert [int(event.id) for event in stream.take(451)] == list(range(1, 452))
        order(home, "long")
        assert stream.take(1)[0].id == "452"


@pytest.mark.parametrize("path", ["/api/runs/until/events?after=0", "/api/events?run=until&history=true"])
def test_a_stream_that_is_not_to_follow_ends_with_what_is_there(home: Live, path: str) -> None:
    if "until" not in [run["run"] for run in home.http.get("/api/runs").json()["runs"]]:
        home.coordinator.create("until")
        order(home, "until", 300)
    with Stream(home.url, f"{path}&follow=false") as stream:
        assert [event.value["n"] for event in stream.take(301)] == list(range(1, 302))
        with pytest.raises(StopIteration):
            stream.next()
    text = home.http.get(f"{path}&follow=false").text
    assert text.count("event: entry\n") == 301
    assert text.endswith("\n\n")


@pytest.mark.parametrize("path", ["/api/runs/demo/events?follow=false", "/api/events?follow=false"])
def test_without_a_place_to_begin_nothing_is_there(home: Live, path: str) -> None:
    text = home.http.get(path).text
    assert text.count("event: ") == text.count("event: position\n") == 1


def test_a_stream_that_ends_is_one_connection_less(home: Live) -> None:
    door = home.coordinator._open().doors[-1]
    home.http.get("/api/runs/demo/events?follow=false&after=0")
    until(lambda: door.streams.open == 0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "99999999999999999999", "demo:1"])
def test_an_id_that_is_none_of_ours_is_refused(home: Live, last: str) -> None:
    problem(home.http.get("/api/runs/demo/events", headers={"last-event-id": last}), 400, "malformed")


def test_an_id_from_another_journal_is_told(home: Live) -> None:
    home.coordinator.create("new")
    with Stream(home.url, "/api/runs/new/events", last="77") as stream:
        reset = stream.take(1, "reset")[0]
        assert (reset.id, reset.value) == ("1", {"run": "new", "yours": 77, "last": 1})
        order(home, "new")
        assert stream.take(1)[0].id == "2"


def test_what_retention_deleted_is_told_as_a_gap(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        running.coordinator.create("old")
        order(running, "old", 9)
        store = running.coordinator._open().server.journal
        store.save_snapshot("old", _snapshot(store))
        store.compact("old", 6, 0)
        with Stream(running.url, "/api/runs/old/events?after=2") as stream:
            gap = stream.take(1, "gap")[0]
            assert gap.id == "6"
            assert gap.value == {"run": "old", "from": 3, "to": 6, "first": 7}
            assert [event.id for event in stream.take(4)] == ["7", "8", "9", "10"]
        gone = running.http.get("/api/runs/old/journal").json()
        assert (gone["first"], [entry["n"] for entry in gone["entries"]]) == (7, [7, 8, 9, 10])


def _snapshot(store: Any) -> Saved:
    return Saved(store.last("old"), b"root", {})


def test_several_runs_in_one_stream_new_ones_too(home: Live) -> None:
    for name in ("many-a", "many-b"):
        home.coordinator.create(name)
    with Stream(home.url, "/api/events?run=many-*") as stream:
        assert stream.next().value == {"entries": {"many-a": 1, "many-b": 1}}
        order(home, "many-b", 2)
        home.coordinator.create("many-c")
        order(home, "many-a")
        order(home, "demo")
        found = stream.take(4)
        last = stream.last
    seen = sorted((event.value["run"], event.value["n"]) for event in found)
    assert seen == [("many-a", 2), ("many-b", 2), ("many-b", 3), ("many-c", 1)]
    order(home, "many-c")
    with Stream(home.url, "/api/events?run=many-*", last=last) as stream:
        event = stream.take(1)[0]
        assert (event.value["run"], event.value["n"]) == ("many-c", 2)


def test_a_stream_of_all_runs_can_begin_at_the_beginning(home: Live) -> None:
    home.coordinator.create("begin, here: 1")
    with Stream(home.url, "/api/events?history=true&run=begin,%20here:%201") as stream:
        assert [(event.value["run"], event.value["n"]) for event in stream.take(1)] == [("begin, here: 1", 1)]
        last = stream.last
    order(home, "begin, here: 1")
    with Stream(home.url, "/api/events?run=begin,%20here:%201", last=last) as stream:
        assert stream.take(1)[0].value["n"] == 2
    problem(home.http.get("/api/events", headers={"last-event-id": "nonsense"}), 400, "malformed")


def test_a_stream_of_all_runs_shows_those_of_the_token_only(tmp_path: Path) -> None:
    with live(tmp_path, access={"tokens": "required"}) as running:
        for name in ("mine-1", "yours-1"):
            running.coordinator.create(name)
        token = Authority.open(tmp_path).new_token(Role.VIEWER, run="mine-*")
        with Stream(running.url, "/api/events?history=true", authorization=f"Bearer {token}") as stream:
            assert stream.next().value == {"entries": {"mine-1": 0}}
            assert stream.take(1)[0].value["run"] == "mine-1"


def test_more_runs_than_an_id_can_name_are_refused(home: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_RUNS", 0)
    assert "?run=" in problem(home.http.get("/api/events"), 409, "too_many_runs")["fix"]


def test_more_streams_than_allowed_are_refused_until_one_ends(tmp_path: Path) -> None:
    with live(tmp_path, http={"max_streams": 2}) as running:
        running.coordinator.create("demo")
        with Stream(running.url, "/api/runs/demo/events"), Stream(running.url, "/api/events"):
            response = running.http.get("/api/runs/demo/events")
            told = problem(response, 429, "too_fast")
            assert "http.max_streams" in told["fix"]
            assert int(response.headers["retry-after"]) >= 1

        def open_again() -> bool:
            with Stream(running.url, "/api/runs/demo/events") as stream:
                return stream.response.status_code == 200

        until(open_again, "the places of those who left")


def test_a_quiet_stream_shows_that_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEAT_S", 0.05)
    with live(tmp_path) as running:
        running.coordinator.create("demo")
        with Stream(running.url, "/api/runs/demo/events") as stream:
            stream.next()
            lines = stream._lines
            assert [next(lines).startswith(": ") for _ in range(4)] == [True, False, True, False]


def test_a_stream_ends_with_the_token_that_opened_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEAT_S", 0.05)
    with live(tmp_path, access={"tokens": "required"}) as running:
        running.coordinator.create("demo")
        token = Authority.open(tmp_path).new_token(Role.VIEWER, expires_s=1)
        with Stream(running.url, "/api/runs/demo/events", authorization=f"Bearer {token}") as stream:
            bye = stream.take(1, "bye")[0]
            assert bye.value["code"] == "bad_token"
            with pytest.raises(StopIteration):
                stream.next()


def test_a_server_that_stops_says_goodbye(tmp_path: Path) -> None:
    with live(tmp_path) as running:
        running.coordinator.create("demo")
        stream = Stream(running.url, "/api/runs/demo/events")
        stream.next()
        waiting: list[httpx.Response] = []
        joined = running.http.post("/api/runs/demo/workers", json={"member": "w1", "nonce": "0" * 32}).json()
        wish = {"incarnation": joined["incarnation"], "seq": 1, "state": "ready"}
        running.http.post("/api/runs/demo/workers/w1/state", json=wish)
        running.coordinator.create("two", barrier_min=2)
        running.http.post("/api/runs/two/workers", json={"member": "w1", "nonce": "0" * 32})
        running.http.post("/api/runs/two/workers/w1/state", json=wish)

        def wait() -> None:
            arrive = {"incarnation": 1, "step": 0}
            waiting.append(httpx.post(f"{running.url}/api/runs/two/workers/w1/barriers/b", json=arrive, timeout=30))

        waiter = threading.Thread(target=wait)
        waiter.start()
        until(lambda: running.coordinator.show("two")["barriers"], "the arrival")
    bye = stream.take(1, "bye")[0]
    assert bye.value["code"] == "draining"
    waiter.join(30)
    assert not waiter.is_alive()
    problem(waiting[0], 503, "draining")


def test_a_reader_that_does_not_read_is_cut_off_and_costs_little(tmp_path: Path) -> None:
    """It is given up after a while; until then nothing piles up but what the sockets hold."""
    with live(tmp_path, http={"request_timeout_s": 1.0}) as running:
        running.coordinator.create("demo")
        big = {f"k{n}": "x" * 4000 for n in range(30)}
        with socket.create_connection(("127.0.0.1", running.port)) as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.sendall(b"GET /api/runs/demo/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200 OK" in lazy.recv(100)
            for _ in range(60):
                wish = {"command": "reconfigure", "arguments": big}
                assert running.http.post("/api/runs/demo/orders", json=wish).status_code == 200
            door = running.coordinator._open().doors[-1]
            lines = door._uvicorn.server_state.connections  # type: ignore[attr-defined]
            until(lambda: len(lines) == 1, "the lazy one is cut off")
            assert door.streams.open == 0 or until(lambda: door.streams.open == 0)  # type: ignore[attr-defined]


# -- a real server that is killed ----------------------------------------------------------------------------------


class Follower(threading.Thread):
    """Reads a stream for as long as it is wanted, as a browser does: breaks are mended with the last id."""

    def __init__(self, url: str, path: str, last: str) -> None:
        super().__init__(daemon=True)
        self._url, self._path, self._last = url, path, last
        self.seen: list[tuple[str, int]] = []
        self.others: list[Event] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with Stream(self._url, self._path, last=self._last) as stream:
                    while not self.over.is_set():
                        self._take(stream.next())
            except (httpx.TransportError, StopIteration):
                self.over.wait(0.02)

    def _take(self, event: Event) -> None:
        self._last = event.id
        if event.kind == "entry":
            self.seen.append((event.value["run"], event.value["n"]))
        elif event.kind != "position":
            self.others.append(event)


class Writer(threading.Thread):
    """Gives orders, each until it is taken: one that was not answered is given again under its name."""

    def __init__(self, url: str, orders: int) -> None:
        super().__init__(daemon=True)
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)
        self._orders = orders
        self.given = 0

    def run(self) -> None:
        with self._http:
            for n in range(self._orders):
                run = "other" if n % 4 == 0 else "demo"
                until(lambda run=run, n=n: self._give(run, f"order-{n}"), "an order is taken")  # type: ignore[misc]
                self.given += 1

    def _give(self, run: str, key: str) -> bool:
        headers = {"idempotency-key": key}
        try:
            answer = self._http.post(f"/api/runs/{run}/orders", json={"command": "pause"}, headers=headers)
        except httpx.TransportError:
            return False
        return answer.status_code == 200


@pytest.mark.timeout(180)
def test_across_kills_every_entry_is_seen_exactly_once(tmp_path: Path) -> None:
    """`quoracy serve` is killed with -9, three times, while entries are written and read."""
    port = free_port()
    config = tmp_path / "quoracy.toml"
    config.write_text(f"[http]\nport = {port}\n[grpc]\nenabled = false\n")
    folder, url = tmp_path / "data", f"http://127.0.0.1:{port}"
    one, every = Follower(url, "/api/runs/demo/events", "0"), Follower(url, "/api/events", "-")
    writer = Writer(url, 200)
    for enough in (50, 100, 150):
        with Serving(folder, "--config", str(config)) as serving:
            if enough == 50:
                for run in ("demo", "other"):
                    assert httpx.post(f"{url}/api/runs", json={"run": run}, trust_env=False).status_code == 201
                for thread in (one, every, writer):
                    thread.start()
            until(lambda enough=enough: writer.given >= enough and one.seen, "orders are given")  # type: ignore[misc]
            serving.kill()
    with Serving(folder, "--config", str(config)), httpx.Client(base_url=url, trust_env=False) as http:
        until(lambda: writer.given == 200, "all orders are given")
        heads = {run: http.get(f"/api/runs/{run}").json()["entry"] for run in ("demo", "other")}
        until(lambda: len(one.seen) >= heads["demo"], "the follower has caught up")
        until(lambda: len(every.seen) >= sum(heads.values()), "the follower of all has caught up")
        one.over.set()
        every.over.set()
    for thread in (one, every, writer):
        thread.join(30)
    journal = SqliteJournal(folder)
    written = {run: list(range(1, journal.last(run) + 1)) for run in ("demo", "other")}
    assert one.seen == [("demo", n) for n in written["demo"]], one.others
    for run, entries in written.items():
        assert [n for name, n in every.seen if name == run] == entries, every.others
    orders = [entry for entry in journal.read("other", 1, 1000) if b"worker-ordered" in entry]
    assert len(orders) == 50, "an order that was given again was not given twice"
    assert (one.others, every.others) == ([], [])
    journal.close()
