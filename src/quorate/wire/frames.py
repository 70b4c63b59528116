"""Frames: four bytes of length, big-endian, then that many bytes. A reader keeps what is not whole yet, and no more."""

from __future__ import annotations

from typing import Any

from quorate.core.codec import encode
from quorate.core.errors import ProtocolError
from quorate.wire.messages import MAX_FRAME_BYTES


class FrameTooLarge(ProtocolError):
    """Whoever announces such a frame is not heard any further."""

    code = "too_large"


def frame(message: Any) -> bytes:
    body = encode(message)
    return len(body).to_bytes(4, "big") + body


class FrameReader:
    """Cuts a stream of bytes into frames. Memory is bounded by one frame and one read."""

    __slots__ = ("_kept", "_limit")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self._kept = b""
        self._limit = limit_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """The frames that are whole now. Raises FrameTooLarge as soon as a length says so, before it is read."""
        stream = self._kept + chunk if self._kept else chunk
        frames: list[bytes] = []
        at, end = 0, len(stream)
        while end - at >= 4:
            size = int.from_bytes(stream[at : at + 4], "big")
            if size > self._limit:
                raise FrameTooLarge(f"a frame of {size} bytes; at most {self._limit} are taken")
            if end - at - 4 < size:
                break
            frames.append(stream[at + 4 : at + 4 + size])
            at += 4 + size
        self._kept = stream[at:]
        return frames

    def kept_bytes(self) -> int:
        return len(self._kept)
