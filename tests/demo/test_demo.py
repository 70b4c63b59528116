"""The demonstration holds what it claims, with real processes."""

from __future__ import annotations

from quorate.demo import demo_cluster
from quorate.demo.cluster import BARRIERS, DIES, LATE


def test_the_cluster_demo_survives_its_misfortunes() -> None:
    said: list[str] = []
    report, account = demo_cluster(lambda what, _passed: said.append(what))
    assert report.failures == []
    assert report.ok()
    assert account.released >= BARRIERS
    assert account.twice == []
    assert account.ended[DIES].startswith("lost: no sign of life")
    assert LATE in account.joined
    assert sum("killed with -9" in what for what in said) == 1
    assert account.terms == 2
