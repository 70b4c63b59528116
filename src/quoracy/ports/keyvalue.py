"""The key-value port: what a bare atomic store gives, and nothing else.

A journal needs one conditional write. Many stores that are no databases have one: PyTorch's TCPStore, etcd, Redis. This
port is what they share; ``stores.keyvalue`` builds journal, pulse and mailbox on it, so that an adapter is a few lines.

Every operation on one key is atomic: of two that meet, one happens before the other, and whoever comes later sees what
the earlier did. Every operation is acknowledged: when it returns, the store has done it. Nothing is promised across
keys, and nothing about durability beyond the store's own: an adapter says what its store survives.

How an operation may fail:

``OutcomeUnknown``  it was sent and no answer came: it may have happened, may happen later, or never. Only operations
                    that change something raise it.
``Unreachable``     nobody answers. The operation certainly did not happen.
``StoreLost``       another store answers than before. See ``guard``.

All of them are told in bounded time, also if the other side is merely silent.

Keys are 1 to 1,024 printable ASCII characters without spaces, values 1 byte to 1 MiB. A value is never empty, because
there are stores that take the empty value for a missing one. Anything else raises ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from quoracy.core.errors import JournalBroken, JournalBusy

MAX_KEY_BYTES = 1024
MAX_VALUE_BYTES = 1024 * 1024


class Unreachable(JournalBusy):
    """Nobody answers there. Nothing was done, so the same may be tried again."""

    code = "unreachable"


class StoreLost(JournalBroken):
    """The store that answers is not the one that was opened: it lost its memory, or it is another one. Whatever this
    process knows of it is void, and it must not write: an empty store would let it decide everything once more."""


Look = Callable[[str], bytes | None]
"""``get``, over a connection that nobody uses yet."""


class KeyValue(Protocol):
    def get(self, key: str) -> bytes | None:
        """What is stored, None if nothing is. Does not wait for the key. Atomic; changes nothing."""

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """``get`` of each, one after the other in this order or all in one moment. Changes nothing."""

    def create(self, key: str, value: bytes) -> bytes:
        """Set if absent. Returns what is stored then: ``value`` if this call won, but equal bytes of somebody else look
        the same. Atomic, acknowledged."""

    def create_then_get(self, key: str, value: bytes, other: str) -> tuple[bytes, bytes | None]:
        """``create``, and afterwards ``get`` of another key, in one trip where that is possible. Once the first may
        have happened, *nothing was done* is not said any more."""

    def swap(self, key: str, expected: bytes, value: bytes) -> bytes | None:
        """Replace ``expected`` by ``value``. Returns what is stored then; None if there is no such key, which is never
        created. Atomic, acknowledged."""

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return its new value; a missing one is 0. Adding 0 only reads. Atomic, acknowledged. A
        counter's key is used with ``add``, ``delete`` and reading only: a counter is read as a decimal number."""

    def append_then_get(self, key: str, value: bytes, others: Sequence[str], awaits: str = "") -> list[bytes | None]:
        """Put the value behind those that are stored there, if any, and afterwards ``get_many``, in one trip where that
        is possible. The first is atomic. Acknowledged: if it returns, all of it has happened. ``awaits``: for which key
        the caller is going to ``wait_either``, as the first, so that some stores begin with it in the same trip."""

    def delete(self, key: str) -> bool:
        """Remove the key; False if it was not there. Atomic, acknowledged."""

    def wait(self, key: str, timeout_s: float) -> bool:
        """Block until the key exists or the time is over; whether it exists. With 0 a plain question. Holds up no other
        call on this handle."""

    def fetch(self, keys: Sequence[str], timeout_s: float) -> list[bytes | None]:
        """Block until the first key exists or the time is over, then ``get_many``. Holds up no other call either."""

    def announce(self, key: str) -> None:
        """Create the key, if it is not there, for those who wait for it. The one operation that is not acknowledged: it
        may never happen, and nobody is told."""

    def wait_either(self, key: str, other: str, timeout_s: float) -> str | None:
        """Block until one of both keys exists or the time is over; which one, and None if neither. Both must be keys
        that are announced and deleted, and nothing else: so some stores need not look whether it is there. Holds up no
        other call either."""

    def guard(self, check: Callable[[Look], None]) -> None:
        """Have ``check`` look at the store now, and again over every new connection before anything else goes over it.
        What it raises goes to whoever made the call that needed the connection, which then has not happened."""

    def close(self) -> None:
        """Let go of everything. A second close is fine; any other call after it raises ``ValueError``."""
