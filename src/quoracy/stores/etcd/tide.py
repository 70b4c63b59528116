"""Notices that somebody appended, whichever process it was: one watch of etcd for all who wait in this process.

A watch that breaks, or is silent because its member is cut off, costs at most ``LOOK_S``: whoever waits looks by itself
that often.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Condition, Event, Thread
from typing import Any, Final

import grpc

from quoracy.stores.etcd.client import Client
from quoracy.stores.etcd.words import Reach

LOOK_S: Final = 0.5
BEGIN_S: Final = 1.0
PAUSE_S: Final = 0.2


class Tide:
    def __init__(self, client: Client, reach: Reach) -> None:
        self._client = client
        self._reach = reach
        self._changed = Condition()
        self._level = 0
        self._watching = False
        self._thread: Thread | None = None
        self._call: Any = None
        self._over: Event | None = None
        self._closed = False

    def level(self) -> int:
        """A number to hand to ``wait``. Whatever is written after this call makes it rise."""
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = Thread(target=self._watch, name="quoracy-etcd-watch", daemon=True)
                self._thread.start()
                self._changed.wait_for(lambda: self._watching or self._closed, BEGIN_S)
            return self._level

    def wait(self, level: int, timeout_s: float) -> None:
        """Until the tide has risen beyond ``level``, it is time to look, or this is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._level != level or self._closed, min(LOOK_S, timeout_s))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            call, over = self._call, self._over
            self._changed.notify_all()
        _end(call, over)
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._closed:
            with suppress(grpc.RpcError, ValueError):
                link = self._client.link()
                self._follow(*link.watch(self._reach.first, self._reach.end))
            self._rise(watching=False)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, PAUSE_S)

    def _follow(self, call: Any, over: Event) -> None:
        with self._changed:
            self._call, self._over = call, over
            if self._closed:
                _end(call, over)
        try:
            for response in call:
                if response.canceled:
                    return
                self._rise(watching=True)
        finally:
            _end(call, over)

    def _rise(self, watching: bool) -> None:
        with self._changed:
            self._watching = watching
            self._level += 1
            self._changed.notify_all()


def _end(call: Any, over: Event | None) -> None:
    if over is not None:
        over.set()
    if call is not None:
        call.cancel()
