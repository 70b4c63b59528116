"""Series and metrics through the door, from the real ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.doors.http.live import Live, door, problem

from quoracy.hosts.metrics import Metrics
from quoracy.ports.series import Point, Series
from quoracy.stores.memory_series import MemorySeries

Params = dict[str, str | float]


@pytest.fixture
def figures(tmp_path: Path) -> Iterator[tuple[httpx.Client, Series]]:
    series = MemorySeries()
    with door(tmp_path, series, Metrics()) as running:
        yield running.http, series


def test_series_are_named_and_read(figures: tuple[httpx.Client, Series]) -> None:
    http, series = figures
    now_s = float(int(time.time()))
    points = [Point("demo", "loss", "w1", now_s - 10 + n, float(n)) for n in range(10)]
    assert series.write([*points, Point("demo", "workers", "", now_s, 3.0)]) == []
    named = http.get("/api/runs/demo/series").json()
    assert named["series"] == [{"name": "loss", "subject": "w1"}, {"name": "workers", "subject": ""}]
    assert named["buckets"] == []
    hour = http.get("/api/runs/demo/series", params={"name": "loss", "subject": "w1"}).json()["buckets"]
    assert sum(bucket["count"] for bucket in hour) == 10, "the last hour, if nothing else is said"
    told = http.get("/api/runs/demo/series", params={"name": "loss", "subject": "w1", "since_s": now_s - 60}).json()
    assert [bucket["mean"] for bucket in told["buckets"]] == [float(n) for n in range(10)]
    assert [bucket["width_s"] for bucket in told["buckets"]] == [1] * 10
    late: Params = {"name": "loss", "subject": "w1", "since_s": now_s - 3}
    assert [bucket["last"] for bucket in http.get("/api/runs/demo/series", params=late).json()["buckets"]] == [7, 8, 9]
    few = http.get("/api/runs/demo/series", params={**late, "since_s": now_s - 10, "max_points": 2}).json()["buckets"]
    assert len(few) <= 2
    assert sum(bucket["count"] for bucket in few) == 10
    assert http.get("/api/runs/demo/series", params={"name": "nothing"}).json()["buckets"] == []
    short: Params = {"name": "loss", "subject": "w1", "last_s": 0.001}
    assert http.get("/api/runs/demo/series", params=short).json()["buckets"] == []
    future: Params = {"name": "loss", "subject": "w1", "since_s": 1e11}
    assert http.get("/api/runs/demo/series", params=future).json()["buckets"] == []
    wrongs: tuple[Params, ...] = ({"max_points": 0}, {"since_s": -1}, {"name": "x" * 200}, {"color": "red"})
    for wrong in wrongs:
        problem(http.get("/api/runs/demo/series", params=wrong), 400, "malformed")


def test_metrics_are_rendered_as_prometheus_wants_them(figures: tuple[httpx.Client, Series]) -> None:
    http, _ = figures
    plain = http.get("/metrics")
    assert plain.status_code == 200
    assert plain.headers["content-type"].startswith("text/plain")
    assert "# TYPE quoracy" in plain.text
    assert plain.headers["cache-control"] == "no-store"
    modern = http.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"})
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.rstrip().endswith("# EOF")


def test_a_server_that_counts_nothing_says_so(tmp_path: Path) -> None:
    with door(tmp_path, MemorySeries(), None) as running:
        problem(running.http.get("/metrics"), 503, "not_serving")


def test_a_coordinator_has_both(home: Live) -> None:
    assert 'quoracy_connections{door="http"} 1.0' in home.http.get("/metrics").text
    assert home.http.get("/api/runs/demo/series").status_code == 200
