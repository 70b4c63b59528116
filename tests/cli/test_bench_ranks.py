"""``quorate bench ranks`` with few ranks: every figure is measured, and what does not depend on the machine is met."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.bench import ranks as bench


@pytest.mark.timeout(180)
def test_bench_ranks_measures_real_ranks_beside_a_counter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "SIZES", {4: 10})
    monkeypatch.setattr(bench, "KILLS", 1)
    monkeypatch.setattr(bench, "STAY", (range(2), range(2, 4)))
    monkeypatch.setattr(bench, "DIE", (range(4, 7), range(7, 8)))
    monkeypatch.setattr(bench, "FAULTY_S", 10.0)
    report = bench.bench_ranks()
    assert report.failures == []
    figures = {each.name: each for each in report.measurements}
    for name in ("tcpstore_4_decision_ms_p50", "etcd_4_decision_ms_p50", "vs_counter_barrier_4", "faults_64_attempts"):
        assert figures[name].value > 0
    ops = figures["store_ops_per_iteration_4"]
    assert ops.target == 6 * 4 + 10
    assert ops.met()
    assert "1 times kill -9" in figures["faults_64_loss_s_max"].against
    assert figures["bare_calls_vs_counter_barrier_4"].value > 0
    assert figures["decider_killed_to_next_s"].target == bench.DEAD_S + 1
