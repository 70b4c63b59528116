"""A witnessed run as people see it: pages, epochs, curves that survive a restart, figures, orders."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from tests.doors.http.live import Stream
from tests.doors.witnesses import RUN, Witness, play
from tests.e2e.command import quoracy, told, until

from quoracy.cli.top import page
from quoracy.coordinator import Coordinator

SETTINGS: dict[str, Any] = {
    "min_clients": 3, "waiting_extra_s": 0, "checkpoint": "none", "rounds_per_epoch": 2, "round_train_max_s": 600,
    "adaptive_deadline": False, "round_witness_s": 600, "warmup_s": 600, "cooldown_s": 600, "heartbeat_timeout_s": 600,
}  # fmt: skip


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=tmp_path / "data", http={"port": 0}, series={"sample_s": 0.1}) as running:
        yield running


@pytest.fixture
def three(coordinator: Coordinator) -> Iterator[list[Witness]]:
    coordinator.create(RUN, "witnessed", **SETTINGS)
    with ExitStack() as stack:
        yield [stack.enter_context(Witness(coordinator.url, f"m{i}")) for i in (1, 2, 3)]


def epoch(witnesses: list[Witness], first: int) -> None:
    """Two rounds, and what is said at the end."""
    for witness in witnesses:
        witness.warm()
    play(witnesses, range(first, first + 2))
    for witness in witnesses:
        witness.end(first + 2)


def test_every_signal_is_acknowledged_or_refused_by_name(coordinator: Coordinator, three: list[Witness]) -> None:
    one = three[0]
    assert one.beat()[1:] == ["Warmup", 0, 0]
    one.warm()
    assert one.say(one.hash_of(7)).code == "wrong_step"
    for other in three[1:]:
        other.warm()
    one.round()
    assert one.say(one.hash_of(0)) == ["RoundTrain", 0, 0]
    assert one.beat()[1:] == ["RoundTrain", 0, 0]


def printed(shown: dict[str, Any], width: int, height: int | None) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height or 200, highlight=False).print(page(shown, height))
    return out.getvalue().splitlines()


def test_the_page_of_a_real_run_says_what_matters(coordinator: Coordinator, three: list[Witness]) -> None:
    epoch(three, 0)
    for witness in three:
        witness.warm()
    play(three, range(2, 3))
    for witness in three:
        witness.round(3)
    three[0].commit()
    three[1].commit()
    shown = until(lambda: coordinator.show(RUN)["current"]["results"] == 2 and coordinator.show(RUN), "two results")
    for width, height in product((60, 80, 120), (24, 40, None)):
        lines = printed(shown, width, height)
        assert all(len(line) <= width for line in lines)
        assert height is None or len(lines) <= height
        assert lines[0].startswith(f"{RUN}  RoundTrain  10.0 min left")
        assert lines[1].startswith("epoch 1, round 1  step 3")
        text = "\n".join(lines)
        assert "results 2 of 3" in text
        assert "missing: results of m3; attestations of m" in text
        assert any(line.startswith("m3") and "trains" in line for line in lines)
        assert lines[-1] == "3 members: 3 InStep"
    wide = printed(shown, 120, None)
    assert any(line.split()[:3] == ["m1", "InStep", "3/3"] for line in wide)
    assert any("┤" in line for line in wide)


def test_the_verbs_of_the_command_line_work_for_it(coordinator: Coordinator, three: list[Witness]) -> None:
    url = coordinator.url
    epoch(three, 0)
    assert "witnessed" in quoracy("status", url=url).stdout
    assert "Warmup" in quoracy("run", "list", url=url).stdout
    top = quoracy("top", RUN, "--once", url=url).stdout
    assert "epoch 1, round 0" in top
    assert "loss" in top
    assert "warms up" in quoracy("explain", RUN, url=url).stdout
    assert "3 members: 3 Warming" in quoracy("run", "show", RUN, url=url).stdout
    for witness in three:
        witness.warm()
    for witness in three:
        witness.round(2)
    assert told(quoracy("run", "pause", RUN, "--reason", "wait", "--json", url=url))["ok"]
    assert coordinator.show(RUN)["phase"] == "RoundTrain"
    play(three, range(2, 3))  # what is under way is finished
    for witness in three:
        witness.end(3)
    until(lambda: coordinator.show(RUN)["phase"] == "Paused", "it pauses")
    assert "paused after 3 steps: wait" in quoracy("explain", RUN, url=url).stdout
    assert told(quoracy("run", "resume", RUN, "--json", url=url))["ok"]
    until(lambda: coordinator.show(RUN)["phase"] == "Warmup", "it goes on")
    assert told(quoracy("run", "stop", RUN, "--reason", "enough", "--json", url=url))["ok"]
    refused = quoracy("run", "readmit", RUN, "--member", "nobody", url=url)
    assert refused.returncode != 0


def test_a_run_that_is_stopped_in_a_round_says_that_it_finishes_it(
    coordinator: Coordinator, three: list[Witness]
) -> None:
    for witness in three:
        witness.warm()
    three[0].round(0)
    said = " ".join(quoracy("run", "stop", RUN, url=coordinator.url).stdout.split())
    assert "stops when its round is sealed and its model kept; it is RoundTrain now" in said
    play(three, range(1))
    for witness in three:
        witness.end(1)
    until(lambda: coordinator.show(RUN)["phase"] == "Finished", "it is over")
    assert coordinator.show(RUN)["step"] == 1


def test_the_http_door_shows_it(coordinator: Coordinator, three: list[Witness]) -> None:
    for first in (0, 2, 4):
        epoch(three, first)
    with httpx.Client(base_url=coordinator.addresses["http"], trust_env=False) as http:
        shown = http.get(f"/api/runs/{RUN}").json()
        assert (shown["kind"], shown["phase"], shown["epoch"], shown["step"]) == ("witnessed", "Warmup", 3, 6)
        assert [member["id"] for member in shown["members"]] == ["m1", "m2", "m3"]
        assert shown["members"][0]["metrics"] == {"accuracy": pytest.approx(0.55)}
        assert [row["loss"] for row in shown["sealed"]] == pytest.approx([1 / (1 + step) for step in range(6)])
        assert (shown["account"]["applied"], shown["account"]["open"]) == (48, 0)
        assert (shown["checkpoint"]["source"], shown["checkpoint"]["step"]) == ("p2p", 6)
        brief = http.get("/api/runs").json()["runs"][0]
        assert (brief["members"], brief["epoch"], brief["step"]) == (3, 3, 6)
        first = http.get(f"/api/runs/{RUN}/epochs?limit=2").json()
        assert ([one["epoch"] for one in first["epochs"]], first["of"]) == ([0, 1], 3)
        rest = http.get(f"/api/runs/{RUN}/epochs", params={"cursor": first["next"]}).json()
        assert ([one["epoch"] for one in rest["epochs"]], rest["next"]) == ([2], None)
        over = rest["epochs"][0]
        assert (over["first_step"], over["step"], over["rounds"], over["roster"]) == (4, 6, 2, ["m1", "m2", "m3"])
        assert (over["account"]["applied"], over["checkpoint"]["step"]) == (48, 6)
        assert "rounds_per_epoch" in over["because"]
        with Stream(coordinator.addresses["http"], f"/api/runs/{RUN}/events?after=0") as stream:
            types = {event["type"] for entry in stream.take(12) for event in entry.value["events"]}
            assert {"run-created", "member-joined", "warmup-ended", "result-committed", "round-sealed"} <= types
        assert http.post(f"/api/runs/{RUN}/pause", json={"reason": "look"}).status_code == 200
        assert http.post(f"/api/runs/{RUN}/resume", json={}).status_code == 200
        made = http.post("/api/runs", json={"run": "other", "kind": "witnessed", "config": {"min_clients": 2}})
        assert (made.status_code, made.json()["min_clients"]) == (201, 2)
        config = {"min_clients": 0, "data": {"kind": "x"}}
        wrong = http.post("/api/runs", json={"run": "third", "kind": "witnessed", "config": config})
        assert [fault["field"] for fault in wrong.json()["errors"]] == ["config.min_clients", "config.data"]
        assert http.post("/api/runs", json={"run": "fourth"}).status_code == 201
        assert http.get("/api/runs/fourth/epochs").json()["code"] == "wrong_kind"
        assert http.get(f"/api/runs/{RUN}/history").json()["code"] == "wrong_kind"


def buckets(coordinator: Coordinator, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = coordinator.ask("series", RUN, name=name, last_s=3600)["buckets"]
    return found


def counted(coordinator: Coordinator, name: str) -> int:
    return sum(bucket["count"] for bucket in buckets(coordinator, name))


def test_the_series_of_a_run_are_kept_once_and_survive_a_restart(tmp_path: Path) -> None:
    folder, sampled = tmp_path / "data", {"sample_s": 0.1}
    with Coordinator(folder=folder, series=sampled) as coordinator, ExitStack() as stack:
        coordinator.create(RUN, "witnessed", **SETTINGS)
        three = [stack.enter_context(Witness(coordinator.url, f"m{i}")) for i in (1, 2, 3)]
        epoch(three, 0)
        until(lambda: counted(coordinator, "metric.loss") == 2, "both losses")
        until(lambda: counted(coordinator, "metric.accuracy") and counted(coordinator, "members.Warming"), "the rest")
        names = {one["name"] for one in coordinator.ask("series-names", RUN)["series"]}
        documented = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (`[\w.]+`(?:, `[\w.]+`)*) \| witnessed rounds \|", documented, re.MULTILINE)
        listed = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
        assert len(listed) >= 6
        for curve in [*listed, "heartbeats_per_s", "commit_s"]:
            assert any(name.startswith(curve.removesuffix("STATE").removesuffix("NAME")) for name in names), curve
        assert buckets(coordinator, "metric.accuracy")[-1]["high"] == pytest.approx(0.51)
        looks = counted(coordinator, "members.Warming")
    with Coordinator(folder=folder, series=sampled) as coordinator:
        until(lambda: counted(coordinator, "members.Warming") > looks + 1, "the next server has looked")
        assert counted(coordinator, "metric.loss") == 2
        assert sum(bucket["total"] for bucket in buckets(coordinator, "metric.loss")) == pytest.approx(1.5)


def test_prometheus_counts_members_results_and_rounds(coordinator: Coordinator, three: list[Witness]) -> None:
    epoch(three, 0)
    with httpx.Client(base_url=coordinator.addresses["http"], trust_env=False) as http:

        def read(line: str) -> float:
            lines = http.get("/metrics").text.splitlines()
            return next((float(one.rpartition(" ")[2]) for one in lines if one.startswith(line)), 0.0)

        until(lambda: read(f'quoracy_members{{run="{RUN}",state="Warming"}}') == 3, "three members")
        assert read(f'quoracy_results_total{{run="{RUN}"}}') == 6
        assert read(f'quoracy_rounds_sealed_total{{outcome="early",run="{RUN}"}}') == 2
        until(lambda: read(f'quoracy_round_seconds_count{{run="{RUN}"}}') == 2, "two rounds")
        assert read(f'quoracy_heartbeats_total{{run="{RUN}"}}') >= 6


def test_settings_and_where_things_are_can_be_asked(coordinator: Coordinator, three: list[Witness]) -> None:
    told_ = coordinator.ask("settings", RUN)
    assert (told_["kind"], told_["config"]["min_clients"], told_["config"]["batch_size"]) == ("witnessed", 3, 32)
    where = coordinator.ask("weights", RUN)
    assert (where["prefix"], where["http"]) == (RUN, coordinator.addresses["http"])
    replied = three[0].talk.ask("settings", RUN)
    assert replied.value["config"]["rounds_per_epoch"] == 2
