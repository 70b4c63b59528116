"""A federated run as people see it: pages, metrics, curves that survive a restart, orders."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from tests.doors.http.live import Stream
from tests.doors.talk import RUN
from tests.e2e.command import quoracy, told, until
from tests.rounds.party import Parties, ended, play_round

from quoracy.cli.top import page
from quoracy.coordinator import Coordinator

OURS = {"modules": ["tests.rounds.test_seen"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def coordinator(folder: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=folder, http={"port": 0}, series={"sample_s": 0.1}, workshop=OURS) as running:
        yield running


@pytest.fixture
def parties(coordinator: Coordinator) -> Iterator[Parties]:
    with Parties(coordinator) as parties:
        yield parties


def evaluated(arrays: dict[str, Any], _task: Any) -> dict[str, float]:
    return {"accuracy": float(arrays["a"].mean())}


def played(coordinator: Coordinator, parties: Parties, folder: Path, scratch: Path, rounds: int = 2) -> None:
    evaluation = "tests.rounds.test_seen:evaluated"
    coordinator.create(RUN, "federated", clients=2, rounds=rounds, evaluation=evaluation)
    both = [parties.join("p1"), parties.join("p2")]
    play_round(folder, both[:1], -1, scratch)
    for number in range(2):
        play_round(folder, both, number, scratch)


def curve(coordinator: Coordinator, name: str) -> list[float]:
    return [bucket["high"] for bucket in coordinator.ask("series", RUN, name=name)["buckets"]]


def test_every_round_is_a_point_of_the_curves_and_stays_after_a_restart(folder: Path, tmp_path: Path) -> None:
    with (
        Coordinator(folder=folder, series={"sample_s": 0.1}, workshop=OURS) as coordinator,
        Parties(coordinator) as parties,
    ):
        played(coordinator, parties, folder, tmp_path)
        ended(coordinator)
        until(lambda: max(curve(coordinator, "round"), default=-1) == 1, "both rounds are in the history")
        assert max(curve(coordinator, "evaluation.accuracy")) == pytest.approx(10 / 3)
        assert max(curve(coordinator, "metric.loss")) == pytest.approx(2 / 3)
        assert max(curve(coordinator, "updates")) == 2
    with Coordinator(folder=folder, series={"sample_s": 0.1}, workshop=OURS) as coordinator:
        assert max(curve(coordinator, "evaluation.accuracy")) == pytest.approx(10 / 3)
        names = {one["name"] for one in coordinator.ask("series-names", RUN)["series"]}
        assert {"round", "round_s", "updates", "participants.Waiting", "metric.loss", "evaluation.accuracy"} <= names
        documented = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (`[\w.]+`(?:, `[\w.]+`)*) \| rounds \|", documented, re.MULTILINE)
        for listed in (name for row in rows for name in re.findall(r"`([\w.]+)`", row)):
            assert any(name.startswith(listed.removesuffix("STATE").removesuffix("NAME")) for name in names), listed
        until(lambda: sum(curve(coordinator, "participants.Waiting")), "it is looked at again")
        buckets = coordinator.ask("series", RUN, name="round")["buckets"]
        assert sum(bucket["count"] for bucket in buckets) == 2, "no round is counted twice"


def test_prometheus_is_told_of_rounds_and_updates(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    played(coordinator, parties, folder, tmp_path)
    ended(coordinator)
    url = f"{coordinator.addresses['http']}/metrics"

    def read(sample: str) -> float:
        found = re.search(rf"^{re.escape(sample)} (\S+)$", httpx.get(url, trust_env=False).text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    until(lambda: read('quoracy_round_seconds_count{run="demo"}') == 2, "two rounds")
    assert read('quoracy_updates_total{outcome="admitted",run="demo"}') == 4, "the initial weights are no update"
    until(lambda: read('quoracy_participants{run="demo",state="Waiting"}') == 2, "two participants")
    assert read('quoracy_workers{run="demo",state="Waiting"}') == 0


def printed(shown: dict[str, Any], width: int, height: int | None) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height or 100, highlight=False).print(page(shown, height))
    return out.getvalue().splitlines()


def test_the_page_fits_and_says_what_matters(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    played(coordinator, parties, folder, tmp_path, rounds=5)
    until(lambda: coordinator.show(RUN)["round"] == 2 and coordinator.show(RUN)["open"], "round 2 is open")
    shown = coordinator.show(RUN)
    for width, height in product((40, 80, 140), (14, 24, None)):
        lines = printed(shown, width, height)
        assert all(len(line) <= width for line in lines)
        assert height is None or len(lines) <= height
        assert "round 3 of 5" in lines[1]
        assert any("accuracy" in line and "█" in line for line in lines)
        assert any(line.startswith("p1") and "Training" in line for line in lines)
        assert lines[-1].startswith("2 participants: 2 Training")


def test_the_verbs_of_the_command_line_work_for_it(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    url = coordinator.url
    played(coordinator, parties, folder, tmp_path, rounds=5)
    assert "demo" in quoracy("status", url=url).stdout
    assert "federated" in quoracy("run", "list", url=url).stdout
    assert "round" in quoracy("top", RUN, "--once", url=url).stdout
    assert "updates are in" in quoracy("explain", RUN, url=url).stdout
    assert "participants: " in quoracy("run", "show", RUN, url=url).stdout
    assert told(quoracy("run", "pause", RUN, "--reason", "wait", "--json", url=url))["ok"]
    until(lambda: coordinator.show(RUN)["phase"] == "Paused", "it pauses")
    assert told(quoracy("run", "resume", RUN, "--json", url=url))["ok"]
    until(lambda: coordinator.show(RUN)["phase"] in ("Standby", "Round"), "it goes on")
    assert told(quoracy("run", "stop", RUN, "--reason", "enough", "--json", url=url))["ok"]
    assert coordinator.show(RUN)["phase"] == "Stopped"
    refused = quoracy("run", "readmit", RUN, "--participant", "nobody", url=url)
    assert refused.returncode != 0


def test_the_http_door_shows_it(coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path) -> None:
    played(coordinator, parties, folder, tmp_path, rounds=5)
    until(lambda: coordinator.show(RUN)["round"] == 2, "two rounds are over")
    with httpx.Client(base_url=coordinator.addresses["http"], trust_env=False) as http:
        shown = http.get(f"/api/runs/{RUN}").json()
        assert (shown["kind"], shown["round"], shown["rounds"]) == ("federated", 2, 5)
        assert [party["id"] for party in shown["participants"]] == ["p1", "p2"]
        brief = http.get("/api/runs").json()["runs"][0]
        assert (brief["participants"], brief["round"]) == (2, 2)
        first = http.get(f"/api/runs/{RUN}/history?limit=1").json()
        assert ([one["round"] for one in first["rounds"]], first["of"]) == ([0], 2)
        second = http.get(f"/api/runs/{RUN}/history", params={"cursor": first["next"]}).json()
        assert ([one["round"] for one in second["rounds"]], second["next"]) == ([1], None)
        assert second["rounds"][0]["evaluation"]["accuracy"] == pytest.approx(10 / 3)
        assert http.get(f"/api/runs/{RUN}/weights/2/global").status_code == 200
        with Stream(coordinator.addresses["http"], f"/api/runs/{RUN}/events?after=0") as stream:
            types = {event["type"] for entry in stream.take(8) for event in entry.value["events"]}
            assert {"run-created", "participant-joined", "round-began", "update-offered"} <= types
        assert http.get(f"/api/runs/{RUN}/weights/1/p2").status_code == 200
        assert http.post(f"/api/runs/{RUN}/pause", json={"reason": "look"}).status_code == 200
        assert http.post(f"/api/runs/{RUN}/resume", json={}).status_code == 200
        made = http.post("/api/runs", json={"run": "other", "kind": "federated", "config": {"clients": 3}})
        assert (made.status_code, made.json()["clients"]) == (201, 3)
        wrong = http.post("/api/runs", json={"run": "third", "kind": "federated", "config": {"clients": 0}})
        assert [fault["field"] for fault in wrong.json()["errors"]] == ["config.clients"]
        of_cluster = http.post("/api/runs", json={"run": "fourth"})
        assert of_cluster.status_code == 201
        assert http.get("/api/runs/fourth/history").json()["code"] == "wrong_kind"
        assert http.post("/api/runs/fourth/pause", json={}).json()["code"] == "wrong_kind"
        for path in ("roll-back", "workers/w1/leave", "workers/w1/heartbeat"):
            said = {} if path == "roll-back" else {"incarnation": 1, "seq": 1}
            assert http.post(f"/api/runs/{RUN}/{path}", json=said).json()["code"] == "wrong_kind", path
