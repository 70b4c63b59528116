"""What a process reads of a view is never older than what it read of it before, on the same connection; and what a host
put there last comes, however many before it were overtaken while nobody read.

Whatever a host puts into a connection is kept here until it is read, or something newer is.
"""

from __future__ import annotations

from collections import deque

from quoracy.core.codec import encode
from quoracy.core.messages import Told
from quoracy.sim.checkers.base import Checker, Ending
from quoracy.sim.streams import End


class Views(Checker):
    name = "views"

    def shown(self, process: str, end: End, told: Told) -> None:
        put: deque[bytes] = end.put.get(told.topic, _NONE)
        value = encode(told)
        while put:
            if put.popleft() == value:
                end.last[told.topic] = value
                return
        self.fail(f"{process} read a view that is older than one it has read, or that nobody has put there: {told}")

    def finish(self, ending: Ending) -> None:
        for worker in ending.workers:
            training = worker.training
            end = None if training is None or training.computes else training.line.end
            if end is not None and end.is_quiet():
                for topic, put in end.put.items():
                    if any(value != end.last.get(topic) for value in put):  # the same again may be overtaken
                        self.fail(f"{worker.name} was never shown the newest of {topic}")


_NONE: deque[bytes] = deque()
