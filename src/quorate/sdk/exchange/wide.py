"""A channel for taking much: many records at a time come from the socket.

A record holds 16 KB at most, and TLS asks a socket for each of them twice. So here it reads from memory instead, and
what comes is put there in wide strides: a copy more, and many calls fewer, which takes less of the processor in all.
"""

from __future__ import annotations

import select
import socket
import ssl
from typing import Final

from quorate.sdk.exchange.channel import NOT_TAKEN, Broken, Channel

NARROW_BYTES: Final = 16 * 1024
WIDE_BYTES: Final = 512 * 1024
"""What is read from the socket at once: while answers come, and while a blob does."""


class WideChannel(Channel):
    def _wrapped(
        self, sock: socket.socket, context: ssl.SSLContext, server: bool
    ) -> tuple[socket.socket, ssl.SSLSocket | ssl.SSLObject]:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._room = memoryview(bytearray(NARROW_BYTES))
        return sock, context.wrap_bio(self._incoming, self._outgoing, server_side=server)

    def widen(self, wide: bool = True) -> None:
        """A blob comes; or no more."""
        size = WIDE_BYTES if wide else NARROW_BYTES
        if len(self._room) != size:
            self._room = memoryview(bytearray(size))

    def _more(self, end_s: float) -> None:
        while True:
            try:
                count = self._sock.recv_into(self._room)
                break
            except BlockingIOError:
                super()._more(end_s)
            except OSError as error:
                raise Broken(error.strerror or str(error)) from None
        if not count:
            raise Broken("it closed the connection")
        self._incoming.write(self._room[:count])

    def _flush(self, end_s: float) -> None:
        if not self._outgoing.pending:
            return
        left = memoryview(self._outgoing.read())
        while left:
            try:
                left = left[self._sock.send(left) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, end_s, NOT_TAKEN)
            except OSError as error:
                raise Broken(error.strerror or str(error)) from None

    def quiet(self) -> bool:
        return self._incoming.pending == 0 and super().quiet()
