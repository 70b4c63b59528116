"""Waiting for either of two keys of a TCPStore, over two connections, without a question when one of them has come.

The server ends a wait with one byte, which says nothing but that the key was touched. Where a key is created and
deleted and never swapped, that is enough: it came to exist. Two waits on one connection could not be told apart, hence
two. Each goes on from one call to the next for as long as the same key is wanted, and can be begun together with other
questions: then whoever waits sends nothing for it.
"""

from __future__ import annotations

import select
from typing import Any, Final

from quoracy.stores.tcpwire import CANCEL_WAIT, END_OF_WAIT, Query, Wire, begin_wait

_EVENTS: Final = select.POLLIN | select.POLLRDHUP


class Vigil:
    def __init__(self, first: Wire, second: Wire) -> None:
        self.lines = (first, second)
        self._awaited = ["", ""]
        """What each line waits for at the server; nothing if its wait has ended."""
        self._ended = [False, False]
        """Whether the byte that ended the last wait is still to be read."""
        self._ready = select.poll()
        for line in self.lines:
            self._ready.register(line.fileno(), _EVENTS)

    @property
    def good(self) -> bool:
        return self.lines[0].good and self.lines[1].good

    def ask(self, key: str, *queries: Query) -> list[Any]:
        """Ask, and begin to wait for the key as the first of two, in one trip."""
        return self._begin(0, key, *queries)

    def wait(self, key: str, other: str, timeout_s: float) -> str | None:
        """Which of them has come; None if the time is over. Raises Failed."""
        if self._awaited[0] != key:
            self._begin(0, key)
        if self._awaited[1] != other:
            self._begin(1, other)
        for which, line in enumerate(self.lines):
            if line.has_more():
                return self._end(which, select.POLLIN)
        for number, event in self._ready.poll(max(0.0, timeout_s) * 1000):
            return self._end(0 if number == self.lines[0].fileno() else 1, event)
        return None

    def _begin(self, which: int, key: str, *queries: Query) -> list[Any]:
        before = [END_OF_WAIT] if self._ended[which] else [CANCEL_WAIT] if self._awaited[which] else []
        self._ended[which], self._awaited[which] = False, key
        return self.lines[which].ask(*before, *queries, begin_wait(key))[len(before) : -1]

    def _end(self, which: int, event: int) -> str:
        key, self._awaited[which] = self._awaited[which], ""
        self._ended[which] = True
        if event != select.POLLIN:  # more than that byte, or less
            self.lines[which].ask(END_OF_WAIT)
            self._ended[which] = False
        return key

    def close(self) -> None:
        for line in self.lines:
            line.close()
