"""The one thread that writes: what all runs want written meanwhile goes into one durable transaction.

Reads and snapshots happen on a second thread, off the commit path. Both hand their results back to the event loop;
nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from quoracy.core import shell
from quoracy.hosts import carry
from quoracy.ports import Journal

MAX_TOGETHER = 256
"""Appends of different runs in one transaction."""

Done = Callable[[shell.Report], None]
Failed = Callable[[Exception], None]


class Committer:
    def __init__(self, journal: Journal, loop: asyncio.AbstractEventLoop) -> None:
        self._journal = journal
        self._loop = loop
        self._writes: SimpleQueue[tuple[str, shell.Append, Done] | None] = SimpleQueue()
        self._reads: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None], Failed] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._write, name="quoracy-writer", daemon=True),
            threading.Thread(target=self._read, name="quoracy-reader", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def append(self, run: str, wish: shell.Append, done: Done) -> None:
        self._writes.put((run, wish, done))

    def later(self, work: Callable[[], Any], done: Callable[[Any], None], failed: Failed | None = None) -> None:
        """Blocking work that is not an append, in order. What it raises goes to ``failed``, or into the loop."""
        self._reads.put((work, done, failed or _raise))

    def close(self) -> None:
        """Everything handed in before is carried out first."""
        self._writes.put(None)
        self._reads.put(None)
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        open_ = True
        while open_:
            waiting = [self._writes.get()]
            try:
                while len(waiting) < MAX_TOGETHER:
                    waiting.append(self._writes.get_nowait())
            except Empty:
                pass
            wishes = [item for item in waiting if item is not None]
            open_ = len(wishes) == len(waiting)
            if wishes:
                reports = carry.append_all(self._journal, [(run, wish) for run, wish, _ in wishes])
                self._back(
                    self._deliver, [(done, report) for (_, _, done), report in zip(wishes, reports, strict=True)]
                )

    def _read(self) -> None:
        while (item := self._reads.get()) is not None:
            work, done, failed = item
            try:
                result = work()
            except Exception as error:
                self._back(failed, error)
            else:
                self._back(done, result)

    def _back(self, call: Callable[..., None], *args: Any) -> None:
        """Into the loop, unless it is gone: then nobody waits for it any more."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)

    def _deliver(self, answers: list[tuple[Done, shell.Report]]) -> None:
        for done, report in answers:
            done(report)


def _raise(error: Exception) -> None:
    raise error
