"""A channel for taking much: many records at a time come from the socket, and each goes where it belongs at once.

A record holds 16 KB at most, and TLS asks a socket for each of them twice. So here it reads from memory instead, which
is filled in wide strides. pyOpenSSL copies what TLS is given to read, and copies again what it has read, which together
takes more of the processor than the encryption does. ``_feed`` and ``_filling`` therefore call the functions of OpenSSL
that lie below it, in ``cryptography``. Nobody promises that those stay, so next year's pyOpenSSL is not allowed
before the tests have seen it.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL

from quoracy.sdk.witnessed.exchange.channel import CLOSED, NOT_TAKEN, RECORD_BYTES, Broken, Channel

NARROW_BYTES: Final = 16 * 1024
WIDE_BYTES: Final = 1024 * 1024
"""What is read from the socket at once: while answers come, and while a blob does."""
MANY_BYTES: Final = WIDE_BYTES // 2
GATHER_MS: Final = 20
"""While a blob comes one waits so long for many bytes rather than few."""
FLUSH_BYTES: Final = 64 * 1024

_lib: Any = Binding().lib
_ffi: Any = Binding().ffi


class WideChannel(Channel):
    def _wrapped(self, context: SSL.Context) -> SSL.Connection:
        self._room_bytes = NARROW_BYTES
        self._room = bytearray(NARROW_BYTES)  # and no view of it: see ``_filling``
        self._address = _ffi.from_buffer(self._room)
        self._missing = 0
        """So many bytes must come yet, at least."""
        self._least = 1
        """So many have to be there before the socket says that there are some."""
        return SSL.Connection(context, None)

    def widen(self, wide: bool = True) -> None:
        """A blob comes; or no more."""
        self._room_bytes = WIDE_BYTES if wide else NARROW_BYTES

    def _more(self, end_s: float) -> None:
        while True:
            try:
                self._pull()
                return
            except BlockingIOError:
                if not self._gathered():
                    super()._more(end_s)
            except OSError as error:
                raise Broken(error.strerror or str(error)) from None

    def _gathered(self) -> bool:
        """Whether many bytes came within a moment, where so many must come anyway. To be woken for few, and the other
        side to wake one for them, takes both of them longer than the bytes do."""
        many = min(MANY_BYTES, self._missing - 2 * RECORD_BYTES)  # TLS may hold a part of a record
        self._set_least(max(1, many))
        self._ready.modify(self._sock, select.POLLIN)
        if many > 1 and self._ready.poll(GATHER_MS):
            return True
        self._set_least(1)
        return False

    def _set_least(self, count: int) -> None:
        if count != self._least:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._least = count

    def _pull(self) -> None:
        """What has come so far. Everything that came before has been read, or TLS would not ask for more: so the
        memory that it lay in is free."""
        if len(self._room) != self._room_bytes:
            self._feed(0)
            self._room = bytearray(self._room_bytes)
            self._address = _ffi.from_buffer(self._room)
        count = self._sock.recv_into(self._room)
        if not count:
            raise Broken(CLOSED)
        self._feed(count)

    def _feed(self, count: int) -> None:
        """Let TLS read so many bytes of the room, where they lie. It lets go of what it read from before."""
        source = _lib.BIO_new_mem_buf(self._address, count)
        if source == _ffi.NULL:
            raise MemoryError("OpenSSL has no memory")
        _lib.BIO_set_mem_eof_return(source, -1)
        tls: Any = self._tls
        _lib.SSL_set_bio(tls._ssl, source, tls._from_ssl)
        tls._into_ssl = None

    @contextmanager
    def _filling(self, view: memoryview, more: int) -> Iterator[Callable[[], None]]:
        tls: Any = self._tls
        ssl, at, size, read = tls._ssl, 0, len(view), _lib.SSL_read
        # Let go at once: some Pythons end the process when they tidy up a view that somebody else still holds.
        with _ffi.from_buffer(view) as into:

            def rest() -> None:
                nonlocal at
                while at < size:
                    count: int = read(ssl, into + at, size - at)
                    if count <= 0:
                        self._missing = size - at + more
                        tls._raise_ssl_error(ssl, count)
                    at += count

            yield rest

    def _flush(self, end_s: float) -> None:
        while True:
            try:
                left = memoryview(self._tls.bio_read(FLUSH_BYTES))
            except SSL.WantReadError:
                return
            while left:
                try:
                    left = left[self._sock.send(left) :]
                except BlockingIOError:
                    self._wait(select.POLLOUT, end_s, NOT_TAKEN)
                except OSError as error:
                    raise Broken(error.strerror or str(error)) from None

    def _pulled(self) -> bool:
        try:
            self._pull()
        except BlockingIOError:
            return False
        except (Broken, OSError):
            return True
        return not self.quiet()
