"""The beater, seen from the training: told for whom to beat, asked what it sees, replaced when it dies or stands still.

It is looked after whenever a rank waits for its store, and whenever the training asks whether it may go on. There is no
thread of its own: a training may fork.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any, Final

from quoracy.sdk.beater import Be, Sight, Task, Tell, read_sight
from quoracy.sdk.errors import SidecarFailed
from quoracy.sdk.spawn import Child
from quoracy.wire.frames import FrameReader, frame

MAX_SIGHT_BYTES: Final = 16 * 1024 * 1024
CHUNK: Final = 1 << 20
RESTARTS: Final = 5
RESTARTS_S: Final = 60.0
"""More deaths of beaters than this in this time, and the rank gives up."""
START_S: Final = 60.0
"""For a beater to begin: a loaded machine takes seconds to start a process."""

log = logging.getLogger("quoracy.ranks")


class Lookout:
    def __init__(self, task: Task, take: Callable[[Sight], None]) -> None:
        self._task = task
        self._take = take
        self._patience_s = 2 * task.op_s + task.beat_s
        """For an answer: it may be in the middle of an operation, or two."""
        self._deaths: list[float] = []
        self._asked = self._begun = False
        self._still_s = self._asked_s = self._tended_s = 0.0
        self._beating = 0
        self._beaten = (0, 0)
        """The life that was beaten for last, and when a beat last got through. The next beater goes on from there."""
        self._start()
        _alive.add(self)

    @property
    def pid(self) -> int:
        return self._child.pid

    def tend(self, incarnation: int) -> None:
        """Take in what it has told, without waiting for it, and ask again. Raises SidecarFailed if none can be kept
        alive."""
        now_s = time.monotonic()
        looked_s = min(now_s - self._tended_s, self._task.look_s)
        self._tended_s = now_s
        try:
            if incarnation != self._beating:
                self._say(Be(incarnation, self._beaten[1] if self._beaten[0] == incarnation else 0))
                self._beating = incarnation
            for body in self._received():
                self._asked, self._still_s = False, 0.0
                sight = read_sight(body)
                self._begun = sight.looks > 0
                self._beaten = sight.beaten if sight.beaten[1] else self._beaten
                self._take(sight)
            self._ask(now_s, looked_s)
        except BlockingIOError:
            self._still_s += looked_s
        except OSError as error:
            self._replace(f"it is gone ({error})")
            return
        if self._still_s > (self._patience_s if self._begun else max(self._patience_s, START_S)):
            self._replace("it stands still")

    def _ask(self, now_s: float, looked_s: float) -> None:
        """How long it has not answered is counted in looks, each no longer than it should be: this process may have
        been stopped itself."""
        if self._asked:
            self._still_s += looked_s
        elif now_s - self._asked_s >= self._task.look_s / 2:
            self._say(Tell())
            self._asked, self._asked_s = True, now_s

    def _say(self, message: Any) -> None:
        self._child.sock.send(frame(message))

    def _received(self) -> list[bytes]:
        try:
            chunk = self._child.sock.recv(CHUNK)
        except BlockingIOError:
            return []
        if not chunk:
            raise OSError("it has closed its line")
        return self._reader.feed(chunk)

    def _start(self) -> None:
        self._child = Child("quoracy.sdk.beater")
        self._reader = FrameReader(MAX_SIGHT_BYTES)
        self._asked = self._begun = False
        self._still_s = self._asked_s = 0.0
        self._beating = 0
        self._tended_s = time.monotonic()
        self._child.sock.sendall(frame(self._task))
        self._child.sock.setblocking(False)

    def _replace(self, why: str) -> None:
        ended = self._child.kill()
        now_s = time.monotonic()
        self._deaths = [at_s for at_s in self._deaths if now_s - at_s < RESTARTS_S] + [now_s]
        if len(self._deaths) > RESTARTS:
            died = f"the beater of rank {self._task.rank} died {len(self._deaths)} times in {RESTARTS_S:.0f} s"
            raise SidecarFailed(f"{died} ({why}: {ended})", "see what it wrote to standard error")
        log.warning("beater of rank %s: %s (%s); another one goes on", self._task.rank, why, ended)
        self._start()

    def close(self) -> None:
        _alive.discard(self)
        self._child.kill()

    def forget(self) -> None:
        self._child.forget()


_alive: set[Lookout] = set()


def _after_fork() -> None:
    """A forked child must not keep the socket open: the beater would take it for a living training."""
    for lookout in _alive:
        lookout.forget()


os.register_at_fork(after_in_child=_after_fork)
