"""The bench of witnessed rounds measures what it says: real members, real rounds, and clocks that are put together."""

from __future__ import annotations

from typing import Any

import pytest

from quoracy.bench import witnessed
from quoracy.bench.exchange import Exchanged
from quoracy.bench.witness_seen import Seen, Wish


@pytest.fixture(autouse=True)
def _where(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its coordinators live below the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(witnessed, "on_other_core", lambda: None)


def test_the_whole_of_it_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnessed, "ROUNDS", {4: 6, 32: 3})
    monkeypatch.setattr(witnessed, "EPOCH_MEMBERS", 6)
    monkeypatch.setattr(witnessed, "measure_exchange", lambda: Exchanged(0.75, "a copy", 750.0, 1000.0))
    report = witnessed.bench_witnessed()
    figures = {figure.name: figure for figure in report.measurements}
    assert {name: figure.target for name, figure in figures.items() if figure.target is not None} == {
        "rounds_per_s_32": 20.0, "attested_to_next_round_p99_ms_32": 50.0,
        "coordinator_bytes_per_member_round_32": 4096.0, "coordinator_bytes_large_vs_small_32": 1.05,
        "epoch_change_6_members_s": 1.0, "exchange_vs_tcp_copy": 0.5,
    }  # fmt: skip
    assert all(figure.value > 0 for figure in report.measurements)
    assert "of 3" in figures["epoch_change_6_members_s"].against, "four epochs have three changes"
    assert figures["epoch_change_6_members_stored_s"].value < 10, "the coordinator finds what was stored"


def test_what_processes_saw_becomes_one() -> None:
    """The last to attest and the last to be shown count, and of the end of an epoch the first to be shown."""
    one = Seen({1: 10, 2: 50}, {1: 5, 2: 30}, {0: 100}, {1: 140}, 7, 1)
    two = Seen({1: 12, 2: 40}, {1: 4, 2: 33}, {0: 90}, {1: 150}, 3, 2)
    assert witnessed._merged([one, two]) == Seen({1: 12, 2: 50}, {1: 5, 2: 33}, {0: 90}, {1: 150}, 10, 3)


def test_members_that_end_without_a_word_are_noticed() -> None:
    """A process that cannot even begin."""
    broken = Wish("127.0.0.1", 1, "run", [], batch_size="none")  # type: ignore[arg-type]
    with witnessed._crowds([broken]) as processes, pytest.raises(RuntimeError, match="without a word"):
        witnessed._told(processes[0])
