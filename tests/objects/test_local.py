"""Objects in a directory: hard links, killed processes, full and read-only disks, damage."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.objects.programs import pattern
from tests.stores.process import running

from quoracy.core.errors import ObjectCorrupt, ObjectMissing, ObjectsBroken, ObjectsDenied, ObjectsFull
from quoracy.objects import LocalObjects
from quoracy.testing.objects import content_of, digest_of

PROGRAMS = Path(__file__).with_name("programs.py")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    return LocalObjects(tmp_path / "objects")


# -- files -------------------------------------------------------------------------------------------------------------


def test_an_object_is_a_plain_file_that_nobody_may_write_to(objects: LocalObjects) -> None:
    objects.put("run/blobs/x", b"x")
    path = objects.root / "run" / "blobs" / "x"
    assert objects.local_path("run/blobs/x") == path
    assert path.read_bytes() == b"x"
    assert path.stat().st_mode & 0o222 == 0


def test_a_file_that_is_given_is_not_copied(objects: LocalObjects, tmp_path: Path) -> None:
    file = tmp_path / "update"
    file.write_bytes(b"weights")
    assert objects.put_file("blobs/x", file, digest_of(b"weights"), give=True)
    assert (objects.root / "blobs/x").samefile(file)
    assert names(objects.root / ".new") == []
    assert not objects.put_file("blobs/x", file, give=True)
    file.unlink()
    assert objects.get("blobs/x", 100) == b"weights"
    with pytest.raises(FileNotFoundError):
        objects.put_file("blobs/y", file, give=True)


def test_a_file_of_another_disk_is_copied(
    objects: LocalObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "update"
    file.write_bytes(b"weights")
    link = os.link

    def across(source: Path, target: Path) -> None:
        if source == file:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(source, target)

    monkeypatch.setattr(os, "link", across)
    assert objects.put_file("blobs/x", file, give=True)
    assert not (objects.root / "blobs/x").samefile(file)
    assert objects.get("blobs/x", 100) == b"weights"


def test_an_alias_is_a_hard_link_and_moving_it_leaves_nothing_behind(objects: LocalObjects) -> None:
    objects.put("blobs/x", b"x")
    for _ in range(3):  # a rename between two names of one file does nothing, and leaves both
        objects.alias("blobs/x", "7/global")
    assert (objects.root / "blobs/x").samefile(objects.root / "7/global")
    assert (objects.root / "blobs/x").stat().st_nlink == 2
    assert names(objects.root / ".new") == []


def test_a_file_with_too_many_names_is_copied(objects: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*_: object) -> None:
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))

    objects.put("blobs/x", b"x")
    with monkeypatch.context() as patched:
        patched.setattr(os, "link", no_more)
        objects.alias("blobs/x", "7/global")
    assert objects.get("7/global", 10) == b"x"
    assert not (objects.root / "blobs/x").samefile(objects.root / "7/global")


def test_a_disk_without_hard_links_is_told(objects: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", none)
    with pytest.raises(ObjectsDenied, match="objects need a file system with hard links, name another place"):
        objects.put("k", b"x")
    assert (objects.head("k"), names(objects.root / ".new")) == (None, [])


def test_folders_go_with_their_last_object(objects: LocalObjects) -> None:
    objects.put("a/b/c", b"x")
    objects.put("a/d", b"x")
    objects.delete("a/b/c")
    assert names(objects.root) == [".new", ".partial", "a"]
    assert names(objects.root / "a") == ["d"]
    objects.delete("a/d")
    assert objects.put("a", b"an object where a folder was")
    assert names(objects.root) == [".new", ".partial", "a"]


def test_an_empty_folder_that_was_left_behind_is_in_nobodys_way(objects: LocalObjects) -> None:
    objects.put("source", b"x")
    for key in ("put", "alias"):
        (objects.root / key).mkdir()
    assert objects.put("put", b"x")
    objects.alias("source", "alias")
    assert objects.get("alias", 10) == b"x"


def test_a_key_that_is_a_folder_and_a_folder_that_is_a_key_are_refused(objects: LocalObjects) -> None:
    objects.put("a/b", b"x")
    for place in (lambda: objects.put("a", b"x"), lambda: objects.alias("a/b", "a")):
        with pytest.raises(ValueError, match="key = 'a': other objects are in a folder of this name; choose another"):
            place()
    for key in ("a/b/c", "a/b/c/d"):
        with pytest.raises(ValueError, match=f"key = '{key}': a part of it is an object already; choose another"):
            objects.put(key, b"x")
    assert [found.key for found in objects.listing()] == ["a/b"]
    assert names(objects.root / ".new") == []


def test_what_is_no_object_is_not_listed(objects: LocalObjects) -> None:
    objects.put("a", b"x")
    (objects.root / "lost and found").mkdir()
    (objects.root / "lost and found" / "x").touch()
    (objects.root / ".hidden").touch()
    assert [found.key for found in objects.listing()] == ["a"]


def test_a_reader_that_has_begun_goes_on_after_the_object_is_deleted(objects: LocalObjects) -> None:
    content = content_of("x", 20 * 1024 * 1024)
    objects.put("k", content)
    chunks = objects.chunks("k")
    first = next(chunks)
    objects.delete("k")
    assert first + b"".join(chunks) == content


def test_damage_on_disk_is_found_by_the_digest(objects: LocalObjects, tmp_path: Path) -> None:
    content = content_of("x", 100_000)
    objects.put("k", content, digest_of(content))
    path = objects.root / "k"
    path.chmod(0o644)
    for damaged in (content[:50_000] + b"?" + content[50_001:], content[:-1], content + b"x", b""):
        path.write_bytes(damaged)
        with pytest.raises(ObjectCorrupt, match=f"object 'k': the digest should be {digest_of(content)}"):
            objects.fetch("k", tmp_path / "copy", digest_of(content))
        assert not (tmp_path / "copy").exists()


def test_an_object_that_cannot_be_synced_is_not_there(objects: LocalObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    objects.begin("u")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(ObjectsBroken, match=r"\.new/.*: Input/output error"):
            objects.put("k", b"x")
        with pytest.raises(ObjectsBroken):
            objects.finish("u", "k", digest_of(b""))
    assert (objects.head("k"), names(objects.root / ".new")) == (None, [])
    assert objects.put("k", b"x")


@pytest.mark.parametrize("operation", ["put", "alias", "finish"])
def test_content_and_folder_are_synced_before_it_returns(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append("content" if place.is_file() else place.relative_to(objects.root).as_posix())
        real(descriptor)

    objects.put("source", b"x")
    objects.begin("u")
    monkeypatch.setattr(os, "fsync", noted)
    calls: dict[str, Any] = {
        "put": lambda: objects.put("new/deep/k", b"x"),
        "alias": lambda: objects.alias("source", "new/deep/k"),
        "finish": lambda: objects.finish("u", "new/deep/k", digest_of(b"")),
    }
    calls[operation]()
    content = [] if operation == "alias" else ["content"]
    assert synced == [*content, ".", "new", "new/deep"]
    synced.clear()
    assert not objects.put("new/deep/k", b"else")
    assert synced == ["new/deep"]  # whoever created it may not have come so far


# -- what is left over -------------------------------------------------------------------------------------------------


def test_an_upload_cannot_grow_any_more_when_others_get_to_know_it(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a finisher that dies half way would leave an object that the next append changes."""
    growing: list[list[str]] = []
    link = os.link

    def noted(source: Path, target: Path) -> None:
        growing.append(names(objects.root / ".partial"))
        link(source, target)

    objects.begin("u")
    objects.append("u", 0, b"content")
    monkeypatch.setattr(os, "link", noted)
    assert objects.finish("u", "k", digest_of(b"content"))
    assert growing == [[]]


