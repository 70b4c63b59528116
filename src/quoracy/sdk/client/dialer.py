"""Sockets to a coordinator: names, connections and TLS handshakes, which take as long as they take, in a thread; and
reading and writing without blocking, TLS or not.

One thread for one attempt. It ends with a connected socket or a reason, handed over through ``take``; a byte in
``wake`` tells the loop that there is something to take.
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

from quoracy.sdk.client.address import Address

CONNECT_S: Final = 5.0
KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A connection may be silent for hours while a training computes. This keeps the entries of NAT and firewalls alive."""


class Dialed(msgspec.Struct, frozen=True):
    """How one attempt ended: a socket that does not block, or why there is none. ``final``: and never will be."""

    sock: socket.socket | None
    why: str = ""
    final: bool = False


class Dialer:
    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._ended: deque[Dialed] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self.wake, self._bell = os.pipe()
        os.set_blocking(self.wake, False)

    def dial(self, address: Address) -> None:
        """While the interpreter shuts down it starts no threads any more, and nobody minds waiting."""
        thread = threading.Thread(target=self._work, args=(address,), name="quoracy-connect", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._work(address)

    def take(self) -> list[Dialed]:
        if not self._ended:
            return []
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake, 64)
        ended = []
        while self._ended:
            ended.append(self._ended.popleft())
        return ended

    def close(self) -> None:
        """An attempt that is still under way closes its socket itself when it ends."""
        with self._lock:
            self._closed = True
            os.close(self.wake)
            os.close(self._bell)
        for dialed in self._ended:
            if dialed.sock is not None:
                dialed.sock.close()

    def _work(self, address: Address) -> None:
        dialed = self._attempt(address)
        with self._lock:
            if not self._closed:
                self._ended.append(dialed)
                os.write(self._bell, b"!")
            elif dialed.sock is not None:
                dialed.sock.close()

    def _attempt(self, address: Address) -> Dialed:
        try:
            return Dialed(self._connect(address))
        except ssl.SSLCertVerificationError as error:
            why = (
                f"its certificate is not believed ({error.verify_message}): name the authority that signed it, with ca="
            )
            return Dialed(None, why, final=True)
        except ssl.SSLError as error:
            plain = error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")
            told = (
                "it does not speak TLS: write tcp:// instead of tcps://"
                if plain
                else f"TLS failed ({error.reason or error})"
            )
            return Dialed(None, told, final=plain)
        except OSError as error:
            return Dialed(None, error.strerror or str(error) or type(error).__name__)
        except UnicodeError:
            return Dialed(None, "that is no name of a machine: correct the address", final=True)

    def _connect(self, address: Address) -> socket.socket:
        sock = socket.create_connection((address.host, address.port), timeout=CONNECT_S)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE:
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=address.host)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return sock


def receive(sock: socket.socket, size_bytes: int) -> bytes | str | None:
    """What has come; None: nothing yet; a text: why nothing will any more. TLS may have more than ``select`` knows of:
    call it again until it is None."""
    try:
        return sock.recv(size_bytes) or "it closed the connection"
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    except OSError as error:
        return error.strerror or str(error)


def send(sock: socket.socket, out: bytes) -> bytes | str:
    """What is left to be sent; a text: why nothing can be sent any more."""
    try:
        return out[sock.send(out) :]
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return out
    except OSError as error:
        return error.strerror or str(error)


def detach(sock: socket.socket) -> None:
    """In a forked child: close our copy of the descriptor and nothing else. The parent goes on speaking through its
    own, so TLS is not told that anything ends."""
    fd = sock.detach()
    if fd >= 0:
        os.close(fd)
