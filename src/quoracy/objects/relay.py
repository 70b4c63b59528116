"""Chunks from the caller's thread to the client's.

The client asks an iterator for more from inside its own event loop. An iterator that uses the client too, as one that
reads from another bucket does, would make it wait for itself. So the chunks are made in the thread that wants to put
them, and handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Full, Queue
from threading import Thread

AHEAD = 2
"""Chunks that wait to be taken."""
PATIENCE_S = 0.1
"""How soon one side notices that the other is gone."""


class Stopped(Exception):
    """The maker failed: told to the client, which gives up what it has begun. Nobody else sees it."""


class Relay:
    """``run`` gives ``send`` an iterator, in a thread of its own, and feeds it."""

    def __init__(self) -> None:
        self._queue: Queue[bytes | None] = Queue(AHEAD)
        self._stopped = False
        self._failure: BaseException | None = None

    def run(self, chunks: Iterable[bytes], send: Callable[[Iterator[bytes]], object]) -> None:
        """Raises what ``chunks`` raises, or what ``send`` does."""
        sender = Thread(target=self._send, args=(send,), name="quoracy-upload", daemon=True)
        sender.start()
        try:
            for chunk in chunks:
                if chunk and not self._hand_over(bytes(chunk), sender):
                    break
            self._hand_over(None, sender)
        except BaseException:
            self._stopped = True
            raise
        finally:
            sender.join()
        if self._failure is not None:
            raise self._failure

    def _hand_over(self, chunk: bytes | None, sender: Thread) -> bool:
        while sender.is_alive():
            try:
                self._queue.put(chunk, timeout=PATIENCE_S)
            except Full:
                continue
            return True
        return False

    def _send(self, send: Callable[[Iterator[bytes]], object]) -> None:
        try:
            send(self._taken())
        except BaseException as error:  # raised again by whoever waits
            self._failure = error

    def _taken(self) -> Iterator[bytes]:
        while True:
            if self._stopped:
                raise Stopped
            try:
                chunk = self._queue.get(timeout=PATIENCE_S)
            except Empty:
                continue
            if chunk is None:
                return
            yield chunk
