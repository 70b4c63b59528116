"""Threads for what may block. They are daemons: a process that ends does not wait for a peer that does not answer."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger("quoracy")


class Pool:
    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._name = name
        self._work: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._changed = threading.Condition()
        self._started = self._idle = 0
        self._closed = False

    def submit(self, work: Callable[..., Any], *arguments: Any) -> None:
        """After ``close`` it is dropped."""
        with self._changed:
            if self._closed:
                return
            self._work.append((work, arguments))
            if self._idle >= len(self._work):
                self._changed.notify()
            elif self._started < self._threads:
                self._started += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._started}", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._work and not self._closed:
                    self._changed.wait()
                self._idle -= 1
                if self._closed:
                    return
                work, arguments = self._work.popleft()
            try:
                work(*arguments)
            except Exception:
                log.exception("exchange: %s failed", self._name)

    def close(self) -> None:
        """What has not begun never does. Nobody is waited for."""
        with self._changed:
            self._closed = True
            self._work.clear()
            self._changed.notify_all()
