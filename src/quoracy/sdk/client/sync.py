"""A driver for scripts that block. Any number of threads may use it.

No thread of its own: whoever waits drives the connection, for itself and for all others who wait. One lock; one driver
at a time, which holds it but while it waits for the sockets; the others sleep until something happened. When the driver
has what it wanted, the next one takes over.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from quoracy.sdk.client.connection import Connection
from quoracy.sdk.client.driver import C, Driver, now_us
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.operation import Operation
from quoracy.sdk.client.session import Session
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.vitals import Vitals

FRESH_US: Final = 1_000
"""What was read so recently is not looked for again before a call: whatever came since is read while it waits."""
T = TypeVar("T")


class BlockingDriver(Driver[C]):
    def __init__(
        self,
        settings: Settings,
        session: type[Session],
        client: Callable[[Settings, Any, Connection, Memory, Vitals], C],
    ) -> None:
        self._happened = threading.Condition(threading.Lock())
        self._driving = False
        self._sleeping = 0
        """Threads that wait while another one drives."""
        self._looked_us = 0
        self._poll = select.poll()
        self._polled: tuple[int, int, int] | None = None
        super().__init__(settings, session, client)

    def _run(self, operation: Operation[T]) -> T:
        self._check_process()
        try:
            with self._happened:
                return self._drive(operation)
        finally:
            if not self._closed:
                self._deliver()

    def _drive(self, operation: Operation[T]) -> T:
        self._take_in()
        try:
            while True:
                until = next(operation)
                version = self._client.version
                self._catch_up()
                if self._driving:
                    self._ring()  # whoever drives has to look again at what there is to wait for
                self._wait(version, until)
        except StopIteration as stop:
            result: T = stop.value
            if self._client.session.has_to_say():
                self._progress()
            return result
        finally:
            operation.close()

    def _take_in(self) -> None:
        """What has come, without waiting. Nothing to do if another thread drives, or if somebody has just looked."""
        if not self._driving and not self._released and now_us() - self._looked_us >= FRESH_US:
            self._take(self._files().poll(0))
            self._catch_up()

    def _refresh(self) -> None:
        self._check_process()
        with self._happened:
            self._take_in()

    def _glance(self) -> None:
        """The same, if nobody is in the way."""
        if self._happened.acquire(blocking=False):
            try:
                self._take_in()
            finally:
                self._happened.release()

    def _wait(self, version: int, until: float | None) -> None:
        """Until something happened. The lock is held here, and given away while anybody waits."""
        while self._client.version == version:
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            if self._driving:
                self._sleep(left_s)
            else:
                self._wait_for_sockets(until)

    def _sleep(self, for_s: float | None = None) -> None:
        self._sleeping += 1
        try:
            self._happened.wait(for_s)
        finally:
            self._sleeping -= 1

    def _wait_for_sockets(self, until: float | None) -> None:
        files, wait_s = self._files(), self._wait_s(until)
        ready: list[tuple[int, int]] = []
        self._driving = True
        self._happened.release()
        try:
            ready = files.poll(wait_s * 1000)
        finally:
            self._happened.acquire()
            self._driving = False
            if self._sleeping:
                self._happened.notify_all()
        if self._released:
            return
        version = self._client.version
        self._take(ready)
        if self._client.version == version:
            self._progress()  # or there is something to be told, and the time is looked at before the next wait

    def _files(self) -> select.poll:
        """Everything that something may come from. As it was, in most cases."""
        sock = -1 if self._sock is None else self._sock.fileno()
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        wanted = (sock, events, self._heartbeats.fileno())
        if wanted != self._polled:
            self._polled, self._poll = wanted, select.poll()
            for fd in (self._bell_read, self._dialer.wake, self._heartbeats.fileno()):
                if fd >= 0:
                    self._poll.register(fd, select.POLLIN)
            if sock >= 0:
                self._poll.register(sock, events)
        return self._poll

    def _take(self, ready: list[tuple[int, int]]) -> None:
        """From those that have something."""
        self._looked_us = now_us()
        files = [fd for fd, _ in ready]
        if self._bell_read in files and self._rang():
            self._client.version += 1
        self._heartbeats_spoke = self._heartbeats.fileno() in files
        if files or self._torn:
            self._read()

    def _end(self) -> None:
        with self._happened:
            while self._driving:
                self._ring()
                self._sleep()
            self._release()
