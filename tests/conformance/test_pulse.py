"""Every pulse adapter keeps the contract of the port."""

from __future__ import annotations

import pytest

from quoracy.stores import MemoryPulse, Shelf, SqlitePulse
from quoracy.stores.etcd import EtcdPulse
from quoracy.testing import PULSE_CHECKS


def _memory(_):
    shelf = Shelf()
    return lambda: MemoryPulse(shelf)


def _sqlite(directory):
    return lambda: SqlitePulse(directory)


@pytest.mark.parametrize("check", PULSE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("store", [_memory, _sqlite], ids=["memory", "sqlite"])
def test_a_pulse_keeps_the_contract(store, check, tmp_path):
    check(store(tmp_path))


@pytest.mark.parametrize("check", PULSE_CHECKS, ids=lambda check: check.__name__)
def test_a_pulse_in_etcd_keeps_the_contract(check, etcd):
    url = etcd.url()
    check(lambda: EtcdPulse(url))
