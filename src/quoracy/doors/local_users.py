"""Whose socket is at the other end of a loopback connection. The kernel tells: every user of a machine can reach its
loopback ports, and only the server's own user may do without a token there.

The question is put to the kernel by netlink (``sock_diag``): one socket by its two addresses, about 5 µs, however many
there are. Where that is not to be had, such as in a sandbox that forbids netlink, the tables in ``/proc/net`` are read,
which takes longer the more sockets there are. Where neither answers, nobody comes in without a token.

What the answer is worth:

- A socket belongs to the user that made it, by its number as seen from the server's user namespace. Root is a user like
  any other: root of another container that shares this network cannot read the server's files, and needs a token too.
  Containers that share a network and run under the same number are one user to the kernel: give those tokens.
- Users whom the namespace has no number for are all shown as the overflow user, ``nobody``. A server that runs as that
  user, in a namespace that does not map all numbers, cannot tell itself from them, and lets nobody in without a token.
- A socket that nobody holds any more is shown as root's by many kernels: whoever connects, asks and closes at once
  would pass for root. So a socket counts only while a process holds it, which its inode tells.
- Between the question and the connection there must be no time in which the port could go to somebody else: a door asks
  when it accepts the connection, and keeps the answer with it. gRPC shows no connections, so there each call asks.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cache, lru_cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from quoracy.core.errors import Refusal

FIX: Final = "show a token (quoracy token new), or let every user of this machine in with --insecure"

_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ANY_STATE: Final = 0xFFFFFFFF
_NO_COOKIE: Final = struct.pack("=IQ", 0, 2**64 - 1)
_HEAD: Final = struct.Struct("=IHHII")
_PORTS: Final = struct.Struct("!HH")
_UID_INODE: Final = struct.Struct("=II")
_SORT: Final = slice(4, 6)
_FOUND: Final = struct.pack("=H", _BY_FAMILY)
_ENDS: Final = slice(_HEAD.size + 4, _HEAD.size + 40)
_UID_AT: Final = _HEAD.size + 64
_ROOM_BYTES: Final = 512
"""For an answer, or for an error with the question in it. What does not fit is cut off, and is not needed."""
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""Before an IPv4 address in a socket that speaks both."""
UID_MAP: Final = Path("/proc/self/uid_map")
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class Place(NamedTuple):
    """One end of a connection. An IPv4 address is four bytes, however it was written."""

    address: bytes
    port: int


Look = Callable[[Place, Place], int | None]
"""The uid that holds the socket from the first place to the second; None if no process holds such a one."""


@lru_cache(maxsize=8192)
def place_of(name: Any) -> Place | None:
    """Of what a socket calls its end; None where that is no address, as of a socket in the file system."""
    try:
        address, port = ip_address(name[0].partition("%")[0]), int(name[1])
    except (ValueError, TypeError, IndexError, AttributeError):
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return Place(address.packed, port)


