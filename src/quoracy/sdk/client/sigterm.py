"""SIGTERM means drain: finish the step under way, leave properly, do not lose work.

The handler only notes the time and rings a bell; what follows from it happens in the worker's next call. A second
SIGTERM is one too many: the process ends as it would have without us. One handler serves all workers of a process.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from quoracy.core.errors import ConfigError


class Drain:
    """Of one worker. ``since_s`` is when SIGTERM came, on the monotonic clock."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.since_s: float | None = None
        self._ring = ring

    def install(self, wanted: bool | None) -> None:
        """None: only where it takes nothing away, which is in the main thread of a program without a handler."""
        free = signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, _on_sigterm)
        main = threading.current_thread() is threading.main_thread()
        if wanted is None:
            wanted = main and free
        if not wanted:
            return
        if not main:
            raise ConfigError("handle_sigterm", True, "connect in the main thread, or pass handle_sigterm=False")
        if not _watching:
            _before.append(signal.signal(signal.SIGTERM, _on_sigterm))
        _watching.append(self)

    def remove(self) -> None:
        if self not in _watching:
            return
        _watching.remove(self)
        if not _watching:
            before = _before.pop()
            if threading.current_thread() is threading.main_thread() and _installed():
                signal.signal(signal.SIGTERM, before)

    def begin(self) -> None:
        if self.since_s is None:
            self.since_s = time.monotonic()
            self._ring()


_watching: list[Drain] = []
_before: list[signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = []


def _installed() -> bool:
    return signal.getsignal(signal.SIGTERM) is _on_sigterm


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    again = any(drain.since_s is not None for drain in _watching) or not _watching
    for drain in _watching:
        drain.begin()
    if again:
        before = _before[-1] if _before else signal.SIG_DFL
        if callable(before):
            before(number, frame)
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
