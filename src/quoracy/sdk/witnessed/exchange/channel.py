"""One connection between two members, blocking: TLS over a socket, frames in and out, and stretches of bytes.

The socket never blocks: waiting is done beside it, with a deadline for the whole of what is waited for. Whoever sends a
byte now and then gains nothing by it. Here TLS writes the socket itself, so what is given is copied no more than it has
to be; who takes has a channel of its own, see ``wide``.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Self

import msgspec
from cryptography.x509 import Certificate
from OpenSSL import SSL

from quoracy.sdk.witnessed.exchange.wire import LENGTH, MAX_FRAME, framed

PIECE_BYTES: Final = 256 * 1024
"""What is encrypted, sent, received or written at once."""
RECORD_BYTES: Final = 16 * 1024
"""The most that TLS gives at once."""
NOT_TAKEN: Final = "it did not take what it asked for in time"
CLOSED: Final = "it closed the connection"


class Broken(Exception):
    """The other side is gone, silent, or says what nobody says."""


class Channel:
    """For one thread at a time, but for ``cut``."""

    def __init__(
        self, sock: socket.socket, context: SSL.Context, decoder: msgspec.msgpack.Decoder[Any], server: bool
    ) -> None:
        """The socket is its own from here on. Raises OSError if it is of no use any more."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self._decoder = decoder
        self._sock = sock
        self._tls = self._wrapped(context)
        if server:
            self._tls.set_accept_state()
        else:
            self._tls.set_connect_state()
        self._ready = select.poll()
        self._ready.register(self._sock, 0)

    def _wrapped(self, context: SSL.Context) -> SSL.Connection:
        return SSL.Connection(context, self._sock)

    def greet(self, wait_s: float) -> Self:
        """The handshake. Raises Broken."""
        self._do(self._tls.do_handshake, time.monotonic() + wait_s)
        return self

    def certificate(self) -> Certificate | None:
        """Of the other side, as it was proven."""
        return self._tls.get_peer_certificate(as_cryptography=True)

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
        self._do(lambda: self._tls.send(view), time.monotonic() + wait_s)

    @contextmanager
    def corked(self) -> Iterator[None]:
        """Much is sent: the system puts records together as it likes, where it can."""
        self._cork(1)
        yield
        self._cork(0)

    def _cork(self, on: int) -> None:
        if hasattr(socket, "TCP_CORK"):
            with suppress(OSError):
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)

    def fill(self, view: memoryview, wait_s: float, more: int = 0) -> None:
        """As many bytes as fit, within that time. ``more``: at least so many follow."""
        self._fill(view, time.monotonic() + wait_s, more)

    def _fill(self, view: memoryview, end_s: float, more: int = 0) -> None:
        with self._filling(view, more) as rest:
            self._do(rest, end_s)

    @contextmanager
    def _filling(self, view: memoryview, _more: int) -> Iterator[Callable[[], None]]:
        """What reads until the view is full, and goes on where it stopped when it is called again."""
        at, size = 0, len(view)

        def rest() -> None:
            nonlocal at
            while at < size:
                at += self._tls.recv_into(view[at : at + RECORD_BYTES])

        yield rest

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
            except SSL.WantReadError:
                self._flush(end_s)
                self._more(end_s)
            except SSL.WantWriteError:
                self._wait(select.POLLOUT, end_s, NOT_TAKEN)
            except SSL.Error as error:
                with suppress(Broken):
                    self._flush(end_s)  # the alert, which is how one says no before one can say anything else
                raise Broken(_reason(error)) from None
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
        """Whether one that was kept is still of use: one that was closed has something to read. What TLS says for
        itself does not count."""
        try:
            self._tls.recv(1, socket.MSG_PEEK)
        except SSL.WantReadError:
            return not self._pulled()
        except (SSL.Error, OSError):
            pass
        return False

    def _pulled(self) -> bool:
        """Whether there is more to look at than TLS has seen: here it sees for itself."""
        return False

    def cut(self) -> None:
        """From any thread: whoever waits for it is told at once. TLS is left as it is, or one would send past it."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        self._sock.close()


def _reason(error: Exception) -> str:
    match error:
        case SSL.ZeroReturnError():
            return CLOSED
        case SSL.SysCallError(args=(int(number), *_)):
            return os.strerror(number) if number > 0 else CLOSED
        case SSL.Error(args=([(_, _, reason), *_], *_)):
            return f"TLS: {reason}"
    return f"TLS: {error}"