class Netlink:
    """Asks the kernel for one socket. Raises OSError where that is not possible."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)

    def __call__(self, peer: Place, here: Place) -> int | None:
        """The kernel has answered before send returns. It falls back to whoever listens on that port: only the very
        connection counts."""
        question, ends = _question(peer, here)
        self._socket.send(question)
        answer = self._socket.recv(_ROOM_BYTES, socket.MSG_DONTWAIT)
        if answer[_ENDS] not in ends or answer[_SORT] != _FOUND:
            return None
        uid, inode = _UID_INODE.unpack_from(answer, _UID_AT)
        return uid if inode else None

    def close(self) -> None:
        self._socket.close()


@lru_cache(maxsize=4096)
def _question(peer: Place, here: Place) -> tuple[bytes, tuple[bytes, ...]]:
    """The message, and how an answer about that socket names its ends: one that speaks both families is of the wider
    one. Kept, because over gRPC the same connection is asked about again and again."""
    narrow = len(peer.address) == 4
    family = socket.AF_INET if narrow else socket.AF_INET6
    ends = _ends(peer, here, b"")
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + ends + _NO_COOKIE
    question = _HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _REQUEST, 0, 0) + body
    return question, (ends, _ends(peer, here, _MAPPED)) if narrow else (ends,)


def _ends(peer: Place, here: Place, prefix: bytes) -> bytes:
    addresses = [(prefix + place.address).ljust(16, b"\0") for place in (peer, here)]
    return _PORTS.pack(peer.port, here.port) + b"".join(addresses)


def read_tables(peer: Place, here: Place) -> int | None:
    """The same from /proc/net. Raises OSError where there is none."""
    wanted = _written(peer) + b" " + _written(here) + b" "
    mapped = len(peer.address) == 4
    if not mapped:
        return _find(_TABLES[1].read_bytes(), wanted)
    found = _find(_TABLES[0].read_bytes(), wanted)
    if found is None:
        with suppress(OSError):
            wide = [Place(_MAPPED + place.address, place.port) for place in (peer, here)]
            found = _find(_TABLES[1].read_bytes(), b" ".join([*map(_written, wide), b""]))
    return found


def _written(place: Place) -> bytes:
    """As the tables have it: words of 32 bits in the order of this machine, in hex."""
    words = struct.unpack(f"={len(place.address) // 4}I", place.address)
    return b"%s:%04X" % (b"".join(b"%08X" % word for word in words), place.port)


def _find(table: bytes, wanted: bytes) -> int | None:
    at = table.find(b": " + wanted)
    if at < 0:
        return None
    end = table.find(b"\n", at)
    columns = table[at + 2 + len(wanted) : end if end >= 0 else None].split()
    uid, inode = int(columns[4]), int(columns[6])
    return uid if inode else None


@cache
def own_uid() -> int:
    """Of the server."""
    return os.geteuid()


class LocalUsers:
    """Who may come in without a token: the server's own user, on this machine."""

    def __init__(self) -> None:
        self._netlink: Netlink | None = None
        self._look: Look | None = None
        self.blind = ""
        """Why it cannot tell, if it cannot."""
        with suppress(OSError):
            self._netlink = Netlink()
        for look in (self._netlink, read_tables):
            if look is not None and _sees_itself(look):
                self._look = look
                break
        else:
            self.blind = "this system does not tell whose sockets are whose"
        if not self.blind and _ambiguous():
            self.blind = "this server runs as the user that stands for all users whom its namespace does not know"

    def stranger(self, peer: Any, here: Any) -> Refusal | None:
        """None: the connection between these is one of the server's own user. ``peer`` and ``here`` as a socket
        names its ends, seen from the server."""
        if self.blind or self._look is None:
            return Refusal("bad_token", f"no token came, and {self.blind}", FIX)
        uid = self._uid(self._look, peer, here)
        if uid == own_uid():
            return None
        if uid is None:
            why = "no token came, and nobody holds the other end of this connection any more"
            return Refusal("bad_token", why, "connect again and stay connected; or " + FIX)
        why = f"no token came, and this connection is one of user {uid}, while the server runs as user {own_uid()}"
        return Refusal("bad_token", why, FIX)

    def _uid(self, look: Look, peer: Any, here: Any) -> int | None:
        there, place = place_of(peer), place_of(here)
        if there is None or place is None:
            return None
        try:
            return look(there, place)
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()


def _sees_itself(look: Look) -> bool:
    """Whether a connection of this very process is recognised."""
    try:
        with ExitStack() as stack:
            listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
            client = stack.enter_context(closing(socket.create_connection(listener.getsockname(), timeout=5)))
            peer, here = place_of(client.getsockname()), place_of(listener.getsockname())
            return peer is not None and here is not None and look(peer, here) == os.geteuid()
    except (OSError, ValueError, IndexError):
        return False


def _ambiguous() -> bool:
    """Whether others may be shown under our own number."""
    try:
        overflow = int(Path("/proc/sys/kernel/overflowuid").read_text())
        first, _, length = UID_MAP.read_text().split()[:3]
    except (OSError, ValueError):
        return own_uid() == 65534
    return own_uid() == overflow and not (int(first) == 0 and int(length) >= 2**32 - 1)
