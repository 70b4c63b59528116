"""The wire of PyTorch's TCPStore: one connection, in the caller's thread, which never blocks for ever.

torch's own client blocks for ever where a server is merely silent, makes two trips of every ``get``, waits for a
missing key, and prints warnings when a wait is over. So Quoracy speaks to the server itself. A query is one byte and
its fields, in the byte order of the machine; strings carry their length in eight bytes; every key begins with a slash,
as torch's client has it. Answers come in the order of the queries, so several may be sent at once: that is one trip.

``tests/stores/test_tcpwire.py`` tries it on the servers that torch has, with the queries that are used here.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Sequence
from struct import Struct
from time import monotonic
from typing import Any, Final

_VALIDATE, _SET, _COMPARE_SET, _ADD, _CHECK, _WAIT, _DELETE, _APPEND, _MULTI_GET, _CANCEL, _PING = (
    bytes([number]) for number in (0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13)
)
_MAGIC: Final = 0x3C85F7CE
_U32, _U64, _I64 = Struct("=I"), Struct("=Q"), Struct("=q")
_size_at: Final = _U64.unpack_from
_TIMEOUT: Final = Struct("@ll")
_ONE: Final = _U64.pack(1)
_CHUNK: Final = 1 << 13
"""More than most answers, and little enough to be had at once. A long answer is read in larger ones."""
_LARGE: Final = 1 << 20
_SLICE_S: Final = 0.25
"""After which the kernel lets a read that has got nothing look at the clock. A wait that is shorter asks it first."""
_CANCELED: Final = b"\1"


class Failed(Exception):
    """The connection is of no use any more. What was asked last may have been done nevertheless."""


class HungUp(Failed):
    """The other side has ended it."""


class Query:
    """What to send, and how to read the answer."""

    __slots__ = ("read", "said")

    def __init__(self, said: bytes, read: Callable[[Wire], Any]) -> None:
        self.said = said
        self.read = read


def compare_set(key: str, expected: bytes, value: bytes) -> Query:
    """-> what is stored then; ``expected`` if there is no such key, unless that is empty: then the value is set."""
    said = (_COMPARE_SET, _key(key), _U64.pack(len(expected)), expected, _U64.pack(len(value)), value)
    return Query(b"".join(said), Wire.read_value)


def add(key: str, amount: int) -> Query:
    return Query(_ADD + _key(key) + _I64.pack(amount), Wire.read_number)


def append(key: str, value: bytes) -> Query:
    """Not answered: done when a later query over the same connection is."""
    return Query(_APPEND + _key(key) + _U64.pack(len(value)) + value, lambda _wire: None)


def put(key: str, value: bytes) -> Query:
    """Whatever is there. Not answered either."""
    return Query(_SET + _key(key) + _U64.pack(len(value)) + value, lambda _wire: None)


def check(key: str) -> Query:
    return Query(_CHECK + _ONE + _key(key), lambda wire: wire.read(1) == b"\0")


def delete(key: str) -> Query:
    return Query(_DELETE + _key(key), lambda wire: wire.read_number() > 0)


def multi_get(keys: Sequence[str]) -> Query:
    """-> the values, all of one moment. For a missing key the usual server says nothing, in no bytes; the older one
    hangs up."""
    said = b"".join([_MULTI_GET, _U64.pack(len(keys)), *map(_key, keys)])
    return Query(said, lambda wire: wire.read_values(len(keys)))


def begin_wait(key: str) -> Query:
    """Answered by one byte, when somebody has touched the key, behind what else was asked before. Then ``END_OF_WAIT``
    is to be asked next, or ``CANCEL_WAIT`` if that is not known."""
    return Query(_WAIT + _ONE + _key(key), lambda _wire: None)


def _key(key: str) -> bytes:
    said = b"/" + key.encode()
    return _U64.pack(len(said)) + said


class Wire:
    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        """Raises Failed if nobody who speaks like a TCPStore answers in time."""
        self.good = True
        self._timeout_s = timeout_s
        self._there = b""
        self._at = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise Failed(str(error)) from None
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        slices_s = {socket.SO_RCVTIMEO: min(_SLICE_S, timeout_s), socket.SO_SNDTIMEO: timeout_s}
        for option, slice_s in slices_s.items():  # the kernel's: they cost nothing where there is an answer
            self._socket.setsockopt(socket.SOL_SOCKET, option, _TIMEOUT.pack(int(slice_s), round(slice_s % 1 * 1e6)))
        nonce = os.urandom(4)
        hello = Query(_VALIDATE + _U32.pack(_MAGIC) + _PING + nonce, lambda wire: wire.read(4))
        if self.ask(hello) != [nonce]:
            self.close()
            raise Failed("what answers there is no TCPStore")

    def ask(self, *queries: Query) -> list[Any]:
        """Send all of them, then read the answers."""
        self._send(b"".join([query.said for query in queries]))
        return [query.read(self) for query in queries]

    def wait(self, key: str, timeout_s: float) -> bool:
        """Until somebody has touched the key, which may be there then; False if the time is over. A server that has
        died is noticed at once, one that is silent when the time is over."""
        deadline_s = monotonic() + timeout_s
        self.ask(begin_wait(key))
        while not self.has_more():
            left_s = deadline_s - monotonic()
            if left_s < _SLICE_S and not self._ready(max(0.0, left_s)):
                self.ask(CANCEL_WAIT)
                return False
            self._receive_some(_CHUNK)
        self.ask(END_OF_WAIT)
        return True

    def has_more(self) -> bool:
        """Whether something has been received that nobody has read yet."""
        return len(self._there) > self._at

    def fileno(self) -> int:
        return self._socket.fileno()

    def _ready(self, timeout_s: float) -> bool:
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1000))

    # -- bytes --------------------------------------------------------------------------------------------------------

    def read_value(self) -> bytes:
        return self.read(_U64.unpack(self.read(8))[0])

    def read_values(self, count: int) -> list[bytes]:
        """Several at once, as long as they have been received already: most of what is read is read here."""
        if not self.has_more():
            self._receive(8)
        there, at, found = self._there, self._at, list[bytes]()
        while len(found) < count and at + 8 <= len(there):
            begin = at + 8
            end = begin + _size_at(there, at)[0]
            if end > len(there):
                break
            found.append(there[begin:end])
            at = end
        self._at = at
        while len(found) < count:
            found.append(self.read_value())
        return found

    def read_number(self) -> int:
        number: int = _I64.unpack(self.read(8))[0]
        return number

    def read(self, size_bytes: int) -> bytes:
        end = self._at + size_bytes
        if len(self._there) < end:
            self._receive(size_bytes)
            end = size_bytes
        found = self._there[self._at : end]
        self._at = end
        return found

    def _receive(self, size_bytes: int) -> None:
        """At least so many, which are not there yet."""
        deadline_s = monotonic() + self._timeout_s
        if not self.has_more():
            self._receive_some(max(_CHUNK, min(size_bytes, _LARGE)))
            if len(self._there) >= size_bytes:
                return
        chunks, missing = [self._there[self._at :]], size_bytes - len(self._there) + self._at
        self._there, self._at = b"", 0
        while missing > 0:
            self._receive_some(max(_CHUNK, min(missing, _LARGE)))
            if not self._there and monotonic() >= deadline_s:
                raise self._broken(f"no answer within {self._timeout_s:g} s")
            chunks.append(self._there)
            missing -= len(self._there)
            self._there = b""
        self._there = b"".join(chunks)

    def _receive_some(self, most_bytes: int) -> None:
        """Nothing, if nothing comes in a while."""
        try:
            self._there = self._socket.recv(most_bytes)
        except BlockingIOError:
            self._there = b""
            return
        except ConnectionResetError as error:
            self.close()
            raise HungUp(str(error)) from None
        except OSError as error:
            raise self._broken(str(error)) from None
        finally:
            self._at = 0
        if not self._there:
            self.close()
            raise HungUp("the server has hung up")

    def _send(self, said: bytes) -> None:
        if not self.good:
            raise Failed("the connection was lost before")
        try:
            self._socket.sendall(said)
        except BlockingIOError:
            raise self._broken(f"nothing taken within {self._timeout_s:g} s") from None
        except OSError as error:
            raise self._broken(str(error)) from None

    def _broken(self, why: str) -> Failed:
        self.close()
        return Failed(why)

    def hang_up(self) -> None:
        """From another thread: whoever waits for an answer here is told that there will be none."""
        self.good = False
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        self.good = False
        self._socket.close()

    def read_canceled(self) -> None:
        while self.read(1) != _CANCELED:  # the key had been touched before
            pass


CANCEL_WAIT: Final = Query(_CANCEL, Wire.read_canceled)
END_OF_WAIT: Final = Query(b"", lambda wire: wire.read(1))
