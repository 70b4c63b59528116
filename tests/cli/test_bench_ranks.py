"""``quoracy bench ranks`` with few ranks: every figure is measured, and what does not depend on the machine is met."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quoracy.bench import ranks as bench
from quoracy.report import Report


def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "SIZES", {4: 10})
    monkeypatch.setattr(bench, "KILLS", 1)
    monkeypatch.setattr(bench, "STAY", (range(2), range(2, 4)))
    monkeypatch.setattr(bench, "DIE", (range(4, 7), range(7, 8)))
    monkeypatch.setattr(bench, "FAULTY_S", 20.0)
    monkeypatch.setattr(bench, "LEAST_KILLS", 1)


def test_bench_ranks_measures_real_ranks_beside_a_counter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In two processes, and without the faults."""
    small(monkeypatch, tmp_path)
    whole = bench.crowds
    monkeypatch.setattr(bench, "crowds", lambda number=2: whole(number))
    monkeypatch.setattr(bench, "faults", lambda *_arguments: None)
    report = bench.bench_ranks()
    assert report.failures == []
    figures = {each.name: each for each in report.measurements}
    for name in ("tcpstore_4_decision_ms_p50", "etcd_4_decision_ms_p50", "vs_counter_barrier_4"):
        assert figures[name].value > 0
    beside = figures["etcd_vs_counter_barrier_4"]
    assert beside.value > 0
    assert beside.target is None
    ops = figures["store_ops_per_iteration_4"]
    assert ops.target == 6 * 4 + 10
    assert ops.met()
    assert figures["bare_calls_vs_counter_barrier_4"].value > 0
    assert figures["decider_killed_to_next_s"].target == bench.DEAD_S + 1


@pytest.mark.soak("integrations")
@pytest.mark.timeout(180)
def test_bench_ranks_goes_on_under_faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small(monkeypatch, tmp_path)
    report = bench.bench_ranks()
    assert report.failures == []
    figures = {each.name: each for each in report.measurements}
    assert figures["faults_64_attempts"].value > 0
    kills = figures["faults_64_kills"]
    assert kills.value >= 1
    assert kills.target == 1
    assert f"{kills.value} times kill -9" in figures["faults_64_loss_s_max"].against


def test_fewer_kills_than_there_should_be_are_a_miss() -> None:
    report = Report("bench ranks")
    rounds = {at: (at * 0.1, at * 0.1 + 0.05) for at in range(600)}
    bench._report_faults(report, rounds, [at * 5.0 for at in range(1, 10)])
    assert [each.name for each in report.measurements if each.met() is False] == ["faults_64_kills"]


def test_an_etcd_that_is_not_there_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nothing(*_number: int) -> Iterator[Any]:
        yield None

    for name in ("tcpstore", "crowds", "etcd"):
        monkeypatch.setattr(bench, name, nothing)
    for name in ("beside_counter", "killed_deciders", "faults"):
        monkeypatch.setattr(bench, name, lambda *_arguments: {})
    report = bench.bench_ranks()
    assert not report.ok()
    assert "etcd is not there" in report.failures[0]
