"""One connection between two members, blocking: TLS over a socket, frames in and out, and stretches of bytes.

TLS is done beside the socket, in memory: so bytes are sent and received many records at a time, and every wait has a
deadline for the whole of what is waited for. Whoever sends a byte now and then gains nothing by it.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from typing import Any, Final, Self

import msgspec

from quorate.sdk.exchange.wire import LENGTH, MAX_FRAME, framed

PIECE_BYTES: Final = 256 * 1024
"""What is encrypted, sent, received or written at once."""
NARROW_BYTES: Final = 16 * 1024
WIDE_BYTES: Final = 512 * 1024
"""What is read from the socket at once: while requests come, and while a blob does."""


class Broken(Exception):
    """The other side is gone, silent, or says what nobody says."""


class Channel:
    """For one thread at a time, but for ``cut``."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, decoder: msgspec.msgpack.Decoder[Any], server: bool
    ) -> None:
        self._sock = sock
        self._decoder = decoder
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._room = memoryview(bytearray(NARROW_BYTES))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def greet(self, wait_s: float) -> Self:
        """The handshake. Raises Broken."""
        end_s = time.monotonic() + wait_s
        while True:
            try:
                self._tls.do_handshake()
                self._flush(end_s)
                return self
            except ssl.SSLWantReadError:
                self._flush(end_s)
                self._read(end_s)
            except ssl.SSLError as error:
                with suppress(Broken):
                    self._flush(end_s)  # the alert, which says why
                raise Broken(f"TLS: {error.reason or error}") from None

    def certificate(self) -> bytes | None:
        """Of the other side, as it was proven."""
        return self._tls.getpeercert(binary_form=True)

    # -- frames -----------------------------------------------------------------------------------------------------

    def say(self, message: Any, wait_s: float) -> None:
        self.send(memoryview(framed(message)), wait_s)

    def hear(self, wait_s: float, idle_s: float = 0.0) -> Any:
        """The next message: whole within ``wait_s``, after at most ``idle_s`` in which it has not begun."""
        head = memoryview(bytearray(LENGTH.size))
        if idle_s:
            self.fill(head[:1], idle_s)
        end_s = time.monotonic() + wait_s
        self._fill(head[1 if idle_s else 0 :], end_s)
        (length,) = LENGTH.unpack(head)
        if length > MAX_FRAME:
            raise Broken(f"a message of {length} bytes; at most {MAX_FRAME} are taken")
        body = memoryview(bytearray(length))
        self._fill(body, end_s)
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Broken(f"a message that cannot be read: {error}") from None

    # -- bytes ------------------------------------------------------------------------------------------------------

    def send(self, view: memoryview, wait_s: float) -> None:
        """All of it, in memory twice: at most a piece at a time. Raises Broken if it is not taken in time."""
        try:
            self._tls.write(view)
        except ssl.SSLError as error:
            raise Broken(f"TLS: {error.reason or error}") from None
        self._flush(time.monotonic() + wait_s)

    def fill(self, view: memoryview, wait_s: float) -> None:
        """As many bytes as fit, within that time."""
        self._fill(view, time.monotonic() + wait_s)

    def _fill(self, view: memoryview, end_s: float) -> None:
        read, at, size = self._tls.read, 0, len(view)
        while at < size:
            try:
                while at < size:
                    count = int(read(size - at, view[at:]))
                    if not count:
                        raise Broken("it closed the connection")
                    at += count
            except ssl.SSLWantReadError:
                self._read(end_s)
            except ssl.SSLError as error:
                raise Broken(_said(error)) from None

    def widen(self, wide: bool = True) -> None:
        """A blob comes; or no more."""
        size = WIDE_BYTES if wide else NARROW_BYTES
        if len(self._room) != size:
            self._room = memoryview(bytearray(size))

    # -- the socket -------------------------------------------------------------------------------------------------

    def _read(self, end_s: float) -> None:
        try:
            self._sock.settimeout(max(0.001, end_s - time.monotonic()))
            count = self._sock.recv_into(self._room)
        except TimeoutError:
            raise Broken("it did not answer in time") from None
        except OSError as error:
            raise Broken(error.strerror or str(error)) from None
        if not count:
            raise Broken("it closed the connection")
        self._incoming.write(self._room[:count])

    def _flush(self, end_s: float) -> None:
        if not self._outgoing.pending:
            return
        try:
            self._sock.settimeout(max(0.001, end_s - time.monotonic()))
            self._sock.sendall(self._outgoing.read())
        except TimeoutError:
            raise Broken("it did not take what it asked for in time") from None
        except OSError as error:
            raise Broken(error.strerror or str(error)) from None

    def quiet(self) -> bool:
        """Whether one that was kept is still of use: one that was closed has something to read."""
        try:
            self._sock.settimeout(0.0)
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return self._incoming.pending == 0
        except OSError:
            return False
        return False

    def cut(self) -> None:
        """From any thread: whoever waits for it is told at once."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._sock.close()


def _said(error: ssl.SSLError) -> str:
    """An alert is how the other side says no before it can say anything else."""
    return f"TLS: {error.reason or error}"
