"""Weights through the coordinator's HTTP door, for participants that cannot reach the store: streamed, and gone on with
where they were interrupted.

Blocks; one connection per request, so that nothing has to be remembered of the last one. A request that fails raises,
and whoever called tries again: what arrived is kept, on either side.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, Final

from quoracy.core.errors import ObjectCorrupt, ObjectsError, ObjectsUnreachable, Refused
from quoracy.learn.tensors import digest_of
from quoracy.sdk.http_line import HttpLine, failed
from quoracy.sdk.weights_cache import Cache

CHUNK_BYTES: Final = 1024 * 1024
PART_BYTES: Final = 8 * 1024 * 1024
"""Larger uploads are sent in parts of this size: of an interrupted one at most so much is sent twice."""
TRIES: Final = 5
"""To find where an upload stands."""


class HttpWeights:
    def __init__(self, line: HttpLine, on_progress: Callable[[], None]) -> None:
        self._line = line
        self._on_progress = on_progress

    def close(self) -> None:
        """Nothing is held."""

    # -- fetching ---------------------------------------------------------------------------------------------------

    def fetch(self, digest: str, cache: Cache) -> Path:
        return cache.get(digest, lambda part: self._fetch(digest, part))

    def _fetch(self, digest: str, part: Path) -> None:
        with part.open("ab") as file:
            begin = file.tell()
            ranged = {"Range": f"bytes={begin}-"} if begin else {}
            with self._asked("GET", digest, ranged) as answer:
                if answer.status == 200 and begin:
                    file.truncate(0)
                if answer.status not in (416, 200, 206):
                    raise _failed(answer, "GET", digest)
                if answer.status != 416:
                    while chunk := answer.read(CHUNK_BYTES):
                        file.write(chunk)
                        self._on_progress()
                    file.flush()
                    if answer.length:
                        raise ObjectsUnreachable(f"the connection ended {answer.length} bytes before the weights did")
        if (found := digest_of(part)) != digest:
            part.unlink()
            raise ObjectCorrupt(digest, f"what the HTTP door sent has the digest {found}")

    # -- bringing ---------------------------------------------------------------------------------------------------

    def upload(self, path: Path, digest: str) -> None:
        for _ in range(TRIES):
            try:
                self._upload(path, digest)
                return
            except Refused as error:
                if error.code != "upload_offset":
                    raise  # else what was sent before the connection broke has come in meanwhile: look again
        raise ObjectsUnreachable(f"upload of weights {digest[:12]}: it is added to by somebody else")

    def _upload(self, path: Path, digest: str) -> None:
        size_bytes = path.stat().st_size
        there = self._there(digest)
        if there is None:
            return
        with path.open("rb") as file:
            if there == 0 and size_bytes <= PART_BYTES:
                self._send("PUT", digest, file, size_bytes, {})
                return
            while True:  # also if all of it is there, and only its end is missing
                file.seek(there)
                length = min(PART_BYTES, max(0, size_bytes - there))
                headers = {"Upload-Offset": str(there), "Upload-Length": str(size_bytes)}
                self._send("PATCH", digest, file, length, headers)
                there += length
                if there >= size_bytes:
                    return

    def _there(self, digest: str) -> int | None:
        """How much of it the coordinator has; None: all of it, checked."""
        with self._asked("HEAD", digest, {}) as answer:
            offset = answer.getheader("Upload-Offset")
            if offset is not None:
                return int(offset)
            if answer.status == 200:
                return None
            if answer.status == 404:
                return 0
            raise _failed(answer, "HEAD", digest)

    def _send(self, method: str, digest: str, file: BinaryIO, length: int, headers: dict[str, str]) -> None:
        whole = {"Content-Length": str(length), "Content-Type": "application/octet-stream"} | headers
        with self._asked(method, digest, whole, self._chunks(file, length)) as answer:
            if answer.status not in (200, 201, 204):
                raise _failed(answer, method, digest)
            answer.read()

    def _chunks(self, file: BinaryIO, length: int) -> Iterator[bytes]:
        while length and (chunk := file.read(min(CHUNK_BYTES, length))):
            length -= len(chunk)
            yield chunk
            self._on_progress()

    def _asked(
        self, method: str, digest: str, headers: dict[str, str], body: Any = None
    ) -> AbstractContextManager[http.client.HTTPResponse]:
        return self._line.asked(method, f"weights/{digest}", f"weights {digest[:12]}", headers, body)


def _failed(answer: http.client.HTTPResponse, method: str, digest: str) -> ObjectsError | Refused:
    return failed(answer, method, f"weights {digest[:12]}", digest)
