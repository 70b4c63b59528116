"""Objects in a dictionary. Nothing survives the process, and everything is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from time import monotonic

from quoracy.core.errors import ObjectMissing, ObjectTooLarge, UploadOffset
from quoracy.objects.checking import checked, file_chunks, pieces, trusted
from quoracy.objects.durable import place_file
from quoracy.ports.objects import (
    MAX_PAGE,
    Chunk,
    Listed,
    check_append,
    check_digest,
    check_key,
    check_number,
    check_prefix,
    check_upload,
)


class Depot:
    """What several handles may share."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.objects: dict[str, bytes] = {}
        self.partial: dict[str, tuple[bytes, float]] = {}
        """Name to what is there, and since when nothing was added."""


class MemoryObjects:
    def __init__(self, depot: Depot | None = None) -> None:
        self._depot = depot or Depot()
        self._closed = False

    def put(self, key: str, content: bytes, digest: str = "") -> bool:
        return self.put_chunks(key, (content,), digest)

    def put_file(self, key: str, path: Path, digest: str = "", give: bool = False) -> bool:  # noqa: ARG002
        return self.put_chunks(key, file_chunks(path), digest)

    def put_chunks(self, key: str, chunks: Iterable[Chunk], digest: str = "") -> bool:
        self._check(key)
        content = b"".join(checked(chunks, key, check_digest(digest)))
        with self._depot.lock:
            return self._create(key, content)

    def _create(self, key: str, content: bytes) -> bool:
        if key in self._depot.objects:
            return False
        self._depot.objects[key] = content
        return True

    def alias(self, source: str, key: str) -> None:
        self._check(source)
        self._check(key)
        with self._depot.lock:
            self._depot.objects[key] = self._found(source)

    def delete(self, key: str) -> bool:
        self._check(key)
        with self._depot.lock:
            return self._depot.objects.pop(key, None) is not None

    def head(self, key: str) -> int | None:
        self._check(key)
        found = self._depot.objects.get(key)
        return None if found is None else len(found)

    def get(self, key: str, max_bytes: int) -> bytes:
        self._check(key)
        check_number(max_bytes, "max_bytes")
        found = self._found(key)
        if len(found) > max_bytes:
            raise ObjectTooLarge(key, len(found), max_bytes)
        return found

    def get_range(self, key: str, start: int, size_bytes: int) -> bytes:
        self._check(key)
        check_number(start, "start"), check_number(size_bytes, "size_bytes")
        return self._found(key)[start : start + size_bytes]

    def chunks(self, key: str, start: int = 0) -> Iterator[bytes]:
        self._check(key)
        return pieces(self._found(key)[check_number(start, "start") :])

    def fetch(self, key: str, path: Path, digest: str = "") -> int:
        self._check(key)
        return place_file(path, trusted(pieces(self._found(key)), key, check_digest(digest)))

    def local_path(self, key: str) -> Path | None:
        self._check(key)
        return None

    def listing(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> list[Listed]:
        self._open()
        folder = check_prefix(prefix) and prefix + "/"
        check_number(limit, "limit", 1)
        with self._depot.lock:
            keys = sorted(key for key in self._depot.objects if key.startswith(folder) and key > after)
            return [Listed(key, len(self._depot.objects[key])) for key in keys[: min(limit, MAX_PAGE)]]

    # -- uploads ------------------------------------------------------------------------------------------------------

    def begin(self, upload: str) -> int:
        self._open()
        check_upload(upload)
        with self._depot.lock:
            return len(self._depot.partial.setdefault(upload, (b"", monotonic()))[0])

    def offset(self, upload: str) -> int | None:
        self._open()
        found = self._depot.partial.get(check_upload(upload))
        return None if found is None else len(found[0])

    def append(self, upload: str, offset: int, content: Chunk) -> int:
        self._open()
        check_append(content)
        with self._depot.lock:
            there = self._uploaded(upload)
            if len(there) != offset:
                raise UploadOffset(upload, offset, len(there))
            self._depot.partial[upload] = (there + content, monotonic())
            return offset + len(content)

    def finish(self, upload: str, key: str, digest: str) -> bool:
        self._check(key)
        check_digest(digest, needed=True)
        with self._depot.lock:
            there = self._uploaded(upload)
            del self._depot.partial[upload]
            return self._create(key, b"".join(checked((there,), key, digest)))

    def abandon(self, upload: str) -> None:
        self._open()
        with self._depot.lock:
            self._depot.partial.pop(check_upload(upload), None)

    def sweep(self, older_than_s: float) -> int:
        self._open()
        before = monotonic() - older_than_s
        with self._depot.lock:
            stale = [upload for upload, (_, at) in self._depot.partial.items() if at <= before]
            for upload in stale:
                del self._depot.partial[upload]
            return len(stale)

    def close(self) -> None:
        self._closed = True

    def _uploaded(self, upload: str) -> bytes:
        found = self._depot.partial.get(check_upload(upload))
        if found is None:
            raise ObjectMissing(upload, "upload")
        return found[0]

    def _found(self, key: str) -> bytes:
        found = self._depot.objects.get(key)
        if found is None:
            raise ObjectMissing(key)
        return found

    def _check(self, key: str) -> None:
        self._open()
        check_key(key)

    def _open(self) -> None:
        if self._closed:
            raise ValueError("this object store is closed")
