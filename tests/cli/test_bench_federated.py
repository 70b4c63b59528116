"""Federated rounds, measured small: every figure is there, and what ours stand beside does the same work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quoracy.bench import aggregate as aggregating
from quoracy.bench import heartbeats, nothing, participants, rounds
from quoracy.bench.heartbeats import Held
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
    monkeypatch.setattr(rounds, "CASES", (Case(1, 2, 3, 10_000.0), Case(1, 12, 2), Case(1, 2, 2, 20_000.0, "http")))
    report = rounds.bench_rounds()
    assert report.failures == []
    few, many, sent = report.measurements
    assert (few.name, few.target, few.met()) == ("round_ms_1mb_2", 10_000.0, True)
    assert few.value > 0
    assert few.against.startswith("3 rounds, ")
    assert (many.name, many.target) == ("round_ms_1mb_12", None)
    assert many.against.startswith("2 rounds, ")
    assert (sent.name, sent.target, sent.met()) == ("http_round_ms_1mb_2", 20_000.0, True)
    assert sent.against.endswith("4 MB over sockets in each")


@pytest.mark.parametrize(("cache", "way"), [("", "store"), ("/somewhere/cache-1", "http")])
def test_participants_with_a_cache_of_their_own_move_weights_over_sockets_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch, cache: str, way: str
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("quoracy.participate", lambda *_, **named: asked.update(named))
    nothing.main("tcp://127.0.0.1:1", "bench", "participant-001", 4096, cache)
    assert (asked["weights"], asked["cache"]) == (way, cache or None)


def test_bench_rounds_gives_each_participant_a_cache_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Or only the first would fetch the model."""
    started: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_named: Any) -> None:
            started.append(command)

        def kill(self) -> None: ...

        def wait(self) -> None: ...

    monkeypatch.setattr(rounds.subprocess, "Popen", Process)
    for case in (Case(1, 10, 1), Case(1, 10, 1, None, "http")):
        with rounds._participants(case, "tcp://127.0.0.1:1", tmp_path):
            pass
    caches = [command[-1] for command in started]
    assert caches[:10] == [""] * 10
    assert len(set(caches[10:])) == 10
    with (
        pytest.raises(ValueError, match="at most 10"),
        rounds._participants(Case(1, 11, 1, None, "http"), "", tmp_path),
    ):
        pass


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


def offered(most_per_s: int, core_share: float) -> Callable[[int], Held]:
    """A server that keeps up to a rate; every second try of it is disturbed by somebody else."""
    tries: list[int] = []

    def offer(rate: int) -> Held:
        tries.append(rate)
        holds = rate <= most_per_s and (rate % 20_000 != 0 or tries.count(rate) > 1)
        return Held(float(rate), 1.0, 5.0 if holds else 50.0, core_share if rate > most_per_s else 0.5)

    return offer


@pytest.mark.parametrize("most_per_s", [30_000, 80_000, 250_000])
def test_bench_heartbeats_climbs_until_a_rate_does_not_hold(most_per_s: int) -> None:
    """There is no step above which it does not look."""
    found = heartbeats.climb(offered(most_per_s, 0.99))
    assert (found.held.per_s, found.broke.per_s) == (most_per_s, most_per_s + heartbeats.STEP)
    assert found.against == "the limit: 99% of the server's core at the next step"


def test_bench_heartbeats_says_at_least_where_the_sender_was_the_limit() -> None:
    found = heartbeats.climb(offered(50_000, 0.6))
    assert found.against == "at least: 60% of the server's core at the next step, the sender was the limit"
