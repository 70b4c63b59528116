"""Weights through the coordinator's HTTP door, for participants that cannot reach the store: streamed, and gone on with
where they were interrupted.

Blocks. A request that fails raises, and whoever called tries again: what arrived is kept, on either side.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from blake3 import blake3

from quoracy.core.errors import ObjectCorrupt, ObjectsError, ObjectsUnreachable, Refused
from quoracy.learn.packed import Packed
from quoracy.sdk.client.http import Body, HttpLine, failed, has_answered
from quoracy.sdk.federated.weights_cache import Cache

CHUNK_BYTES: Final = 1024 * 1024
WHOLE_BYTES: Final = 8 * 1024 * 1024
"""Uploads up to this size are sent at once, and again as a whole if they are interrupted."""
PART_BYTES: Final = 64 * 1024 * 1024
"""Larger ones are sent in parts of this size. What came of an interrupted part is kept; but whatever is between here
and the coordinator may pass on whole requests only."""
TRIES: Final = 5
"""To find where an upload stands."""


class HttpWeights:
    def __init__(self, line: HttpLine, on_progress: Callable[[], None]) -> None:
        self._line = line
        self._on_progress = on_progress
        self._room = memoryview(bytearray(CHUNK_BYTES))

    def close(self) -> None:
        self._line.close()

    # -- fetching ---------------------------------------------------------------------------------------------------

    def fetch(self, digest: str, cache: Cache) -> Path:
        return cache.get(digest, lambda part: self._fetch(digest, part))

    def _fetch(self, digest: str, part: Path) -> None:
        with part.open("a+b", buffering=0) as file:
            hasher, begin = blake3(), file.tell()
            file.seek(0)
            room = self._room
            while count := file.readinto(room):
                hasher.update(room[:count])
            ranged = {"Range": f"bytes={begin}-"} if begin else {}
            with self._asked("GET", digest, ranged) as answer:
                if answer.status == 200 and begin:
                    file.truncate(0)
                    hasher = blake3()
                if answer.status not in (416, 200, 206):
                    raise _failed(answer, "GET", digest)
                if answer.status == 416:
                    answer.read()
                else:
                    self._read(answer, file, hasher, room)
        if (found := hasher.hexdigest()) != digest:
            part.unlink()
            raise ObjectCorrupt(digest, f"what the HTTP door sent has the digest {found}")

    def _read(self, answer: http.client.HTTPResponse, file: BinaryIO, hasher: blake3, room: memoryview) -> None:
        while count := answer.readinto(room):
            piece = room[:count]
            hasher.update(piece)
            while piece:
                piece = piece[file.write(piece) :]
            self._on_progress()
        if answer.length:
            raise ObjectsUnreachable(f"the connection ended {answer.length} bytes before the weights did")

    # -- bringing ---------------------------------------------------------------------------------------------------

    def upload(self, content: Path | Packed, digest: str) -> None:
        with Sending(content, self._on_progress) as sending:
            for _ in range(TRIES):
                try:
                    self._upload(sending, digest)
                    return
                except Refused as error:
                    if error.code != "upload_offset":
                        raise  # else what was sent before the connection broke has come in meanwhile: look again
        raise ObjectsUnreachable(f"upload of weights {digest[:12]}: it is added to by somebody else")

    def _upload(self, sending: Sending, digest: str) -> None:
        size_bytes = sending.size_bytes
        if size_bytes <= WHOLE_BYTES:
            self._send("PUT", digest, sending, 0, size_bytes, {})
            return
        there = self._there(digest)
        while there is not None:  # also if all of it is there, and only its end is missing
            length = min(PART_BYTES, max(0, size_bytes - there))
            headers = {"Upload-Offset": str(there), "Upload-Length": str(size_bytes)}
            self._send("PATCH", digest, sending, there, length, headers)
            there = there + length if there + length < size_bytes else None

    def _there(self, digest: str) -> int | None:
        """How much of it the coordinator has; None: all of it, checked."""
        with self._asked("HEAD", digest, {}) as answer:
            answer.read()
            offset = answer.getheader("Upload-Offset")
            if offset is not None:
                return int(offset)
            if answer.status == 200:
                return None
            if answer.status == 404:
                return 0
            raise _failed(answer, "HEAD", digest)

    def _send(
        self, method: str, digest: str, sending: Sending, begin: int, length: int, headers: dict[str, str]
    ) -> None:
        whole = {"Content-Length": str(length), "Content-Type": "application/octet-stream"} | headers
        with self._asked(method, digest, whole, partial(sending.send, begin, length)) as answer:
            if answer.status not in (200, 201, 204):
                raise _failed(answer, method, digest)
            answer.read()

    def _asked(
        self, method: str, digest: str, headers: dict[str, str], body: Body | None = None
    ) -> AbstractContextManager[http.client.HTTPResponse]:
        return self._line.asked(method, f"weights/{digest}", f"weights {digest[:12]}", headers, body)


def _failed(answer: http.client.HTTPResponse, method: str, digest: str) -> ObjectsError | Refused:
    return failed(answer, method, f"weights {digest[:12]}", digest)


class Sending:
    """What is sent, from wherever in it."""

    def __init__(self, content: Path | Packed, on_progress: Callable[[], None]) -> None:
        self._content = content
        self._on_progress = on_progress
        self._file: BinaryIO | None = None
        if isinstance(content, Packed):
            self.size_bytes = content.size_bytes
        else:
            self._file = content.open("rb", buffering=0)
            self.size_bytes = os.fstat(self._file.fileno()).st_size

    def send(self, begin: int, length: int, line: http.client.HTTPConnection) -> bool:
        """So many bytes; False if the other side answers before it has got them all."""
        for piece in self._pieces(begin):
            if not length:
                break
            if has_answered(line):
                return False
            line.send(piece[:length])
            length -= min(length, len(piece))
            self._on_progress()
        return True

    def _pieces(self, begin: int) -> Iterator[bytes | memoryview]:
        if isinstance(self._content, Packed):
            for piece in self._content.pieces(begin):
                for start in range(0, len(piece), CHUNK_BYTES):
                    yield piece[start : start + CHUNK_BYTES]
        elif self._file is not None:
            self._file.seek(begin)
            while read := self._file.read(CHUNK_BYTES):
                yield read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
