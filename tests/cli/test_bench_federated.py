"""Federated rounds, measured small: every figure is there, and what ours stand beside does the same work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quoracy.bench import aggregate as aggregating
from quoracy.bench import participants, rounds
from quoracy.bench.rounds import Case
from quoracy.core.federated.aggregation import Bulyan, FedAvg, Krum, Median, TrimmedMean
from quoracy.learn import aggregate, load

BESIDE: list[tuple[Any, Callable[[Any], Any]]] = [
    (FedAvg(), aggregating.plain_fedavg),
    (Median(), aggregating.plain_median),
    (TrimmedMean(2), aggregating.plain_trimmed_mean),
    (Krum(aggregating.LIES), aggregating.plain_krum),
    (Bulyan(aggregating.LIES), aggregating.plain_bulyan),
]


@pytest.mark.parametrize(("settings", "plain"), BESIDE, ids=[plain.__name__ for _, plain in BESIDE])
def test_what_a_rule_is_measured_beside_computes_the_same(
    settings: Any, plain: Callable[[Any], Any], tmp_path: Path
) -> None:
    updates = aggregating._make(tmp_path, 50_000)
    (tmp_path / "made").mkdir()
    made = load(aggregate(settings, updates, updates[0].path, None, tmp_path / "made").weights)
    beside = plain(updates)
    if isinstance(beside, dict):
        beside = np.concatenate([beside[name].reshape(-1) for name in made])
    assert beside.shape == (50_000,)
    assert np.allclose(np.concatenate([array.reshape(-1) for array in made.values()]), beside, atol=1e-6)
    mean = np.mean([np.concatenate([array.reshape(-1) for array in load(u.path).values()]) for u in updates], axis=0)
    assert not np.allclose(beside, mean, atol=1e-6), "or any rule would do"


def test_bench_rounds_measures_real_rounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rounds, "MEGABYTE", 4096)
    monkeypatch.setattr(rounds, "CASES", (Case(1, 2, 3, 10_000.0), Case(1, 12, 2)))
    report = rounds.bench_rounds()
    assert report.failures == []
    few, many = report.measurements
    assert (few.name, few.target, few.met()) == ("round_ms_1mb_2", 10_000.0, True)
    assert few.value > 0
    assert few.against.startswith("3 rounds, ")
    assert (many.name, many.target) == ("round_ms_1mb_12", None)
    assert many.against.startswith("2 rounds, ")


def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(participants, "HELD_S", 0.5)
    monkeypatch.setattr(participants, "PER_ROUND", 5)
    monkeypatch.setattr(participants, "on_other_core", lambda: None)


def test_bench_participants_holds_all_of_them_before_the_first_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small(monkeypatch, tmp_path)
    report = participants.bench_participants(60)
    assert report.ok()
    figures = {each.name: each for each in report.measurements}
    for name in ("registered", "still_here", "saw_the_end"):
        assert (figures[name].value, figures[name].target) == (60, 60)
    assert (figures["rounds"].value, figures["written_meanwhile"].value) == (participants.ROUNDS, 0)
    assert figures["rss_mb_60_participants"].value > 0


def test_bench_participants_misses_its_target_if_one_does_not_come(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small(monkeypatch, tmp_path)
    monkeypatch.setattr(participants, "PATIENCE_S", 5.0)

    class OneShort(participants.Crowd):
        def __init__(self, addresses: Any, run: str, members: dict[str, Any], *more: Any, **named: Any) -> None:
            super().__init__(addresses, run, dict(list(members.items())[1:]), *more, **named)

    monkeypatch.setattr(participants, "Crowd", OneShort)
    report = participants.bench_participants(12)
    missed = {each.name: each.value for each in report.measurements if each.met() is False}
    assert missed == {"registered": 11, "still_here": 11, "rounds": 0, "saw_the_end": 0}
    assert "11 of clients = 12 are registered" in report.failures[0]
