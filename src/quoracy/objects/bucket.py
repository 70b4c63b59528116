"""One bucket, below one prefix: what ``s3``, ``claims`` and ``parts`` are made of. Names here are keys, or begin with a
dot and are the store's own.

Nothing takes longer than a few requests' time-outs, however large an object is: contents go in pieces of CHUNK_BYTES,
each a request of its own, up and down.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from quoracy.config.objects_url import ObjectsAddress
from quoracy.core.errors import ObjectMissing, ObjectsUnreachable
from quoracy.objects.failures import answered
from quoracy.objects.relay import Relay
from quoracy.ports.objects import CHUNK_BYTES, MAX_PAGE

if TYPE_CHECKING:
    from obstore.store import S3Config

COPY_BYTES: Final = 5 * 1024**3
"""The most that a server copies at once: S3's own limit. More goes through this process, in pieces."""
COPY_PATIENCE: Final = 20
"""A server that copies gigabytes says nothing meanwhile: so many time-outs."""
TRIES: Final = 5
REGION: Final = "us-east-1"
UPLOADS_AT_ONCE: Final = 4
NONCE: Final = "quoracy-nonce"


class Bucket:
    def __init__(
        self,
        address: ObjectsAddress,
        keys: S3Config | None = None,
        timeout_s: float = 30.0,
        copy_bytes: int = COPY_BYTES,
    ) -> None:
        """``keys``: access_key_id, secret_access_key, token; without them the environment is asked."""
        self.place = f"s3://{address.bucket}/{address.prefix}"
        self._prefix = address.prefix and address.prefix + "/"
        self._copy_bytes = copy_bytes
        self._store = _open(address, keys or {}, timeout_s, timeout_s)
        self._copier = _open(address, keys or {}, timeout_s, timeout_s * COPY_PATIENCE)

    def look(self, name: str) -> tuple[int, str | None]:
        """Size and version. Raises ObjectMissing."""
        with answered(self.place, name):
            found = obstore.head(self._store, self._prefix + name)
        return found["size"], found["e_tag"]

    def size(self, name: str) -> int | None:
        try:
            return self.look(name)[0]
        except ObjectMissing:
            return None

    def read(self, name: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Looks at once, and reads piece by piece, each of the same version: nobody gets half of one object and half
        of another."""
        size_bytes, version = self.look(name)
        return self.pieces(name, start, size_bytes if end is None else min(end, size_bytes), version)

    def pieces(self, name: str, start: int, end: int, version: str | None) -> Iterator[bytes]:
        for at in range(start, end, CHUNK_BYTES):
            piece = (at, min(at + CHUNK_BYTES, end))
            with answered(self.place, name):
                got = obstore.get(self._store, self._prefix + name, options={"range": piece, "if_match": version})
                content = bytes(got.bytes())
            yield content

    def names(self, folder: str, after: str = "", page: int = MAX_PAGE) -> Iterator[tuple[str, int, float]]:
        """Name, size, and when it was written by the server's clock, of all in this folder."""
        below = (self._prefix + folder).strip("/") or None
        offset = self._prefix + after if after else None
        with answered(self.place, folder or "everything"):
            for entries in obstore.list(self._store, below, offset=offset, chunk_size=page):
                for entry in entries:
                    name = entry["path"].removeprefix(self._prefix)
                    yield name, entry["size"], entry["last_modified"].timestamp()

    def create(self, name: str, content: bytes) -> bool:
        """With one request. Its reply may get lost and the client make it again: then the first one wins over the
        second, and only the nonce tells that both are ours."""
        nonce = token_hex(16)
        for _ in range(TRIES):
            try:
                with answered(self.place, name):
                    obstore.put(self._store, self._prefix + name, content, mode="create", attributes={NONCE: nonce})
                    return True
            except AlreadyExistsError:
                try:
                    with answered(self.place, name):
                        there = obstore.get(self._store, self._prefix + name, options={"head": True})
                        return there.attributes.get(NONCE) == nonce
                except ObjectMissing:
                    continue
        raise ObjectsUnreachable(f"{self.place}: {name} is there and is not, again and again; try it later")

    def write(self, name: str, chunks: Iterator[bytes]) -> None:
        """In parts, replacing what is there: at the end all of it, or nothing. What ``chunks`` raises is raised."""
        Relay().run(chunks, lambda relayed: self._put_parts(name, relayed))

    def _put_parts(self, name: str, chunks: Iterator[bytes]) -> None:
        with answered(self.place, name):
            obstore.put(
                self._store,
                self._prefix + name,
                chunks,
                use_multipart=True,
                chunk_size=CHUNK_BYTES,
                max_concurrency=UPLOADS_AT_ONCE,
            )

    def copy(self, source: str, name: str) -> None:
        """Replacing what is there, atomically. Raises ObjectMissing."""
        if self.look(source)[0] > self._copy_bytes:
            self.write(name, self.read(source))
            return
        with answered(self.place, source):
            obstore.copy(self._copier, self._prefix + source, self._prefix + name)

    def move(self, source: str, name: str) -> bool:
        """Copy into a place that is free; False if it is not. There are servers on which two that do so at once both
        succeed: see ``claims``. Raises ObjectMissing."""
        if self.look(source)[0] > self._copy_bytes:
            if self.size(name) is not None:
                return False
            self.write(name, self.read(source))
            return True
        try:
            with answered(self.place, source):
                obstore.copy(self._copier, self._prefix + source, self._prefix + name, overwrite=False)
        except AlreadyExistsError:
            return False
        return True

    def drop(self, name: str) -> None:
        with answered(self.place, name):
            obstore.delete(self._store, self._prefix + name)

    def clock(self) -> float:
        """What time it is there."""
        with answered(self.place, ".clock"):
            obstore.put(self._store, self._prefix + ".clock/now", b"now")
        return max(at_s for _, _, at_s in self.names(".clock"))


def _open(address: ObjectsAddress, keys: S3Config, connect_s: float, request_s: float) -> S3Store:
    settings: S3Config = {"region": address.region or REGION, "copy_if_not_exists": "multipart"}
    if not address.region and not address.endpoint:
        del settings["region"]
    if address.endpoint:
        # Under both names: a variable of the environment for the second would win over the first.
        settings |= {"endpoint": address.endpoint, "aws_endpoint_url_s3": address.endpoint}
    if address.anonymous:
        settings["skip_signature"] = True
    return S3Store(
        address.bucket,
        config={**settings, **keys},
        client_options={
            "allow_http": address.endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=min(connect_s, 10.0)),
            "timeout": timedelta(seconds=request_s),
        },
        retry_config={"max_retries": TRIES, "retry_timeout": timedelta(seconds=2 * request_s)},
    )
