"""What drives a client in a training process, whatever the kind and however it waits: socket, wake-up pipe, SIGTERM,
and the heartbeat process beside it.

Here is everything but the waiting, which ``blocking`` and ``aio`` add. Nothing in here blocks. The sequence of a call
is: an operation puts something into the session, ``_progress`` sends it, the driver waits until something happened,
``_read`` takes it in, and the operation looks whether that is what it waited for.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

from quoracy.sdk.client.client import Client
from quoracy.sdk.client.connection import Connection, Signer, State
from quoracy.sdk.client.dialer import Dialer, detach, receive, send
from quoracy.sdk.client.errors import Forked, HeartbeatProcessFailed
from quoracy.sdk.client.heartbeat import Beating, Task
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.session import Session
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.sigterm import Drain
from quoracy.sdk.client.supervisor import HeartbeatProcess
from quoracy.sdk.client.vitals import Vitals

LOOK_US: Final = 250_000
"""Between two looks at the clock, at the memory and at the heartbeat process."""
CHUNK: Final = 1 << 18

log = logging.getLogger("quoracy")
C = TypeVar("C", bound=Client[Any])


class Driver(Generic[C]):
    def __init__(
        self,
        settings: Settings,
        session: type[Session],
        client: Callable[[Settings, Any, Connection, Memory, Vitals], C],
    ) -> None:
        """Raises ConfigError for a key or certificate that cannot be used."""
        self._pid = os.getpid()
        self._settings = settings
        key, tls = _key(settings), _tls(settings)
        self._memory = Memory.create()
        self._dialer = Dialer(tls)
        logic = session(
            settings.run, settings.member, secrets.token_bytes(32), round(settings.timeouts.retry_s * 1e6),
            b"" if key is None else key.public, settings.about,
        )  # fmt: skip
        connection = Connection(
            logic, settings.addresses, settings.token, key, random.SystemRandom().random, now_us(), settings.tls,
            session.joins,
        )  # fmt: skip
        self._client = client(settings, logic, connection, self._memory, Vitals(self._memory, self._pid, now_us()))
        self._heartbeats = HeartbeatProcess(
            "quoracy.sdk.client.heartbeat",
            Task(
                settings.run, settings.member, settings.addresses, settings.tls, settings.ca, settings.token,
                self._client.heartbeat,
            ),
            self._memory,
            settings.member,
        )  # fmt: skip
        self._beating: Beating | None = None
        self._heartbeats_spoke = True
        """Whether there may be something to read from that process."""
        self._sock: socket.socket | None = None
        self._unsent = b""
        self._due_us = 0
        """When the time may bring something."""
        self._torn = False
        """A read was interrupted, as by Ctrl-C, and what it had read may be lost: connect again."""
        self._bell_read, self._bell_write = os.pipe()
        os.set_blocking(self._bell_read, False)
        os.set_blocking(self._bell_write, False)
        self._drain = Drain(self._ring)
        self._closed = self._released = False
        _alive.add(self)

    @property
    def run(self) -> str:
        return self._settings.run

    @property
    def member(self) -> str:
        return self._settings.member

    @property
    def incarnation(self) -> int:
        """Which incarnation of the member this is; 0 while a new one begins."""
        return self._client.incarnation

    @property
    def draining(self) -> bool:
        """SIGTERM has come: what is under way is brought to an end, and then this member leaves."""
        return self._drain.since_s is not None

    def drain(self) -> None:
        """As if SIGTERM had come: for programs that handle signals themselves."""
        self._drain.begin()

    # -- what happens -----------------------------------------------------------------------------------------------

    def _progress(self) -> None:
        """Everything that follows from what was read and from the time, as far as it goes without waiting."""
        self._client.tick(now_us())
        self._act()
        wake_us, at_us = self._client.connection.wake_us(), now_us()
        self._due_us = at_us + LOOK_US if wake_us is None else min(wake_us, at_us + LOOK_US)

    def _catch_up(self) -> None:
        """The same, for a call: if that was just done and nothing asks for it again, only what there is to say is
        sent."""
        client = self._client
        quiet = client.connection.state is State.UP and not client.connection.close_wanted
        if quiet and now_us() < self._due_us and not client.session.wishes():
            self._write()
        else:
            self._progress()

    def _act(self) -> None:
        """Do what the connection asks for."""
        connection = self._client.connection
        if connection.close_wanted:
            self._close_socket()
        if (address := connection.connect_to(now_us())) is not None:
            self._dialer.dial(address)
        self._write()
        self._look_after_heartbeats()

    def _wait_s(self, until: float | None) -> float:
        """How long to wait for the sockets at most."""
        left_s = (self._due_us - now_us()) / 1e6
        return max(0.0, left_s if until is None else min(left_s, until - time.monotonic()))

    def _read(self) -> None:
        """Take in what has come."""
        if self._torn:
            self._torn = False
            self._client.connection.closed("a read was interrupted", now_us())
            self._close_socket()
        for dialed in self._dialer.take():
            if dialed.sock is None:
                self._client.connection.failed(dialed.why, now_us(), final=dialed.final)
            elif self._client.connection.over is not None:
                dialed.sock.close()
            else:
                self._sock, self._unsent = dialed.sock, b""
                self._connected()
                self._client.connection.connected(now_us())
            self._client.settle(now_us())
        while self._sock is not None:
            self._torn = True
            chunk = receive(self._sock, CHUNK)
            if isinstance(chunk, bytes):
                self._client.received(chunk, now_us())
                self._torn = False
                if not self._client.connection.close_wanted and not self._more(chunk):
                    return
            else:
                self._torn = False
                if chunk is None:
                    return
                self._client.connection.closed(chunk, now_us())
                self._client.settle(now_us())
            if self._client.connection.close_wanted:
                self._close_socket()

    def _more(self, chunk: bytes) -> bool:
        """Whether to read on at once. What TLS has decrypted already, no ``select`` tells of."""
        return len(chunk) == CHUNK or isinstance(self._sock, ssl.SSLSocket)

    def _write(self) -> None:
        self._unsent += self._client.connection.take_out()
        if self._sock is None:
            self._unsent = b""
        elif self._unsent:
            left = send(self._sock, self._unsent)
            if isinstance(left, str):
                self._client.connection.closed(left, now_us())
                self._close_socket()
                self._client.settle(now_us())
            else:
                self._unsent = left

    def _close_socket(self) -> None:
        self._client.connection.close_wanted = False
        self._unsent = b""
        if self._sock is not None:
            self._disconnecting()
            self._sock.close()
            self._sock = None

    def _connected(self) -> None:
        """There is a new socket."""

    def _disconnecting(self) -> None:
        """It is about to be closed."""

    def _deliver(self) -> None:
        """After every call: what the script's own callbacks are told, in the thread that happens to be here."""

    # -- the heartbeat process --------------------------------------------------------------------------------------

    def _look_after_heartbeats(self) -> None:
        """Started once there is an incarnation to beat for, told of each, replaced when it died."""
        client, heartbeats = self._client, self._heartbeats
        if client.ended is not None or self._closed:
            return
        session = client.session
        beating = Beating(session.incarnation, session.token, session.beat_interval_us, session.beat_timeout_us)
        if beating != self._beating and (session.token or not session.incarnation):
            self._beating = beating
            heartbeats.tell(beating)
        try:
            if heartbeats.running:
                heartbeats.check()
                if self._heartbeats_spoke:
                    heartbeats.replies()
            elif session.incarnation and session.token:
                heartbeats.start()
        except HeartbeatProcessFailed as error:
            client.ended = error
            client.version += 1

    # -- waking and ending ------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        """Wake whoever waits. Called by the signal handler: does nothing else."""
        try:
            os.write(self._bell_write, b"!")
        except (BlockingIOError, OSError):
            return

    def _rang(self) -> bool:
        try:
            return bool(os.read(self._bell_read, 64))
        except (BlockingIOError, OSError):
            return False

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise self._forked()

    def _forked(self) -> Forked:
        called = self._client.called
        return Forked(f"{called} {self.member} belongs to process {self._pid}, and this is its child {os.getpid()}")

    def _release(self) -> None:
        """Everything this member holds."""
        if self._released:
            return
        self._released = True
        self._close_socket()
        self._heartbeats.close()
        self._drain.remove()
        _alive.discard(self)
        self._dialer.close()
        self._memory.close()
        os.close(self._bell_read)
        os.close(self._bell_write)

    def _forget(self) -> None:
        """In a forked child, such as a worker of a DataLoader: the connection is the parent's."""
        if self._sock is not None:
            detach(self._sock)


def _key(settings: Settings) -> Signer | None:
    if settings.key is None:
        return None
    from quoracy.trust.keys import MemberKey

    return MemberKey.open(Path(settings.key))


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.tls:
        return None
    from quoracy.trust.tls import client_context

    return client_context(settings.ca)


def now_us() -> int:
    return time.monotonic_ns() // 1000


_alive: WeakSet[Driver[Any]] = WeakSet()


def _after_fork() -> None:
    for driver in list(_alive):
        driver._forget()


os.register_at_fork(after_in_child=_after_fork)
