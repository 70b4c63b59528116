"""``quoracy bench sdk`` with few scripts and members: every figure is measured, and what counts is counted right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quoracy.bench import sdk, storm
from quoracy.bench.sdk import Turn
from quoracy.report import Report


def figures(report: Report) -> dict[str, Any]:
    return {figure.name: figure for figure in report.measurements}


def test_real_scripts_connect_and_stand_at_barriers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two of them, without torch and without the storm."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"SCRIPTS": 2, "TURNS": 1, "WARM": 2, "ROUNDS": 5, "IMPORTS": 1}.items():
        monkeypatch.setattr(sdk, name, value)
    monkeypatch.setattr(sdk, "has_torch", lambda: False)
    monkeypatch.setattr(sdk, "restart_storm", lambda _report: None)
    report = sdk.bench_sdk()
    assert report.failures == []
    assert "torch is not installed" in report.notes[0]
    found = figures(report)
    assert all(figure.value > 0 for figure in report.measurements)
    assert {name: figure.target for name, figure in found.items()} == {
        "sdk_barrier_8_p50_ms": None, "sdk_barrier_8_p99_ms": None, "sdk_barrier_8_p50_ms_durable": None,
        "sdk_barrier_8_p99_ms_durable": None, "connect_ms": 50.0, "connect_ms_8": 100.0, "heartbeat_process_mb": 16.0,
        "import_ms": 50.0,
    }  # fmt: skip
    assert found["heartbeat_process_mb"].met(), "which does not depend on how busy the machine is"


def test_the_median_turn_counts_and_each_peer_has_its_target() -> None:
    report = Report("bench sdk")
    turns = {
        "memory": [Turn(0.6, 2.0), Turn(9.0, 90.0), Turn(0.5, 1.0)],
        "sqlite": [Turn(1.0, 3.0)] * 3,
        "gloo": [Turn(4.0, 8.0)] * 3,
        "tcpstore": [Turn(0.25, 0.5)] * 3,
    }
    sdk.report_barriers(report, turns, "2.13.0")
    found = figures(report)
    assert (found["sdk_barrier_8_p50_ms"].value, found["sdk_barrier_8_p99_ms"].value) == (0.6, 2.0)
    assert found["sdk_barrier_8_p50_ms_gloo"].value == 4.0
    beside = {name: (found[name].value, found[name].target) for name in ("sdk_vs_tcpstore_8", "sdk_vs_gloo_8")}
    assert beside == {"sdk_vs_tcpstore_8": (2.4, 2.3), "sdk_vs_gloo_8": (0.25, 0.3)}
    assert not report.ok(), "2.4 is more than 2.3"


def test_memory_is_read_as_the_kernel_writes_it() -> None:
    text = (
        "55d0-7ffd ---p 00000000 00:00 0    [rollup]\nRss:   20000 kB\nPss:   10000 kB\nPss_Anon:  9000 kB\n"
        "Private_Clean:   1000 kB\nPrivate_Dirty:   8000 kB\n"
    )
    assert sdk.rollup_mb(text) == (10.24, 9.216)


def test_modules_of_servers_are_found() -> None:
    assert sdk.of_servers({"sys", "quoracy", "quoracy.sdk.client.session"}) == []
    assert sdk.of_servers({"quoracy.hosts", "quoracy.hosts.server", "uvloop"}) == ["quoracy.hosts", "uvloop"]


def test_a_script_that_ends_without_a_word_is_noticed() -> None:
    with sdk.scripts(1) as one, pytest.raises(RuntimeError, match="before its work was done"):
        one[0].do("nothing_of_the_kind")


@pytest.mark.soak("faults")
def test_members_over_tls_are_there_again_after_a_kill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A time-out after which a coordinator on a busy machine has long been back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(storm, "MEMBERS", 6)
    monkeypatch.setattr(storm, "TIMEOUT_S", 10.0)
    report = Report("bench sdk")
    storm.restart_storm(report)
    found = figures(report)
    assert report.failures == []
    assert found["restart_storm_lost"].value == 0
    assert found["restart_storm_back_s"].value > 0
    assert found["restart_storm_back_s"].target == 10.0 / 3


def test_who_is_not_what_it_was_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storm, "MEMBERS", 4)
    rows = [("0000", "Idle", 1), ("0001", "Failed", 1), ("0002", "Idle", 2)]
    shown = {"workers": [{"id": f"member-{n}", "state": state, "incarnation": life} for n, state, life in rows]}
    assert storm.lost_members(shown) == ["member-0001", "member-0002", "member-0003"]
