"""A key-value store in memory: for tests, and for stores built on the port.

A ``Rack`` is what a server is to the others: several handles on one rack are several processes on one server.
``Rack.lose`` is the death of such a server and the birth of an empty one at the same address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition
from time import monotonic

from quoracy.ports.keyvalue import Look
from quoracy.stores.keyvalue.keys import checked_key, checked_value


class Rack:
    def __init__(self) -> None:
        self.changed = Condition()
        self.values: dict[str, bytes] = {}
        self.life = 0
        """Grows when the rack forgets: to the handles that is a lost connection and a new one."""

    def lose(self) -> None:
        with self.changed:
            self.values.clear()
            self.life += 1


class MemoryKeyValue:
    def __init__(self, rack: Rack | None = None) -> None:
        self.rack = rack or Rack()
        self._closed = False
        self._check: Callable[[Look], None] | None = None
        self._life = self.rack.life

    def get(self, key: str) -> bytes | None:
        with self._open():
            return self.rack.values.get(checked_key(key))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        with self._open():
            return [self.rack.values.get(checked_key(key)) for key in keys]

    def create(self, key: str, value: bytes) -> bytes:
        with self._open():
            stored = self.rack.values.setdefault(checked_key(key), checked_value(value))
            self.rack.changed.notify_all()
            return stored

    def create_then_get(self, key: str, value: bytes, other: str) -> tuple[bytes, bytes | None]:
        with self._open():
            stored = self.rack.values.setdefault(checked_key(key), checked_value(value))
            self.rack.changed.notify_all()
            return stored, self.rack.values.get(checked_key(other))

    def swap(self, key: str, expected: bytes, value: bytes) -> bytes | None:
        with self._open():
            stored = self.rack.values.get(checked_key(key))
            if stored is None or stored != checked_value(expected):
                return stored
            self.rack.values[key] = checked_value(value)
            return value

    def add(self, key: str, amount: int) -> int:
        with self._open():
            counted = int(self.rack.values.get(checked_key(key), b"0")) + amount
            self.rack.values[key] = b"%d" % counted
            self.rack.changed.notify_all()
            return counted

    def append_then_get(self, key: str, value: bytes, others: Sequence[str], awaits: str = "") -> list[bytes | None]:
        checked_key(awaits or key)
        wanted = [checked_key(other) for other in others]
        with self._open():
            self.rack.values[checked_key(key)] = self.rack.values.get(key, b"") + checked_value(value)
            self.rack.changed.notify_all()
            return [self.rack.values.get(other) for other in wanted]

    def delete(self, key: str) -> bool:
        with self._open():
            return self.rack.values.pop(checked_key(key), None) is not None

    def wait(self, key: str, timeout_s: float) -> bool:
        checked_key(key)
        deadline = monotonic() + timeout_s
        with self._open():
            while key not in self.rack.values and (left_s := deadline - monotonic()) > 0:
                self.rack.changed.wait(left_s)
                self._open()
            return key in self.rack.values

    def fetch(self, keys: Sequence[str], timeout_s: float) -> list[bytes | None]:
        self.wait(keys[0], timeout_s)
        return self.get_many(keys)

    def announce(self, key: str) -> None:
        self.create(key, b"1")

    def wait_either(self, key: str, other: str, timeout_s: float) -> str | None:
        wanted = [checked_key(key), checked_key(other)]
        deadline = monotonic() + timeout_s
        with self._open():
            while True:
                there = next((each for each in wanted if each in self.rack.values), None)
                if there is not None or (left_s := deadline - monotonic()) <= 0:
                    return there
                self.rack.changed.wait(left_s)
                self._open()

    def guard(self, check: Callable[[Look], None]) -> None:
        with self._open():
            self._check = check
            check(self.rack.values.get)

    def close(self) -> None:
        with self.rack.changed:
            self._closed = True
            self.rack.changed.notify_all()

    def _open(self) -> Condition:
        """The rack's lock, for whoever may still use this handle."""
        if self._closed:
            raise ValueError("this store is closed")
        if self._life != self.rack.life:
            if self._check is not None:
                self._check(self.rack.values.get)
            self._life = self.rack.life
        return self.rack.changed
