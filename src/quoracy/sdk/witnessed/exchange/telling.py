"""Announcements: small, to all peers, best effort.

Each peer has a short queue of its own and is told by one thread at a time. One that cannot be told is left alone for a
while, so that the others do not wait for it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from typing import Final

from quoracy.core.backoff import Backoff, Waits
from quoracy.sdk.witnessed.exchange.channel import Broken
from quoracy.sdk.witnessed.exchange.figures import Figures
from quoracy.sdk.witnessed.exchange.known import Known
from quoracy.sdk.witnessed.exchange.links import Links
from quoracy.sdk.witnessed.exchange.pool import Pool
from quoracy.sdk.witnessed.exchange.wire import MAX_ANNOUNCED

log = logging.getLogger("quoracy")
THREADS: Final = 8
WAITING: Final = 64
"""For one peer; the oldest go."""
WAITS: Final = Waits(first_us=500_000, longest_us=30_000_000)


class Queue:
    def __init__(self) -> None:
        self.payloads: deque[bytes] = deque(maxlen=WAITING)
        self.busy = False
        self.backoff = Backoff(WAITS)
        self.not_before_s = 0.0


class Telling:
    def __init__(self, known: Known, links: Links, figures: Figures) -> None:
        self._known = known
        self._links = links
        self._figures = figures
        self._queues: dict[str, Queue] = {}
        self._lock = threading.Lock()
        self._pool = Pool(THREADS, "quoracy-tell")
        self._closed = False

    def announce(self, payload: bytes) -> None:
        if len(payload) > MAX_ANNOUNCED:
            raise ValueError(f"payload = {len(payload)} bytes: at most {MAX_ANNOUNCED}; offer a blob and announce that")
        peers = [peer.member for peer in self._known.all() if peer.addresses and peer.key]
        starting, now_s = [], time.monotonic()
        with self._lock:
            if self._closed:
                return
            for member in self._queues.keys() - set(peers):
                del self._queues[member]
            for member in peers:
                queue = self._queues.setdefault(member, Queue())
                if now_s < queue.not_before_s:
                    self._figures.add("not_told")
                    continue
                queue.payloads.append(payload)
                if not queue.busy:
                    queue.busy = True
                    starting.append((member, queue))
            for member, queue in starting:
                self._pool.submit(self._tell, member, queue)

    def _tell(self, member: str, queue: Queue) -> None:
        while True:
            with self._lock:
                if not queue.payloads or self._closed:
                    queue.busy = False
                    return
                payload = queue.payloads.popleft()
            try:
                self._links.tell(member, payload)
            except Broken as error:
                log.debug("%s: not told: %s", self._known.member, error)
                self._rest(queue)
            else:
                self._figures.add("told")
                queue.backoff.succeeded(0)

    def _rest(self, queue: Queue) -> None:
        with self._lock:
            self._figures.add("not_told", 1 + len(queue.payloads))
            queue.payloads.clear()
            now_s = time.monotonic()
            queue.not_before_s = now_s + queue.backoff.failed_s(now_s, random.SystemRandom().random())

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._pool.close()
