"""Every series adapter keeps the contract of the port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quoracy.ports import Series
from quoracy.stores import Drawer, MemorySeries, SqliteSeries
from quoracy.stores.sqlite import series as sqlite_series
from quoracy.testing import SERIES_CHECKS, SUITE_IN_ALL, SUITE_PER_RUN, SUITE_TIERS

SMALL: dict[str, Any] = {"tiers": SUITE_TIERS, "max_series_per_run": SUITE_PER_RUN, "max_series": SUITE_IN_ALL}


def _memory(_: Path) -> Callable[[], Series]:
    drawer = Drawer()
    return lambda: MemorySeries(drawer, **SMALL)


def _sqlite(directory: Path) -> Callable[[], Series]:
    return lambda: SqliteSeries(directory, **SMALL)


@pytest.mark.parametrize("check", SERIES_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("store", [_memory, _sqlite], ids=["memory", "sqlite"])
def test_a_series_keeps_the_contract(store, check, tmp_path):
    check(store(tmp_path))


@pytest.mark.parametrize("check", SERIES_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("points", [1, 30])
def test_whether_points_have_been_moved_into_buckets_yet_makes_no_difference(points, check, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_series, "FOLD_POINTS", points)
    check(_sqlite(tmp_path))
