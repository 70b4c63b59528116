"""A thread that writes and hashes while its owner calculates.

For one owner. What it is given is gathered in stretches of a megabyte first: two threads of Python that hand each other
many small pieces wait for each other more than they gain.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final

STRETCH_BYTES: Final = 1024 * 1024
ROOMS: Final = 3
"""Stretches: one is gathered, one is written, one is between them."""


class Behind:
    def __init__(self, write: Callable[[memoryview, int], None]) -> None:
        self._write = write
        self._free: SimpleQueue[memoryview] = SimpleQueue()
        for _ in range(ROOMS):
            self._free.put(memoryview(bytearray(STRETCH_BYTES)))
        self._full: SimpleQueue[tuple[memoryview, int, int] | None] = SimpleQueue()
        self._room = self._free.get()
        self._at = self._held_bytes = 0
        """Where in the file the stretch that is gathered begins, and how much there is of it."""
        self._failed: Exception | None = None
        self._thread = Thread(target=self._work, name="quoracy-write", daemon=True)
        self._thread.start()

    def give(self, raw: memoryview, at: int) -> None:
        """These bytes are copied. Raises what went wrong with those before."""
        while raw:
            if at != self._at + self._held_bytes or self._held_bytes == STRETCH_BYTES:
                self._pass_on()
                self._at = at
            count = min(len(raw), STRETCH_BYTES - self._held_bytes)
            self._room[self._held_bytes : self._held_bytes + count] = raw[:count]
            self._held_bytes += count
            raw, at = raw[count:], at + count

    def _pass_on(self) -> None:
        if self._held_bytes:
            self._full.put((self._room, self._at, self._held_bytes))
            self._room = self._free.get()
            self._held_bytes = 0
        if self._failed is not None:
            raise self._failed

    def finish(self) -> None:
        """Everything is written. Raises what went wrong."""
        self._pass_on()
        self.stop()
        self._pass_on()

    def stop(self) -> None:
        """What was gathered and not passed on yet is dropped."""
        if self._thread.is_alive():
            self._full.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (stretch := self._full.get()) is not None:
            room, at, count = stretch
            try:
                if self._failed is None:
                    self._write(room[:count], at)
            except Exception as error:  # told to the owner
                self._failed = error
            self._free.put(room)
