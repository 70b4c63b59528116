"""Blobs through the coordinator's HTTP door: for a member that nobody can reach, and for whoever can reach nobody."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from typing import Final

from quoracy.core.backoff import Backoff, Waits
from quoracy.core.errors import ObjectMissing, ObjectsUnreachable
from quoracy.sdk.client.http import HttpLine, failed
from quoracy.sdk.witnessed.exchange.channel import PIECE_BYTES
from quoracy.sdk.witnessed.exchange.figures import Figures
from quoracy.sdk.witnessed.exchange.offers import Opened
from quoracy.sdk.witnessed.exchange.part import Part
from quoracy.sdk.witnessed.exchange.port import Source

TRIES: Final = 6
WAITS: Final = Waits(first_us=200_000, longest_us=5_000_000)
SENDING_S: Final = 5.0
"""So long one waits for a blob that its owner may be sending."""
LOOK_S: Final = 0.1


class Arriving:
    """A blob, and up to where it has come."""

    def __init__(self, part: Part, max_bytes: int) -> None:
        self.part = part
        self.max_bytes = max_bytes
        self.at = 0


class RelayClient:
    """Each call raises what ``http_line`` raises, after a few tries where it may be better in a while."""

    def __init__(self, line: HttpLine, figures: Figures) -> None:
        """``line``: says who asks, with every request."""
        self._line = line
        self._figures = figures
        self._closed = threading.Event()

    def close(self) -> None:
        """Whoever waits for a next try is told of the last one."""
        self._closed.set()
        self._line.close()

    def put(self, digest: bytes, source: Source) -> None:
        """Raises OSError if the source is a file that is gone."""
        blob = Opened(source)
        try:
            self._tried(lambda: self._put(digest.hex(), blob))
        finally:
            blob.close()

    def _put(self, name: str, blob: Opened) -> bool:
        headers = {"Content-Length": str(blob.size_bytes), "Content-Type": "application/octet-stream"}
        with self._line.asked("PUT", f"relay/{name}", f"blob {name[:12]}", headers, partial(_send, blob)) as answer:
            if answer.status not in (200, 201):
                raise failed(answer, "PUT", f"blob {name[:12]}", name)
            answer.read()
        self._figures.add("relayed_out_bytes", blob.size_bytes)
        return True

    def get(self, digest: bytes, part: Part, max_bytes: int, wait: bool) -> int | None:
        """Its size, when all of it is in the part; None: the coordinator does not have it. ``wait``: somebody may be
        sending it."""
        name, end_s = digest.hex(), time.monotonic() + (SENDING_S if wait else 0.0)
        arriving = Arriving(part, max_bytes)
        while True:
            try:
                return self._tried(lambda: self._get(name, arriving))
            except ObjectMissing:
                if time.monotonic() >= end_s or self._closed.wait(LOOK_S):
                    return None

    def _get(self, name: str, arriving: Arriving) -> int:
        """What has not arrived; its size, then."""
        ranged = {"Range": f"bytes={arriving.at}-"} if arriving.at else {}
        what = f"blob {name[:12]}"
        with self._line.asked("GET", f"relay/{name}", what, ranged) as answer:
            if answer.status not in (200, 206):
                raise failed(answer, "GET", what, name)
            if answer.status == 200:
                arriving.at = 0
            room = memoryview(bytearray(PIECE_BYTES))
            while count := answer.readinto(room):
                if arriving.at + count > arriving.max_bytes:
                    raise ObjectMissing(name)
                arriving.part.write(arriving.at, room[:count])
                arriving.at += count
                self._figures.add("relayed_in_bytes", count)
            if answer.length:
                raise ObjectsUnreachable(f"GET of {what}: the connection ended {answer.length} bytes before it did")
        return arriving.at

    def _tried(self, work: Callable[[], int | None]) -> int | None:
        backoff = Backoff(WAITS)
        while True:
            try:
                return work()
            except ObjectsUnreachable as error:
                pause_s = backoff.failed_s(time.monotonic(), random.SystemRandom().random(), error.retry_after_s)
                if backoff.tries == TRIES or self._closed.wait(pause_s):
                    raise


def _send(blob: Opened, line: HTTPConnection) -> bool:
    room, at = memoryview(bytearray(PIECE_BYTES)), 0
    while piece := blob.piece(at, room):
        line.send(piece)
        at += len(piece)
    return True
