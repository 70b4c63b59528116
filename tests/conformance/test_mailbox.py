"""Every mailbox adapter keeps the contract of the port."""

from __future__ import annotations

import pytest

from quoracy.stores import MemoryMailbox, Shelf, SqliteMailbox
from quoracy.stores.etcd import EtcdMailbox
from quoracy.testing import MAILBOX_CHECKS


def _memory(_):
    shelf = Shelf()
    return lambda: MemoryMailbox(shelf)


def _sqlite(directory):
    return lambda: SqliteMailbox(directory)


@pytest.mark.parametrize("check", MAILBOX_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("store", [_memory, _sqlite], ids=["memory", "sqlite"])
def test_a_mailbox_keeps_the_contract(store, check, tmp_path):
    check(store(tmp_path))


@pytest.mark.parametrize("check", MAILBOX_CHECKS, ids=lambda check: check.__name__)
def test_a_mailbox_in_etcd_keeps_the_contract(check, etcd):
    url = etcd.url()
    check(lambda: EtcdMailbox(url))
