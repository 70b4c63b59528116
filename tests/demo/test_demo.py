"""The demonstration holds what it claims, with real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.soak import soaking

from quoracy.core.errors import ConfigError
from quoracy.core.ranks.state import Decision
from quoracy.demo import demo_cluster, demo_ranks, ranks
from quoracy.demo.cluster import BARRIERS, DIES, LATE
from quoracy.demo.ranks import judge
from quoracy.demo.serving import STORES, serving
from quoracy.hosts.decisions import Line
from quoracy.report import Report

SOAK = soaking("integrations")


class Told:
    def __init__(self, rank: int, said: list[dict[str, Any]]) -> None:
        self.rank = rank
        self._said = said

    def about(self, what: str) -> list[dict[str, Any]]:
        return [told for told in self._said if told["what"] == what]


class Played:
    """As far as a judge looks at it."""

    died, stopped = 4, 2

    def __init__(self, *said: list[dict[str, Any]]) -> None:
        self.everybody = [Told(rank, each) for rank, each in enumerate(said)]


def test_the_cluster_demo_survives_its_misfortunes() -> None:
    said: list[str] = []
    report, account = demo_cluster(lambda what, _passed: said.append(what))
    assert report.failures == []
    assert missed(report) - {"demo_s"} == set()
    assert account.released >= BARRIERS
    assert account.twice == []
    assert account.ended[DIES].startswith("lost: no sign of life")
    assert LATE in account.joined
    assert sum("killed with -9" in what for what in said) == 1
    assert account.terms == 2


def missed(report: Report) -> set[str]:
    """How long it takes beside other work is not what is tested."""
    return {figure.name for figure in report.measurements if figure.met() is False}


FEWER = {"RANKS": 5, "LATE": 5, "KILL_AT": 5, "RESTART_AT": 8, "STOP_AT": 12, "LATE_AT": 20, "ITERATIONS": 40}


@pytest.mark.soak("integrations", shorter=True)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES if SOAK else ["sqlite"])
def test_the_ranks_demo_survives_its_misfortunes(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, on every store, in `make soak-integrations`; otherwise with fewer ranks and iterations."""
    for name, value in () if SOAK else FEWER.items():
        monkeypatch.setattr(ranks, name, value)
    said: list[str] = []
    report, lines = demo_ranks(lambda what, _done: said.append(what), store)
    assert report.failures == []
    assert missed(report) - {"demo_s"} == set()
    words = [what for what in said if what]
    assert [sum(part in what for what in words) for part in ("-9", "SIGSTOP", "SIGCONT", "again", "late")] == [
        1, 1, 1, 1, 2,
    ]  # fmt: skip
    assert max(line.decision.number for line in lines) == ranks.ITERATIONS - 1
    assert len({rank for line in lines for rank, _ in line.decision.gone}) >= 2
    assert [line.decision.attempt for line in lines] == list(range(1, len(lines) + 1)), "every attempt is in the log"
    formed, *tried = lines
    assert (formed.decision.outcome, formed.was_in) == ("formed", [])
    assert all(line.was_in for line in tried)
    assert sum(map(_spent_us, lines)) == lines[-1].decision.at_us, "the phases are all of the time there was"
    assert max(tried, key=_spent_us).decision.gone, "nothing takes as long as an attempt in which somebody is given up"
    assert any(m.name == "demo_s" and m.target == 60 for m in report.measurements)


def _spent_us(line: Line) -> int:
    assert line.phases.deciding_us is not None
    return line.phases.training_us + line.phases.waiting_us + line.phases.deciding_us


def test_a_demo_that_lost_a_vote_or_a_model_fails() -> None:
    """The judge, shown what must not be: a vote that no record has, and ranks whose models differ."""
    decision = Decision(2, 0, "repeated", "0", ["0", "1"], [], [], [], 0, 0, "1")
    told = [{"what": "committed", "number": 0, "attempt": 2, "loss": 1.0, "mark": mark, "phases": {}} for mark in "ab"]
    story = Played([told[0]], [told[1]])
    report = judge(story, [Line(decision)])
    missed = {m.name for m in report.measurements if m.met() is False}
    assert {"iterations_committed", "told_and_not_recorded", "models_that_differ"} <= missed
    assert any("was killed, and no record gives it up" in failure for failure in report.failures)
    assert not report.ok()


def test_a_store_that_is_not_known_is_named() -> None:
    with pytest.raises(ConfigError, match="'redis': choose one of: sqlite, tcpstore, etcd"), serving("redis", Path()):
        pass
