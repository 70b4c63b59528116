"""Ranks on machines whose clocks have nothing in common: monotonic clocks hours and days apart, each in a time
namespace of its own, and wall clocks years apart. Needs ``unshare`` (util-linux)."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e import ranks_crew
from tests.e2e.ranks_crew import Crew, store_url
from tests.sdk.live import wait_for
from tests.stores.etcd import Etcd

HOUR_S = 3600
AHEAD_S = [0, 7 * HOUR_S, 72 * HOUR_S]
WALL_S = [0, -5 * 365 * 24 * HOUR_S, 90 * 24 * HOUR_S]
SHIFT = """
import os, sys, time

real_s, real_ns, shift_s = time.time, time.time_ns, int(os.environ["RANK_WALL_S"])
time.time = lambda: real_s() + (0 if sys._getframe(1).f_globals["__name__"].startswith("grpc") else shift_s)
time.time_ns = lambda: real_ns() + shift_s * 10**9
"""
"""The wall clock of Python alone. gRPC hands times on to its own code in C, which sees the machine's."""


@pytest.fixture(params=["tcpstore", "etcd"])
def store(request: pytest.FixtureRequest, tmp_path: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")  # see tests.stores.tcpserver
    with store_url(request.param, tmp_path, etcd) as url:
        monkeypatch.setattr(ranks_crew, "SCRIPTS", str(Path(__file__).with_name("rank_program.py")))
        (tmp_path / "shift").mkdir()
        (tmp_path / "shift/sitecustomize.py").write_text(SHIFT)
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/shift:{Path(__file__).parents[2]}")
        yield url


def test_ranks_whose_clocks_are_days_apart_work_in_step_and_give_up_the_dead(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=3) as crew:
        ranks = [
            crew.start(rank, "clocked", env={"RANK_WALL_S": str(WALL_S[rank])}, offset_s=AHEAD_S[rank])
            for rank in range(3)
        ]
        clocks = [rank.hear("clocks") for rank in ranks]
        for (ahead_s, wall_s), wanted in zip(clocks, zip(AHEAD_S, WALL_S, strict=True), strict=True):
            assert abs(ahead_s - clocks[0][0] - wanted[0]) < HOUR_S
            assert abs(wall_s - clocks[0][1] - wanted[1]) < HOUR_S
        began_s = time.monotonic()
        for rank in ranks:
            rank.hear("it")
        wait_for(
            lambda: time.monotonic() - began_s > 2 * ranks_crew.DEAD_S and crew.look().crew.number >= 20,
            "longer than it takes to give somebody up",
        )
        lines = crew.look().lines
        assert [line.decision.gone for line in lines] == [[] for _ in lines]
        assert {line.decision.outcome for line in lines[1:]} == {"committed"}

        ranks[1].kill(signal.SIGKILL)
        record, why = crew.until_gone(1)
        assert "no sign of life for 2" in why
        assert record.members == ["0", "2"]
        crew.until_number(record.number + 5)
        crew.numbers_once()
        told = [{it["attempt"]: it["before"] for it in rank.said("it")} for rank in ranks]
        for attempt in told[0].keys() & told[2].keys():
            first, second = told[0][attempt], told[2][attempt]
            assert first is None or second is None or first[:-1] == second[:-1]
        times_us = [line.decision.at_us for line in crew.look().lines]
        assert times_us == sorted(times_us)
        assert times_us[-1] - times_us[0] < HOUR_S * 1e6
