"""Every object store keeps the contract of the port: in memory, in a directory, on a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.objects.weed import Weed, opened_at

from quoracy.objects import Depot, LocalObjects, MemoryObjects
from quoracy.testing import OBJECTS_CHECKS
from quoracy.testing.objects import ObjectsCheck

checks = pytest.mark.parametrize("check", OBJECTS_CHECKS, ids=lambda check: check.__name__)


@checks
def test_in_memory(check: ObjectsCheck) -> None:
    depot = Depot()
    check(lambda: MemoryObjects(depot))


@checks
def test_in_a_directory(check: ObjectsCheck, tmp_path: Path) -> None:
    check(lambda: LocalObjects(tmp_path / "objects"))
    assert sorted(path.name for path in (tmp_path / "objects" / ".new").iterdir()) == []


@checks
def test_on_an_s3_server(check: ObjectsCheck, weed: Weed) -> None:
    url = weed.url()
    check(lambda: opened_at(url))


@checks
def test_on_an_s3_server_where_much_is_large(check: ObjectsCheck, weed: Weed) -> None:
    """As if one request held 4 KiB, and the server copied no more than 8 MiB at once: the ways of the large ones."""
    url = weed.url()
    check(lambda: opened_at(url, single_bytes=4096, copy_bytes=8 * 1024 * 1024))
