"""Frames: four bytes of length, big-endian, then that many bytes. A reader keeps what is not whole yet, and no more."""

from __future__ import annotations

from struct import Struct
from typing import Any

from quoracy.core.codec import encode
from quoracy.core.errors import ProtocolError
from quoracy.wire.messages import MAX_FRAME_BYTES

_read_size = Struct(">I").unpack_from


class FrameTooLarge(ProtocolError):
    """Whoever announces such a frame is not heard any further."""

    code = "too_large"


def frame(message: Any) -> bytes:
    body = encode(message)
    return len(body).to_bytes(4, "big") + body


class FrameReader:
    """Cuts a stream of bytes into frames. Memory is bounded by one frame and one read.

    Only a frame that is not whole yet is kept, in a buffer that grows in place: each byte is copied a fixed number of
    times, in however many pieces it comes. The buffer grows with what has come, never with what was announced.
    """

    __slots__ = ("_kept", "_limit")

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self._kept = bytearray()
        """The beginning of one frame, its four bytes of length included."""
        self._limit = limit_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """The frames that are whole now. Raises FrameTooLarge as soon as a length says so, before it is read; from
        then on the stream has no frames any more, and whatever is fed raises again."""
        frames: list[bytes] = []
        at = self._finish(chunk, frames) if self._kept else 0
        end = len(chunk)
        while end - at >= 4:
            body = at + 4
            size: int = _read_size(chunk, at)[0]
            if size > self._limit:
                self._kept += chunk[at:body]
                raise self._too_large(size)
            if body + size > end:
                break
            at = body + size
            frames.append(chunk[body:at])
        if at < end:
            self._kept += chunk[at:]
        return frames

    def kept_bytes(self) -> int:
        return len(self._kept)

    def _finish(self, chunk: bytes, frames: list[bytes]) -> int:
        """Complete the frame that was kept; returns how much of the chunk that took."""
        kept = self._kept
        at = max(0, 4 - len(kept))
        kept += chunk[:at]
        if len(kept) < 4:
            return at
        size: int = _read_size(kept)[0]
        if size > self._limit:
            raise self._too_large(size)
        missing = 4 + size - len(kept)
        kept += chunk[at : at + missing]
        if len(kept) == 4 + size:
            frames.append(bytes(memoryview(kept)[4:]))
            self._kept = bytearray()
        return at + missing

    def _too_large(self, size: int) -> FrameTooLarge:
        return FrameTooLarge(f"a frame of {size} bytes; at most {self._limit} are taken")