def test_an_append_that_waited_for_a_finish_does_not_change_the_object(
    objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def overtaken(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        objects.finish("u", "k", digest_of(b"content"))
        flock(descriptor, how)

    objects.begin("u")
    objects.append("u", 0, b"content")
    monkeypatch.setattr(fcntl, "flock", overtaken)
    with pytest.raises(ObjectMissing, match="no upload 'u'"):
        objects.append("u", 7, b"more")
    assert objects.get("k", 100) == b"content"


def test_a_sweep_takes_what_writers_left_and_no_object(objects: LocalObjects) -> None:
    objects.put("k", b"x")
    os.link(objects.root / "k", objects.root / ".new" / "killed-between-link-and-unlink")
    (objects.root / ".new" / "killed-while-writing").write_bytes(b"half")
    assert (objects.sweep(3600.0), objects.sweep(0.0), objects.sweep(0.0)) == (0, 2, 0)
    assert objects.get("k", 10) == b"x"


# -- processes ---------------------------------------------------------------------------------------------------------


def test_of_two_processes_that_create_one_wins(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/objects"
    with running("race", url, "a", 20, file=PROGRAMS) as a, running("race", url, "b", 20, file=PROGRAMS) as b:
        for each in (a, b):
            assert each.line() == "ready"
        for each in (a, b):
            each.tell()
        won = {name: [int(line) for line in each.rest()] for name, each in (("a", a), ("b", b))}
    assert sorted(won["a"] + won["b"]) == list(range(20))
    objects = LocalObjects(tmp_path / "objects")
    for name, rounds in won.items():
        for i in rounds:
            content = objects.get(f"race/{i}", 2**25)
            assert content == content_of(f"{name}/{i}", len(content))


def test_a_writer_that_is_killed_leaves_nothing_to_be_seen(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path / "objects")
    with running("stall", tmp_path / "objects", "run/k", 20, file=PROGRAMS) as writer:
        assert writer.line() == "stalled"
        assert (objects.head("run/k"), objects.listing()) == (None, [])
        writer.kill()
    assert (objects.head("run/k"), objects.listing(), names(objects.root)) == (None, [], [".new", ".partial"])
    assert objects.sweep(0.0) == 1
    assert objects.put("run/k", b"x")


def test_an_upload_goes_on_after_its_process_was_killed(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path / "objects")
    for _ in range(3):
        before = objects.offset("u") or 0
        with running("append_for_ever", tmp_path / "objects", "u", file=PROGRAMS) as writer:
            said = [int(writer.line()) for _ in range(5)]
            writer.kill()
        assert (objects.offset("u") or 0) >= said[-1] > before
    size_bytes = objects.begin("u")
    assert objects.finish("u", "k", digest_of(pattern(0, size_bytes)))


# -- disks -------------------------------------------------------------------------------------------------------------


def on_a_disk_of_its_own(folder: Path, *commands: str) -> list[str]:
    """What these shell commands say, in a mount namespace where the folder is a disk of 4 MiB."""
    folder.mkdir()
    mount = f"mount -t tmpfs -o size=4m none {folder}"
    whole = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", "\n".join([mount, *commands])]
    return subprocess.run(whole, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()


def test_a_full_disk_is_told_and_leaves_nothing_half(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    said = on_a_disk_of_its_own(folder, f"{sys.executable} {PROGRAMS} fill {folder}")
    full = f"{ObjectsFull.__name__} no room at {folder}/"
    assert said[0] == "small True"
    assert said[1].startswith(f"large {full}.new/")
    assert said[1].endswith("No space left on device; make room, and try it again")
    assert said[2] == "file 1000"
    assert said[3].startswith(f"append {full}.partial/u")
    assert said[4:] == ["offset 0", f"again {1024 * 1024}", "keys ['copy', 'small']", "left 0", "later True"]


def test_a_read_only_disk_can_be_read_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    made = f"mkdir {folder}/.new {folder}/.partial; printf x > {folder}/small; mount -o remount,ro {folder}"
    said = on_a_disk_of_its_own(folder, made, f"{sys.executable} {PROGRAMS} only_read {folder}")
    assert said[0] == "get b'x'"
    assert [line.split()[:2] for line in said[1:]] == [
        [what, ObjectsDenied.__name__] for what in ("put", "alias", "begin", "delete", "open")
    ]
    assert all("Read-only file system; let this user write there, or name another place" in line for line in said[1:])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ObjectsBroken, match="file/objects"):
        LocalObjects(tmp_path / "file" / "objects")
