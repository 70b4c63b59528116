"""Journals that tests may damage copies of."""

from __future__ import annotations

import shutil

import pytest
from tests.stores.damage import build
from tests.stores.etcd import etcd

__all__ = ["closed", "crashed", "etcd"]


@pytest.fixture(scope="session")
def closed(tmp_path_factory):
    """A journal that was closed properly: all is in journal.db."""
    directory = tmp_path_factory.mktemp("closed")
    build(directory).close()
    return directory


@pytest.fixture(scope="session")
def crashed(tmp_path_factory):
    """A journal whose process was killed: nearly all is in the log."""
    live, directory = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("crashed")
    journal = build(live)
    shutil.copytree(live, directory, dirs_exist_ok=True)
    (directory / "journal.db-shm").unlink()
    journal.close()
    return directory
