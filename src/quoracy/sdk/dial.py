"""Dialing: names, connections and TLS handshakes take as long as they take, so they happen in a thread of their own.

One thread for one call. It ends with a connected socket or a reason, handed over through ``take``; a byte in ``wake``
tells the loop that there is something to take.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections import deque
from typing import Final

import msgspec

from quoracy.sdk.address import Address

CONNECT_S: Final = 5.0


class Call(msgspec.Struct, frozen=True):
    """How one ended: a socket that does not block, or why there is none."""

    sock: socket.socket | None
    why: str


class Dialer:
    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._ended: deque[Call] = deque()
        self.wake, self._bell = os.pipe()
        os.set_blocking(self.wake, False)

    def dial(self, address: Address) -> None:
        threading.Thread(target=self._work, args=(address,), name="quoracy-dial", daemon=True).start()

    def take(self) -> list[Call]:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 64)
        ended = []
        while self._ended:
            ended.append(self._ended.popleft())
        return ended

    def _work(self, address: Address) -> None:
        try:
            call = Call(self._connect(address), "")
        except ssl.SSLCertVerificationError as error:
            call = Call(None, f"its certificate is not believed ({error.verify_message}): name its authority with ca=")
        except ssl.SSLError as error:
            call = Call(None, f"no TLS connection ({error.reason or error}): is it a tcp:// address?")
        except OSError as error:
            call = Call(None, error.strerror or str(error) or type(error).__name__)
        except UnicodeError:
            call = Call(None, "that is no name of a machine")
        self._ended.append(call)
        os.write(self._bell, b"!")

    def _connect(self, address: Address) -> socket.socket:
        sock = socket.create_connection((address.host, address.port), timeout=CONNECT_S)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=address.host)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return sock
