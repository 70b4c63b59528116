"""History and counting with real processes: what workers measure is kept, survives the death of the coordinator, and is
never in its way."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.sdk.live import RUN, LiveServer, wait_for

import quoracy

SETTINGS: dict[str, Any] = {"grpc": {"enabled": False}, "http": {"enabled": False}, "series": {"sample_s": 0.1}}


def curve(server: LiveServer, name: str, subject: str = "", max_points: int = 10_000) -> list[dict[str, Any]]:
    buckets: list[dict[str, Any]] = server.ask(
        "series", name=name, subject=subject, last_s=600.0, max_points=max_points
    )["buckets"]
    return buckets


def count(server: LiveServer, name: str, subject: str = "") -> int:
    return sum(bucket["count"] for bucket in curve(server, name, subject))


@contextmanager
def working(server: LiveServer) -> Iterator[quoracy.Worker]:
    with quoracy.connect(server.url, RUN, "w1") as worker:
        yield worker


def test_what_a_worker_measures_is_kept_and_survives_a_kill(tmp_path: Path) -> None:
    with LiveServer(tmp_path, **SETTINGS) as server, working(server) as worker:
        for step in range(5):
            worker.report(loss=1.0 / (1 + step))
            worker.barrier("step", step)
        wait_for(lambda: count(server, "metric.loss", "w1") >= 5, "the loss has a curve")
        expected = {("workers.Training", ""), ("step", "w1"), ("commit_s", ""), ("barrier_wait_s", "step")}

        def all_there() -> bool:
            """Barriers that are passed before the first look at them have no curve."""
            nonlocal step
            step += 1
            worker.barrier("step", step)
            return expected <= {(series["name"], series["subject"]) for series in server.ask("series-names")["series"]}

        wait_for(all_there, "all curves")
        before = curve(server, "metric.loss")
        server.restart()
        after = {bucket["start_s"]: bucket["count"] for bucket in curve(server, "metric.loss")}
        for bucket in before:
            assert after[bucket["start_s"]] >= bucket["count"]
        grown = sum(after.values())
        wait_for(lambda: count(server, "metric.loss") > grown, "it goes on")
        assert 0.0 < curve(server, "metric.loss", max_points=1)[0]["low"] <= 1.0


def test_a_damaged_history_is_put_aside_and_a_newer_one_left_alone(tmp_path: Path) -> None:
    with LiveServer(tmp_path, **SETTINGS) as server:
        wait_for(lambda: server.ask("series-names")["series"], "there is a history")
        server.kill()
        (tmp_path / "series.db").write_bytes(b"nonsense" * 5000)
        for left in ("series.db-wal", "series.db-shm"):
            (tmp_path / left).unlink(missing_ok=True)
        server.start()
        wait_for(lambda: server.ask("series-names")["series"], "there is a history again")
        assert (tmp_path / "series.db.aside-1").exists()
        server.kill()
        with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
            connection.execute("PRAGMA user_version = 99")
        server.start()
        wait_for(lambda: server.ask("series-names")["series"], "there is a history in memory")
        with closing(sqlite3.connect(tmp_path / "series.db")) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (99,)


def test_top_draws_the_speed_and_the_loss(tmp_path: Path) -> None:
    with LiveServer(tmp_path, **SETTINGS) as server, working(server) as worker:
        step = 0

        def known() -> bool:
            nonlocal step
            worker.report(loss=2.0 / (1 + step))
            worker.barrier("step", step)
            step += 1
            return count(server, "steps_per_s") > 0 and count(server, "metric.loss") > 0

        wait_for(known, "there is something to draw")
        command = [sys.executable, "-m", "quoracy", "top", RUN, server.url, "--once", "--span", "60"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    for called in ("steps/s", "loss"):
        assert re.search(rf"^{called} +[▁▂▃▄▅▆▇█ ]*[▁▂▃▄▅▆▇█] +\S+ +\S+ to \S+", shown, re.MULTILINE), shown


def test_a_server_counts_what_happens(tmp_path: Path) -> None:
    from quoracy.coordinator import Coordinator

    with Coordinator(tmp_path, series={"sample_s": 0.1}) as coordinator:
        coordinator.create(RUN, heartbeat_interval_s=0.1, heartbeat_timeout_s=1.0)
        metrics = coordinator._open().server.metrics

        def value(name: str, **labels: str) -> float:
            return metrics.registry.get_sample_value(name, labels) or 0.0

        with quoracy.connect(coordinator.url, RUN, "w1") as worker:
            for step in range(3):
                worker.barrier("step", step)
            wait_for(lambda: value("quoracy_workers", run=RUN, state="Training") == 1, "the worker is counted")
            wait_for(lambda: value("quoracy_heartbeats_total", run=RUN) >= 3, "heartbeats are counted")
            assert value("quoracy_barriers_total", run=RUN, outcome="released") == 3
            assert value("quoracy_barrier_wait_seconds_count", run=RUN) == 3
            assert value("quoracy_commands_total", outcome="accepted") >= 2
            assert value("quoracy_connections", door="tcp") >= 1
            assert value("quoracy_runs", phase="serving") == 1
            assert value("quoracy_heartbeat_age_seconds_count", run=RUN) > 0
        entries = coordinator.show(RUN)["entry"]
        assert value("quoracy_entries_total", run=RUN) == entries
        assert value("quoracy_commit_seconds_count") == entries
