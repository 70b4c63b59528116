"""How much one identity may send, and how often it may be connected. Pure: time is an argument.

Everyday analogy: a bucket with a hole. What is sent is poured in, the hole lets a steady stream out, and what would
make it run over is refused and not poured in. The size of the bucket is the burst, the hole is the rate.

One bucket counts messages and one counts bytes. All numbers are whole (a message is a million drops, and a rate of r
per second lets r drops out in a microsecond), so the limit is exact and no rounding adds up.

``spend`` is called for every read of every connection and does little: one lookup, two subtractions, two comparisons.
"""

from __future__ import annotations

from typing import Final

from quoracy.config import ConnectionLimits
from quoracy.core.codec import MICROSECONDS, said_s
from quoracy.core.errors import AWHILE_S, Refusal

MAX_IDLE: Final = 4096
"""Identities without a connection whose buckets are kept, so that connecting anew does not empty a full bucket."""


class _Account:
    __slots__ = ("at_us", "connections", "drops", "message_drops")

    def __init__(self, now_us: int) -> None:
        self.connections = 0
        self.at_us = now_us
        self.message_drops = 0
        self.drops = 0


class Meter:
    __slots__ = (
        "_accounts", "_byte_room", "_bytes_per_s", "_connections", "_idle", "_limits", "_message_room",
        "_messages_per_s",
    )  # fmt: skip

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self._limits = limits = limits or ConnectionLimits()
        self._messages_per_s = limits.messages_per_s
        self._message_room = limits.burst_messages * MICROSECONDS
        self._bytes_per_s = limits.bytes_per_s
        self._byte_room = limits.burst_bytes * MICROSECONDS
        self._accounts: dict[str, _Account] = {}
        self._idle: dict[str, None] = {}
        self._connections = 0

    def connect(self, identity: str, now_us: int) -> Refusal | None:
        """None: it is counted, and ``disconnect`` must follow. A refused one is not counted."""
        limits = self._limits
        if self._connections >= limits.max_connections:
            why = f"the server has its {limits.max_connections} connections"
            return Refusal("too_fast", why, "try again later, or raise limits.max_connections", AWHILE_S)
        account = self._accounts.get(identity)
        if account is None:
            account = self._accounts[identity] = _Account(now_us)
        elif account.connections >= limits.max_connections_per_identity:
            why = f"{identity} has its {limits.max_connections_per_identity} connections"
            return Refusal("too_fast", why, "close some, or raise limits.max_connections_per_identity", AWHILE_S)
        self._idle.pop(identity, None)
        account.connections += 1
        self._connections += 1
        return None

    def disconnect(self, identity: str) -> None:
        """After a ``connect`` that was not refused, once."""
        account = self._accounts[identity]
        account.connections -= 1
        self._connections -= 1
        if account.connections == 0:
            self._idle[identity] = None
            if len(self._idle) > MAX_IDLE:
                oldest = next(iter(self._idle))
                del self._idle[oldest], self._accounts[oldest]

    def spend(self, identity: str, messages: int, size_bytes: int, now_us: int) -> Refusal | None:
        """None: it fits and is counted. Only for identities that are connected."""
        account = self._accounts[identity]
        past_us = now_us - account.at_us
        message_drops = account.message_drops - past_us * self._messages_per_s
        drops = account.drops - past_us * self._bytes_per_s
        message_drops = (message_drops if message_drops > 0 else 0) + messages * 1_000_000
        drops = (drops if drops > 0 else 0) + size_bytes * 1_000_000
        if message_drops > self._message_room or drops > self._byte_room:
            return self._too_fast(identity, messages, size_bytes, now_us)
        account.message_drops = message_drops
        account.drops = drops
        account.at_us = now_us
        return None

    def wait_us(self, identity: str, messages: int, size_bytes: int, now_us: int) -> int:
        """How long until this would fit: what a door may wait before it reads on. What never fits waits for an empty
        bucket."""
        account = self._accounts[identity]
        past_us = max(0, now_us - account.at_us)
        over = account.message_drops + messages * MICROSECONDS - self._message_room
        over_bytes = account.drops + size_bytes * MICROSECONDS - self._byte_room
        over = min(over, account.message_drops)
        over_bytes = min(over_bytes, account.drops)
        return max(0, -(-over // self._messages_per_s) - past_us, -(-over_bytes // self._bytes_per_s) - past_us)

    def connections(self, identity: str | None = None) -> int:
        """Of one identity, or of all."""
        if identity is None:
            return self._connections
        account = self._accounts.get(identity)
        return 0 if account is None else account.connections

    def _too_fast(self, identity: str, messages: int, size_bytes: int, now_us: int) -> Refusal:
        limits = self._limits
        why = (
            f"{identity} sends more than {limits.messages_per_s} messages or {limits.bytes_per_s} bytes a second"
            f" ({limits.burst_messages} or {limits.burst_bytes} at once)"
        )
        wait_us = self.wait_us(identity, messages, size_bytes, now_us)
        return Refusal("too_fast", why, f"wait {said_s(wait_us)} and send less, or raise the limits", wait_us / 1e6)
