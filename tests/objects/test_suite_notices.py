"""The suite can fail: each of these stores has one bug, and some check finds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from quoracy.core.errors import DigestMismatch, ObjectsError
from quoracy.objects import Depot, MemoryObjects
from quoracy.objects.checking import pieces
from quoracy.ports.objects import Listed
from quoracy.testing import OBJECTS_CHECKS, check_objects
from quoracy.testing import objects as suite
from quoracy.testing.objects import OpenObjects


class Replaces(MemoryObjects):
    def _create(self, key: str, content: bytes) -> bool:
        created = key not in self._depot.objects
        self._depot.objects[key] = content
        return created


class LooksThenWrites(MemoryObjects):
    meeting = Barrier(2)

    def _create(self, key: str, content: bytes) -> bool:
        if key in self._depot.objects:
            return False
        if key.startswith("race/"):
            self._depot.lock.release()
            with suppress(BrokenBarrierError):
                self.meeting.wait(1.0)
            self._depot.lock.acquire()
        self._depot.objects[key] = content
        return True


class ChecksNoDigest(MemoryObjects):
    def put_chunks(self, key: str, chunks: Iterable[bytes], digest: str = "") -> bool:
        return super().put_chunks(key, chunks)


class StoresHalf(MemoryObjects):
    def put_chunks(self, key: str, chunks: Iterable[bytes], digest: str = "") -> bool:
        content = b""
        try:
            for chunk in chunks:
                content += chunk
        finally:
            super().put_chunks(key, [content], digest)
        return True


class FetchesBlindly(MemoryObjects):
    def fetch(self, key: str, path: Path, digest: str = "") -> int:
        return super().fetch(key, path)


class FetchesInPlace(MemoryObjects):
    def fetch(self, key: str, path: Path, digest: str = "") -> int:
        path.write_bytes(self._found(key)[:1])
        return super().fetch(key, path, digest)


class GivesTooMuch(MemoryObjects):
    def get(self, key: str, max_bytes: int) -> bytes:
        return super().get(key, 2**40)


class ReadsPastTheStart(MemoryObjects):
    def get_range(self, key: str, start: int, size_bytes: int) -> bytes:
        return super().get_range(key, start, size_bytes + (start > 1))


class TellsLate(MemoryObjects):
    def chunks(self, key: str, start: int = 0) -> Iterator[bytes]:
        yield from super().chunks(key, start)


class AliasIsARemoval(MemoryObjects):
    def alias(self, source: str, key: str) -> None:
        super().alias(source, key)
        if source != key:
            self._depot.objects.pop(source)


class AliasDoesNotMove(MemoryObjects):
    def alias(self, source: str, key: str) -> None:
        if self.head(key) is None:
            super().alias(source, key)


class ListsByLetters(MemoryObjects):
    def listing(self, prefix: str = "", after: str = "", limit: int = 1000) -> list[Listed]:
        found = super().listing("", after)
        return [each for each in found if each.key.startswith(prefix)][:limit]


class ListsThePageTwice(MemoryObjects):
    def listing(self, prefix: str = "", after: str = "", limit: int = 1000) -> list[Listed]:
        return super().listing(prefix, after[:-1], limit)


class DeletesTwice(MemoryObjects):
    def delete(self, key: str) -> bool:
        super().delete(key)
        return True


class TakesAnyKey(MemoryObjects):
    def _check(self, key: str) -> None:
        self._open()


class AppendsAnywhere(MemoryObjects):
    def append(self, upload: str, offset: int, content: bytes) -> int:
        at = self.offset(upload)
        return super().append(upload, offset if at is None else at, content)


class ShowsUploads(MemoryObjects):
    def begin(self, upload: str) -> int:
        self._depot.objects[upload] = b""
        return super().begin(upload)


class KeepsTheDamaged(MemoryObjects):
    def finish(self, upload: str, key: str, digest: str) -> bool:
        kept = self._depot.partial.get(upload)
        try:
            return super().finish(upload, key, digest)
        except DigestMismatch:
            assert kept is not None
            self._depot.partial[upload] = kept
            raise


class BeginsAnew(MemoryObjects):
    def begin(self, upload: str) -> int:
        self.abandon(upload)
        return super().begin(upload)


class MissesNothing(MemoryObjects):
    def append(self, upload: str, offset: int, content: bytes) -> int:
        self.begin(upload)
        return super().append(upload, offset, content)


class SweepsEverything(MemoryObjects):
    def sweep(self, older_than_s: float) -> int:
        return super().sweep(0.0)


class SweepsNothing(MemoryObjects):
    def sweep(self, older_than_s: float) -> int:
        return 0


class NeverCloses(MemoryObjects):
    def close(self) -> None: ...


BUGS = [
    Replaces, LooksThenWrites, ChecksNoDigest, StoresHalf, FetchesBlindly, FetchesInPlace, GivesTooMuch,
    ReadsPastTheStart, TellsLate, AliasIsARemoval, AliasDoesNotMove, ListsByLetters, ListsThePageTwice, DeletesTwice,
    TakesAnyKey, AppendsAnywhere, ShowsUploads, KeepsTheDamaged, BeginsAnew, MissesNothing, SweepsEverything,
    SweepsNothing, NeverCloses,
]  # fmt: skip


@contextmanager
def fresh(kind: type[MemoryObjects]) -> Iterator[OpenObjects]:
    depot = Depot()
    yield lambda: kind(depot)


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_a_planted_bug_is_found(kind: type[MemoryObjects]) -> None:
    with pytest.raises((AssertionError, ObjectsError)):
        check_objects(lambda: fresh(kind))


def test_without_a_bug_nothing_is_found() -> None:
    check_objects(lambda: fresh(MemoryObjects))


def test_every_check_is_in_the_suite() -> None:
    """A check that nobody runs finds nothing."""
    found = [each for each in vars(suite).values() if callable(each) and "open_objects" in _arguments(each)]
    assert set(found) == set(OBJECTS_CHECKS)


def _arguments(function: object) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def test_large_content_comes_in_pieces() -> None:
    content = bytes(20 * 1024 * 1024)
    assert [len(piece) for piece in pieces(content)] == [8 * 1024**2, 8 * 1024**2, 4 * 1024**2]
