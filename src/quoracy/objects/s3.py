"""Objects in S3, or in whatever speaks it: ``<prefix>/<key>`` in one bucket.

What is up to ``single_bytes`` is created with one conditional request; larger ones go through ``claims``. Names that
begin with a dot are the store's own: ``.new`` (complete, not yet published), ``.claims``, ``.partial``, ``.clock``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from quoracy.config.objects_url import ObjectsAddress
from quoracy.core.errors import ObjectsError, ObjectTooLarge
from quoracy.objects.bucket import COPY_BYTES, Bucket
from quoracy.objects.checking import checked, file_chunks, pieces, trusted
from quoracy.objects.claims import Claims
from quoracy.objects.durable import place_file
from quoracy.objects.parts import Parts
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

if TYPE_CHECKING:
    from obstore.store import S3Config

SINGLE_BYTES: Final = 16 * 1024 * 1024
OWN: Final = ".zzz"
"""Beyond all names that begin with a dot, and before all keys."""


class S3Objects:
    def __init__(
        self,
        address: ObjectsAddress,
        keys: S3Config | None = None,
        timeout_s: float = 30.0,
        single_bytes: int = SINGLE_BYTES,
        copy_bytes: int = COPY_BYTES,
    ) -> None:
        """``keys``: access_key_id, secret_access_key and token. Without them the environment is asked:
        AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or what gives a machine its role."""
        self._bucket = Bucket(address, keys, timeout_s, copy_bytes)
        self._single_bytes = single_bytes
        self._claims = Claims(self._bucket)
        self._parts = Parts(self._bucket)
        self._closed = False

    def __repr__(self) -> str:
        return f"S3Objects({self._bucket.place!r})"

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, key: str, content: bytes, digest: str = "") -> bool:
        return self.put_chunks(key, pieces(content), digest)

    def put_file(self, key: str, path: Path, digest: str = "", give: bool = False) -> bool:  # noqa: ARG002
        return self.put_chunks(key, file_chunks(path), digest)

    def put_chunks(self, key: str, chunks: Iterable[Chunk], digest: str = "") -> bool:
        self._check(key)
        rest = map(bytes, checked(chunks, key, check_digest(digest)))
        begun, size_bytes = [], 0
        for chunk in rest:
            begun.append(chunk)
            size_bytes += len(chunk)
            if size_bytes > self._single_bytes:
                return self._put_large(key, chain(begun, rest))
        return self._bucket.create(key, b"".join(begun))

    def _put_large(self, key: str, chunks: Iterator[bytes]) -> bool:
        if self.head(key) is not None:
            return False
        nonce = token_hex(16)
        staged = f".new/{nonce}"
        try:
            self._bucket.write(staged, chunks)
            return self._claims.publish(nonce, key)
        finally:
            with suppress(ObjectsError):
                self._bucket.drop(staged)

    def alias(self, source: str, key: str) -> None:
        self._check(source)
        self._check(key)
        if source == key:
            self._bucket.look(source)
        else:
            self._bucket.copy(source, key)

    def delete(self, key: str) -> bool:
        self._check(key)
        there = self.head(key) is not None
        if there:
            self._bucket.drop(key)
        return there

    # -- reading ------------------------------------------------------------------------------------------------------

    def head(self, key: str) -> int | None:
        self._check(key)
        return self._bucket.size(key)

    def get(self, key: str, max_bytes: int) -> bytes:
        self._check(key)
        check_number(max_bytes, "max_bytes")
        size_bytes, version = self._bucket.look(key)
        if size_bytes > max_bytes:
            raise ObjectTooLarge(key, size_bytes, max_bytes)
        return b"".join(self._bucket.pieces(key, 0, size_bytes, version))

    def get_range(self, key: str, start: int, size_bytes: int) -> bytes:
        self._check(key)
        check_number(start, "start"), check_number(size_bytes, "size_bytes")
        return b"".join(self._bucket.read(key, start, start + size_bytes))

    def chunks(self, key: str, start: int = 0) -> Iterator[bytes]:
        self._check(key)
        return self._bucket.read(key, check_number(start, "start"))

    def fetch(self, key: str, path: Path, digest: str = "") -> int:
        return place_file(path, trusted(self.chunks(key), key, check_digest(digest)))

    def local_path(self, key: str) -> Path | None:
        self._check(key)
        return None

    def listing(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> list[Listed]:
        self._open()
        check_prefix(prefix), check_number(limit, "limit", 1)
        after = after and check_key(after, "after")
        limit = min(limit, MAX_PAGE)
        found: list[Listed] = []
        for key, size_bytes, _ in self._bucket.names(prefix, after or ("" if prefix else OWN), limit):
            if not key.startswith("."):
                found.append(Listed(key, size_bytes))
            if len(found) == limit:
                break
        return found

    # -- uploads ------------------------------------------------------------------------------------------------------

    def begin(self, upload: str) -> int:
        self._open()
        return self._parts.begin(check_upload(upload))

    def offset(self, upload: str) -> int | None:
        self._open()
        return self._parts.offset(check_upload(upload))

    def append(self, upload: str, offset: int, content: Chunk) -> int:
        self._open()
        return self._parts.append(check_upload(upload), offset, check_append(content))

    def finish(self, upload: str, key: str, digest: str) -> bool:
        self._check(key)
        check_digest(digest, needed=True)
        return self._parts.finish(check_upload(upload), lambda chunks: self.put_chunks(key, chunks, digest))

    def abandon(self, upload: str) -> None:
        self._open()
        self._parts.abandon(check_upload(upload))

    def sweep(self, older_than_s: float) -> int:
        self._open()
        before_s = self._bucket.clock() - older_than_s
        stale = [name for name, _, at_s in self._bucket.names(".new") if at_s <= before_s]
        for name in stale:
            self._bucket.drop(name)
        self._claims.sweep(before_s)
        return len(stale) + self._parts.sweep(before_s)

    def close(self) -> None:
        self._closed = True

    def _check(self, key: str) -> None:
        self._open()
        check_key(key)

    def _open(self) -> None:
        if self._closed:
            raise ValueError("this object store is closed")
