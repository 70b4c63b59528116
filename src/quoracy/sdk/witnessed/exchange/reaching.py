"""Reaching others before anything is wanted of them: each is dialled, proves its key, and the connection is kept.

A few at a time, and all within ``reach_s``: whoever was not reached by then is named. One that refuses may not have
been told yet who the others are, so it is tried again for a while.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final

from quoracy.sdk.witnessed.exchange.channel import Broken
from quoracy.sdk.witnessed.exchange.limits import Limits
from quoracy.sdk.witnessed.exchange.links import Links
from quoracy.sdk.witnessed.exchange.port import OnTried

AT_ONCE: Final = 16
PAUSE_S: Final = 0.25
AGAIN_S: Final = 2.0
"""So long after it was first tried, and no longer: one that did not answer for that long does not the next time."""


class Reaching:
    """One attempt at all of them. Its threads end with it."""

    def __init__(self, links: Links, peers: tuple[str, ...], limits: Limits, on_tried: OnTried) -> None:
        self._links = links
        self._reach_s = limits.reach_s
        self._on_tried = on_tried
        self._todo = deque((0.0, peer) for peer in dict.fromkeys(peers))
        """Not before when, and whom."""
        self._unreached = dict.fromkeys(peers, "it did not answer in time")
        self._since_s: dict[str, float] = {}
        """When each was first tried."""
        self._left = set(peers)
        """Of whom it is not settled yet whether they can be reached."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._closed = False

    def begin(self) -> None:
        threading.Thread(target=self._run, name="quoracy-reach", daemon=True).start()

    def close(self) -> None:
        """``on_tried`` is not called any more."""
        self._closed = True
        self._stop.set()

    def _run(self) -> None:
        if not self._left:
            self._stop.set()
        for number in range(min(AT_ONCE, len(self._left))):
            threading.Thread(target=self._dial, name=f"quoracy-reach-{number}", daemon=True).start()
        self._stop.wait(self._reach_s)
        self._stop.set()
        with self._lock:
            unreached = dict(self._unreached)
        if not self._closed:
            self._on_tried(unreached)

    def _dial(self) -> None:
        """A thread goes on until nothing is to be done: whatever is tried again is put back by one that goes on."""
        while (peer := self._next()) is not None:
            try:
                self._links.reach(peer)
                why = ""
            except Broken as error:
                why = str(error)
            self._settle(peer, why)

    def _next(self) -> str | None:
        with self._lock:
            if self._stop.is_set() or not self._todo:
                return None
            due_s, peer = self._todo.popleft()
        if self._stop.wait(max(0.0, due_s - time.monotonic())):
            return None
        with self._lock:
            self._since_s.setdefault(peer, time.monotonic())
        return peer

    def _settle(self, peer: str, why: str) -> None:
        now_s = time.monotonic()
        with self._lock:
            if why and now_s + PAUSE_S < self._since_s[peer] + AGAIN_S:
                self._unreached[peer] = why
                self._todo.append((now_s + PAUSE_S, peer))
                return
            if why:
                self._unreached[peer] = why
            else:
                del self._unreached[peer]
            self._left.discard(peer)
            if not self._left:
                self._stop.set()
