"""A companion for scripts that block. Any number of threads may use it.

No thread of its own: whoever waits reads the socket, for itself and for all others who wait. One reads, the others
sleep until it has read something; when it has what it wanted, the next one takes over.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import TypeVar

from quoracy.sdk.companion import CHUNK, WATCH_S, Companion, M
from quoracy.sdk.flowing import Flow

T = TypeVar("T")


class Waiting(Companion[M]):
    def __init__(self, mirror: M) -> None:
        self._news = threading.Condition(threading.Lock())
        self._reading = False
        self._torn = False
        """A read was interrupted, as by Ctrl-C, and what it had read may be lost: begin again with a new sidecar."""
        super().__init__(mirror)

    def _end(self) -> None:
        with self._news:
            while self._reading:
                self._ring()
                self._news.wait()
            self._mirror.bye()
            self._flush(self._child)
            self._child.wait(self._mirror.settings.patience.leave_s)
            self._release()

    def _run(self, flow: Flow[T]) -> T:
        self._check_process()
        try:
            with self._news:
                return self._drive(flow)
        finally:
            if not self._closed:
                self._deliver()

    def _drive(self, flow: Flow[T]) -> T:
        self._take_in(0.0)
        try:
            while True:
                until = next(flow)
                self._flush(self._child)
                self._wait(self._mirror.version, until)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            flow.close()

    def _refresh(self) -> None:
        self._check_process()
        with self._news:
            self._take_in(0.0)

    def _glance(self) -> None:
        if self._news.acquire(blocking=False):
            try:
                self._take_in(0.0)
            finally:
                self._news.release()

    def _wait(self, version: int, until: float | None) -> None:
        """Until something was fed. The lock is held here, and given away while anybody waits."""
        while self._mirror.version == version:
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            if self._reading:
                self._news.wait(left_s)
            else:
                self._take_in(WATCH_S if left_s is None else min(WATCH_S, left_s))

    def _take_in(self, wait_s: float) -> None:
        """Read what there is, waiting for it at most so long. Nothing to do if another thread reads."""
        if self._reading or self._released or self._child.sock.fileno() < 0:
            return
        if self._torn:
            self._torn = False
            self._replace_child("a read was interrupted")
            return
        self._reading = True
        self._news.release()
        try:
            chunk, rang = self._read(self._child.sock.fileno(), wait_s)
        finally:
            self._news.acquire()
            self._reading = False
            self._news.notify_all()
        self._torn = False
        if rang:
            self._mirror.version += 1
        if chunk:
            self._still = 0
            self._mirror.feed(chunk)
        elif chunk is not None:
            self._replace_child("it is gone")
        elif wait_s >= WATCH_S and not rang and self._sidecar_stands_still():
            self._replace_child("it stands still")

    def _read(self, fd: int, wait_s: float) -> tuple[bytes | None, bool]:
        """What came, None if nothing did, and whether the bell rang. An empty chunk: the sidecar is gone."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(self._bell_read, select.POLLIN)
        ready = dict(poll.poll(wait_s * 1000 if wait_s < WATCH_S else WATCH_S * 1000))
        rang = self._bell_read in ready
        if rang:
            self._rang()
        if fd not in ready:
            return None, rang
        self._torn = True
        try:
            return os.read(fd, CHUNK), rang
        except OSError:
            return b"", rang
