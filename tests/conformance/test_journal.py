"""Every journal adapter keeps the contract of the port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quoracy.ports import Journal
from quoracy.stores import MemoryJournal, Shelf, SqliteJournal
from quoracy.stores.etcd import EtcdJournal
from quoracy.testing import JOURNAL_CHECKS, check_journal


def _memory(_: Path) -> Callable[[], Journal]:
    shelf = Shelf()
    return lambda: MemoryJournal(shelf)


def _sqlite(directory: Path) -> Callable[[], Journal]:
    return lambda: SqliteJournal(directory / "journal")


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("store", [_memory, _sqlite], ids=["memory", "sqlite"])
def test_a_journal_keeps_the_contract(store, check, tmp_path):
    check(store(tmp_path))
    escaped = [path.name for path in tmp_path.iterdir() if path.name != "journal"]
    assert escaped == []


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
def test_a_journal_in_etcd_keeps_the_contract(check, etcd):
    url = etcd.url()
    check(lambda: EtcdJournal(url))


def test_the_suite_runs_without_a_test_framework():
    @contextmanager
    def fresh() -> Iterator[Callable[[], Journal]]:
        with TemporaryDirectory() as directory:
            yield _memory(Path(directory))

    check_journal(fresh)
