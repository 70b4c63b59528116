"""The heartbeat process of a rank, seen from the training: told for whom to beat, asked what it sees, replaced when it
dies or stands still.

It is looked after whenever a rank waits for its store, and whenever the training asks whether it may go on. There is no
thread of its own: a training may fork.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.supervisor import WAKE, HeartbeatProcess
from quoracy.sdk.ranks import heartbeat
from quoracy.sdk.ranks.heartbeat import Be, Sight, Task, Tell, read_sight

START_S: Final = 60.0
"""For a process to begin: a loaded machine takes seconds to start one."""


class Lookout:
    def __init__(self, task: Task, take: Callable[[Sight], None]) -> None:
        self._task = task
        self._take = take
        self._timeout_s = 2 * task.op_s + task.beat_s
        """For an answer: it may be in the middle of an operation, or two."""
        self._memory = Memory.create()
        self._process = HeartbeatProcess(heartbeat.__name__, task, self._memory, f"rank {task.rank}")
        self._beaten = (0, 0)
        """The incarnation beaten for last, and when a beat last got through. The next process goes on from there."""
        self._process.start()
        self._begin()

    def _begin(self) -> None:
        self._started = self._process.replaced
        self._asked = self._begun = False
        self._still_s = self._asked_s = 0.0
        self._beating = 0
        self._tended_s = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def tend(self, incarnation: int) -> None:
        """Take in what it has told, without waiting for it, and ask again. Raises HeartbeatProcessFailed if none can be
        kept alive."""
        self._process.check()
        replies = self._process.replies()
        if self._process.replaced != self._started:
            self._begin()
        now_s = time.monotonic()
        looked_s = min(now_s - self._tended_s, self._task.look_s)
        self._tended_s = now_s
        if incarnation != self._beating:
            self._process.tell(Be(incarnation, self._beaten[1] if self._beaten[0] == incarnation else 0), keep=False)
            self._beating = incarnation
        for body in replies:
            if body == WAKE:
                continue
            self._asked, self._still_s = False, 0.0
            sight = read_sight(body)
            self._begun = sight.looks > 0
            self._beaten = sight.beaten if sight.beaten[1] else self._beaten
            self._take(sight)
        self._ask(now_s, looked_s)
        if self._still_s > (self._timeout_s if self._begun else max(self._timeout_s, START_S)):
            self._process.replace("it stands still")
            self._begin()

    def _ask(self, now_s: float, looked_s: float) -> None:
        """How long it has not answered is counted in looks, each no longer than it should be: this process may have
        been stopped itself."""
        if self._asked:
            self._still_s += looked_s
        elif now_s - self._asked_s >= self._task.look_s / 2:
            self._process.tell(Tell(), keep=False)
            self._asked, self._asked_s = True, now_s

    def close(self) -> None:
        self._process.close()
        self._memory.close()
