"""A store by its URL, the keys of names, and what a server's answers mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError
from tests.objects.weed import VARIABLES, Weed

from quoracy.coordinator import Coordinator
from quoracy.core.errors import (
    ConfigError,
    ObjectsBroken,
    ObjectsDenied,
    ObjectsError,
    ObjectsFull,
    ObjectsUnreachable,
)
from quoracy.hosts.shelf import Shelf
from quoracy.objects import LocalObjects, MemoryObjects, open_objects
from quoracy.objects.failures import answered
from quoracy.objects.opening import ROLES
from quoracy.objects.s3 import S3Objects
from quoracy.ports.objects import check_key, key_part


def test_a_folder_in_every_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("objects", str(tmp_path / "objects"), f"file://{tmp_path}/objects"):
        objects = open_objects(url)
        assert isinstance(objects, LocalObjects)
        assert objects.root == tmp_path / "objects"


def test_memory_is_each_time_another() -> None:
    first, second = open_objects("memory://"), open_objects("memory://")
    assert isinstance(first, MemoryObjects)
    first.put("k", b"x")
    assert second.head("k") is None


def test_s3_with_keys_from_the_environment(weed: Weed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    objects = open_objects(weed.url())
    assert isinstance(objects, S3Objects)
    assert objects.put("k", b"x")
    assert VARIABLES["AWS_SECRET_ACCESS_KEY"] not in repr(objects)


def test_s3_without_keys_is_told_before_anybody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ROLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no credentials: credentials come from the environment: AWS_ACCESS_KEY_ID"):
        open_objects("s3://bucket?endpoint=http://127.0.0.1:1")
    assert isinstance(open_objects("s3://bucket?endpoint=http://127.0.0.1:1&anonymous=true"), S3Objects)


def test_anonymous_means_without_keys(weed: Weed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ObjectsDenied):
        open_objects(weed.url() + "&anonymous=true").put("k", b"x")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (GenericError("Server returned non-2xx status code: 507 Insufficient Storage"), ObjectsFull),
        (GenericError("status code: 500: <Code>XMinioStorageFull</Code>"), ObjectsFull),
        (GenericError("status code: 403: <Code>QuotaExceeded</Code>"), ObjectsFull),
        (GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1s"), ObjectsDenied),
        (PermissionDeniedError("status code: 403: <Code>InvalidAccessKeyId</Code>"), ObjectsDenied),
        (GenericError("status code: 404: <Code>NoSuchBucket</Code>"), ObjectsBroken),
        (FileNotFoundError("status code: 404: <Code>NoSuchBucket</Code>"), ObjectsBroken),
        (GenericError("status code: 400 Bad Request: <Code>EntityTooLarge</Code>"), ObjectsBroken),
        (
            GenericError("Error performing PUT http://h/StorageFull-169.254.1.1: error sending request"),
            ObjectsUnreachable,
        ),
        (GenericError("status code: 503: <Code>SlowDown</Code>"), ObjectsUnreachable),
    ],
)
def test_what_an_answer_means(error: Exception, kind: type[ObjectsError]) -> None:
    with pytest.raises(kind, match=r"s3://b/p: ") as caught, answered("s3://b/p", "k"):
        raise error
    assert type(caught.value) is kind


def test_any_name_has_a_part_of_its_own() -> None:
    odd = [
        "",
        ".",
        "..",
        "a/b",
        "a b",
        "ä",
        "走",
        "-x",
        ".x",
        "=x",
        "x" * 65,
        "x" * 512,
        "a\0",
        "\ud800",
        "=" + "0" * 32,
    ]
    plain = ["a", "run-1", "Run_2.b", "x" * 64, "0"]
    parts = [check_key(key_part(name)) for name in odd + plain]
    assert len(set(parts)) == len(parts)
    assert [key_part(name) for name in plain] == plain
    assert all("/" not in part for part in parts)


def test_a_coordinator_opens_them_where_it_is_told(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "one") as coordinator:
        assert shelf(coordinator).url == f"file://{tmp_path}/one/objects"
    elsewhere = {"store.objects": str(tmp_path / "else where")}
    with Coordinator(tmp_path / "two", **elsewhere) as coordinator:  # type: ignore[arg-type]
        objects = open_objects(shelf(coordinator).url)
        objects.put("k", b"x")
    assert (tmp_path / "else where" / "k").read_bytes() == b"x"


def test_those_of_a_coordinator_in_memory_go_with_it(tmp_path: Path) -> None:
    with Coordinator(tmp_path, store="memory") as coordinator:
        objects = open_objects(shelf(coordinator).url)
        objects.put("k", b"x")
        path = objects.local_path("k")
        assert path is not None
        assert path.read_bytes() == b"x"
    assert not path.exists()
    assert not (tmp_path / "objects").exists()


def shelf(coordinator: Coordinator) -> Shelf:
    found = coordinator._open().service.shelf
    assert found is not None
    return found
