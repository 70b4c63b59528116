"""What the one who trains has to do, one thing after the other, and whether it is still wanted.

The conductor puts jobs in, the trainer's thread takes them out. What nobody waits for any more leaves the queue, and if
it is under way already, whatever waits or counts progress in the trainer's thread is told by an exception: ``check``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import msgspec

from quoracy.core.errors import QuoracyError
from quoracy.core.witnessed.facts import Apply, Lend, Load, Store, Train, Work
from quoracy.sdk.client.errors import again


class NotWanted(Exception):
    """What is being done is of no use any more: the round has gone on, or another model is to be loaded."""


class Evaluate(msgspec.Struct, frozen=True):
    """Numbers for people, of the model as it is."""


Action = Load | Train | Apply | Store | Lend | Evaluate
FINISHED = Apply | Evaluate
"""Never given up in the middle: after the one the model is another, and the other is the last that people see."""


class Job(msgspec.Struct, eq=False):
    action: Action
    wanted: bool = True


class Jobs:
    def __init__(self) -> None:
        self._news = threading.Condition()
        self._queue: deque[Job] = deque()
        self._now: Job | None = None
        self._ended = False
        self._error: BaseException | None = None

    # -- the conductor ----------------------------------------------------------------------------------------------

    def put(self, action: Action) -> None:
        """A load replaces the one before it; an evaluation that waits is not asked for twice."""
        with self._news:
            if isinstance(action, Load):
                self._drop(lambda job: isinstance(job.action, Load))
            elif isinstance(action, Evaluate):
                self._queue = deque(job for job in self._queue if not isinstance(job.action, Evaluate))
            self._queue.append(Job(action))
            self._news.notify()

    def cease(self, work: Work) -> None:
        with self._news:
            self._drop(lambda job: isinstance(job.action, Train) and job.action.work.key() == work.key())

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more comes. ``error``: why; without one the run is over, and what counts is still applied."""
        with self._news:
            if not self._ended:
                self._ended, self._error = True, error
            self._queue = deque(job for job in self._queue if error is None and isinstance(job.action, Apply))
            self._news.notify()

    def _drop(self, unwanted: Callable[[Job], bool]) -> None:
        for job in [*self._queue, *([] if self._now is None else [self._now])]:
            if unwanted(job):
                job.wanted = False
        self._queue = deque(job for job in self._queue if job.wanted)

    # -- the trainer's thread ---------------------------------------------------------------------------------------

    def take(self) -> Job | None:
        """The next; None when there is nothing more to do. Raises what has ended it."""
        with self._news:
            self._now = None
            while not self._queue and not self._ended:
                self._news.wait()
            if self._error is not None:
                raise _again(self._error)
            self._now = self._queue.popleft() if self._queue else None
            return self._now

    def check(self) -> None:
        """Raises NotWanted, or what has ended everything, unless what is being done is wanted."""
        job = self._now
        if job is not None and isinstance(job.action, FINISHED):
            return
        if self._error is not None:
            raise _again(self._error)
        if self._ended or (job is not None and not job.wanted):
            raise NotWanted


def _again(error: BaseException) -> BaseException:
    return again(error) if isinstance(error, QuoracyError) else error
