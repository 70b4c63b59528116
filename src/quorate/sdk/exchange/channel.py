"""One connection between two members, blocking: TLS over a socket, frames in and out, and stretches of bytes.

The socket never blocks: waiting is done beside it, with a deadline for the whole of what is waited for. Whoever sends a
byte now and then gains nothing by it. Here TLS writes the socket itself, so what is given is copied no more than it has
to be; who takes has a channel of its own, see ``wide``.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self

import msgspec

from quorate.sdk.exchange.wire import LENGTH, MAX_FRAME, framed

PIECE_BYTES: Final = 256 * 1024
"""What is encrypted, sent, received or written at once."""
NOT_TAKEN: Final = "it did not take what it asked for in time"


class Broken(Exception):
    """The other side is gone, silent, or says what nobody says."""


class Channel:
    """For one thread at a time, but for ``cut``."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, decoder: msgspec.msgpack.Decoder[Any], server: bool
    ) -> None:
        """The socket is its own from here on. Raises OSError if it is of no use any more."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self._decoder = decoder
        self._sock, self._tls = self._wrapped(sock, context, server)
        self._ready = select.poll()
        self._ready.register(self._sock, 0)

    def _wrapped(
        self, sock: socket.socket, context: ssl.SSLContext, server: bool
    ) -> tuple[socket.socket, ssl.SSLSocket | ssl.SSLObject]:
        tls = context.wrap_socket(sock, server_side=server, do_handshake_on_connect=False)
        return tls, tls

    def greet(self, wait_s: float) -> Self:
        """The handshake. Raises Broken."""
        self._do(self._tls.do_handshake, time.monotonic() + wait_s)
        return self

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
        """All of it. Raises Broken if it is not taken in time."""
        self._do(lambda: self._tls.write(view), time.monotonic() + wait_s)

    def fill(self, view: memoryview, wait_s: float) -> None:
        """As many bytes as fit, within that time."""
        self._fill(view, time.monotonic() + wait_s)

    def _fill(self, view: memoryview, end_s: float) -> None:
        read, at, size = self._tls.read, 0, len(view)

        def rest() -> None:
            nonlocal at
            while at < size:
                count = int(read(size - at, view[at:]))
                if not count:
                    raise Broken("it closed the connection")
                at += count

        self._do(rest, end_s)

    # -- the socket -------------------------------------------------------------------------------------------------

    def _do(self, action: Callable[[], object], end_s: float) -> None:
        """Until it has gone through: TLS says what it waits for, and then is called in the same way again."""
        if self._sock.fileno() < 0:
            raise Broken("this connection is closed")
        while True:
            try:
                action()
                self._flush(end_s)
                return
            except ssl.SSLWantReadError:
                self._flush(end_s)
                self._more(end_s)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, end_s, NOT_TAKEN)
            except ssl.SSLError as error:
                with suppress(Broken):
                    self._flush(end_s)  # the alert, which is how one says no before one can say anything else
                raise Broken(f"TLS: {error.reason or error}") from None
            except OSError as error:
                raise Broken(error.strerror or str(error)) from None

    def _flush(self, end_s: float) -> None:
        """What TLS has to say is on its way already."""

    def _more(self, end_s: float) -> None:
        self._wait(select.POLLIN, end_s, "it did not answer in time")

    def _wait(self, event: int, end_s: float, otherwise: str) -> None:
        self._ready.modify(self._sock, event)
        left_s = end_s - time.monotonic()
        if left_s <= 0 or not self._ready.poll(left_s * 1000):
            raise Broken(otherwise)

    def quiet(self) -> bool:
        """Whether one that was kept is still of use: one that was closed has something to read."""
        self._ready.modify(self._sock, select.POLLIN)
        return not self._tls.pending() and not self._ready.poll(0)

    def cut(self) -> None:
        """From any thread: whoever waits for it is told at once. TLS is left as it is, or one would send past it."""
        with suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._sock.close()
