"""Frames over a pipe: four bytes of length, then (peer, message) in msgpack. A reader keeps what is not whole yet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from quorate.core.codec import encode
from quorate.core.messages import MAX_MESSAGE_BYTES, ToHost, ToMember

CHUNK = 1 << 16


class Sender:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def send(self, frames: Sequence[tuple[Any, ToHost | ToMember]]) -> bool:
        """False if nobody is there to read."""
        payload = bytearray()
        for frame in frames:
            body = encode(frame)
            payload += len(body).to_bytes(4, "big") + body
        view = memoryview(payload)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except BrokenPipeError:
            return False
        return True


class Receiver:
    def __init__(self, fd: int, types: Any) -> None:
        self._fd = fd
        self._kept = bytearray()
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(tuple[str, types])
        self.closed = False

    def receive(self) -> Iterator[tuple[str, Any]]:
        """The whole frames that one read brings. Blocks if nothing is there."""
        chunk = os.read(self._fd, CHUNK)
        self.closed = not chunk
        self._kept += chunk
        while len(self._kept) >= 4:
            size = int.from_bytes(self._kept[:4], "big")
            if size > MAX_MESSAGE_BYTES:
                raise ValueError(f"a frame of {size} bytes; at most {MAX_MESSAGE_BYTES} are taken")
            if len(self._kept) < 4 + size:
                return
            body = bytes(self._kept[4 : 4 + size])
            del self._kept[: 4 + size]
            yield self._decoder.decode(body)
