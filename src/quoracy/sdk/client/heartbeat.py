"""``python -m quoracy.sdk.client.heartbeat SOCKET MEMORY PID``: the process that beats for a training, and nothing
else.

A training may hold the GIL for minutes, in a kernel launch, a compiler or a long call into C. No thread of its process
can beat meanwhile, so another process does. It reads how far the training is from shared memory and writes back what
the training must notice. It never joins, calls or waits for anything: the session does, in the training.

It lives exactly as long as its training. The kernel says when that process is gone (a pidfd), the control socket ends,
and as a last resort its parent's number changes; then it exits at once, without a goodbye: a training that died has
something to recover, which "left" would deny. It ignores the signals that are meant for the training, such as Ctrl-C
for the whole group, because a training that drains must be heard until it has left.

Workers, participants and members beat over a connection of their own to the coordinator (``ConnectionHeartbeats``);
ranks beat through their store (``sdk.ranks.heartbeat``). The process is the same: ``Start`` says which.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from quoracy.core.errors import Refusal, Retry
from quoracy.core.machine import Signal
from quoracy.core.messages import Declined, Hello, Moved, Sign, ToHost, Told, Welcome
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.connection import Connection
from quoracy.sdk.client.dialer import Dialer, receive, send
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.vitals import Vitals
from quoracy.wire.frames import FrameReader, frame

CHUNK: Final = 1 << 16
LOOP_S: Final = 1.0
"""The longest sleep: whoever watches the loop's counter sees it move every second."""
HELLO_US: Final = 500_000
"""Between two hellos, while nobody has answered the first."""
INCARNATION_OVER: Final = frozenset({"member_gone", "bad_token"})
"""Refusals after which the member may go on, but this incarnation of it is not beaten for any more."""
SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
"""Meant for the training: blocked when the process starts, and ignored as soon as it can."""
PDEATHSIG: Final = 1
"""prctl's number for: send me this signal when the thread that started me ends."""


class Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """The first message. ``module`` has a function ``open_heartbeats(task, memory, pid)`` and reads ``task`` itself."""

    module: str
    task: Raw


class Beating(msgspec.Struct, frozen=True, array_like=True, tag="beating"):
    """For which incarnation to beat from now on; 0: for none."""

    incarnation: int
    token: str = ""
    interval_us: int = 0
    timeout_us: int = 0


class Task(msgspec.Struct, frozen=True, array_like=True):
    """Where to beat. ``heartbeat``: the module of the kind, with ``HEARTBEAT`` and ``fields``."""

    run: str
    member: str
    addresses: list[Address]
    tls: bool
    ca: str | None
    token: str
    heartbeat: str


class Heartbeats(Protocol):
    """What the process runs."""

    def told(self, body: bytes) -> bytes | None:
        """A message of the training, and the reply to it."""

    def loop(self) -> float:
        """Do what is due. Returns the seconds until something is due again."""

    def files(self) -> list[tuple[int, int]]:
        """Descriptors to wait for, each with the events of ``select.poll``."""


# -- over a connection ----------------------------------------------------------------------------------------------


class Sender:
    """Who speaks through a heartbeat connection, without I/O."""

    def __init__(self, task: Task, memory: Memory, vitals: Vitals) -> None:
        self.member = task.member
        self.beat_interval_us = self.beat_timeout_us = 0
        self.incarnation = 0
        self.moved: str | None = None
        """Another host serves the run: this one, as far as is known."""
        self._run = task.run
        self._token = ""
        self._memory = memory
        self._vitals = vitals
        kind = import_module(task.heartbeat)
        self._beat: Callable[..., Signal] = kind.HEARTBEAT
        self._fields = kind.fields
        self._seq = 0
        self._beat_us = 0
        self._hello_us = 0
        self._greeted = False
        self._dead = 0
        self._answered_us = 0
        self._answer: Any = None
        self._connections = 0
        self._out: list[ToHost] = []

    def beat_for(self, beating: Beating, now_us: int) -> None:
        before = (self.incarnation, self._token)
        self.beat_interval_us, self.beat_timeout_us = beating.interval_us, beating.timeout_us
        if before == (beating.incarnation, beating.token):
            return
        if beating.incarnation != self.incarnation:
            self._answer = None
            self._answered_us = 0
        self.incarnation, self._token = beating.incarnation, beating.token
        self._hello(now_us)

    def note_outage(self, outage_us: int) -> None:
        self._memory.beat(self.incarnation, self._answered_us, outage_us, self._connections)

    # -- speaker ----------------------------------------------------------------------------------------------------

    def is_joined(self) -> bool:
        return self.incarnation > 0

    def connect(self, now_us: int) -> None:
        self._connections += 1
        self._hello(now_us)

    def _hello(self, now_us: int) -> None:
        """Also the first heartbeat: on the same connection it comes after."""
        self._greeted = False
        self._beat_us = now_us
        self._hello_us = now_us + HELLO_US
        if self.incarnation:
            self._out.append(Hello(self._run, self.member, self.incarnation, self._token))

    def granted(self, incarnation: int, token: str) -> None:
        if incarnation == self.incarnation:
            self._token = token
            self._memory.renew_token(incarnation, token)

    def receive(self, message: Any, now_us: int) -> None:
        match message:
            case Welcome():
                self._greeted = True
                self._beat_us = now_us
            case Told(topic="heartbeat", incarnation=self.incarnation):
                self._answered_us = now_us
                if message.value[1:] != self._answer:
                    self._answer = message.value[1:]
                    self._memory.write_answer(self.incarnation, message.value)
            case Declined(incarnation=self.incarnation, refusal=refusal):
                self._declined(refusal, now_us)
            case Moved(address=address):
                self.moved = address

    def _declined(self, refusal: Refusal, now_us: int) -> None:
        """Of an incarnation that is over, the session finds out what became of it, and says for which one to beat.
        Whatever else is wrong may pass: say hello again, after a while."""
        if refusal.retry is not Retry.OVER and refusal.code not in INCARNATION_OVER:
            self._greeted = False
            self._hello_us = now_us + HELLO_US
        elif self._dead != self.incarnation:
            self._dead = self.incarnation
            self._memory.declare_dead(self.incarnation)

    def probe(self, now_us: int) -> None:
        """Heartbeats are answered."""

    def tick(self, now_us: int) -> None:
        if not self.incarnation or self._dead == self.incarnation:
            return
        if not self._greeted:
            if now_us >= self._hello_us:
                self._hello(now_us)
            return
        if now_us < self._beat_us:
            return
        self._beat_us = now_us + self.beat_interval_us
        self._seq = max(self._seq + 1, now_us)
        beat = self._beat(self.member, self.incarnation, self._seq, **self._fields(self._vitals, now_us))
        self._out.append(Sign.of(self._run, beat))

    def take(self) -> list[ToHost]:
        out, self._out = self._out, []
        return out

    def wake_us(self) -> int | None:
        if not self.incarnation or self._dead == self.incarnation:
            return None
        return self._beat_us if self._greeted else self._hello_us


class ConnectionHeartbeats:
    def __init__(self, task: Task, memory: Memory, pid: int) -> None:
        self._sender = Sender(task, memory, Vitals(memory, pid, now_us()))
        self._connection = Connection(
            self._sender, task.addresses, task.token, None, _draw, now_us(), task.tls, heartbeats=True
        )
        self._dialer = Dialer(_tls_context(task))
        self._sock: socket.socket | None = None
        self._unsent = b""

    def told(self, body: bytes) -> bytes | None:
        self._sender.beat_for(msgspec.msgpack.decode(body, type=Beating), now_us())
        return None

    def files(self) -> list[tuple[int, int]]:
        files = [(self._dialer.wake, select.POLLIN)]
        if self._sock is not None:
            files.append((self._sock.fileno(), select.POLLIN | (select.POLLOUT if self._unsent else 0)))
        return files

    def loop(self) -> float:
        connection, sender = self._connection, self._sender
        self._take_dialed()
        self._read()
        at_us = now_us()
        if sender.incarnation:
            connection.tick(at_us)
        if sender.moved is not None:
            moved, sender.moved = sender.moved, None
            connection.moved(moved, at_us)
        if connection.close_wanted:
            self._close()
        if sender.incarnation and (address := connection.connect_to(at_us)) is not None:
            self._dialer.dial(address)
        self._write()
        sender.note_outage(0 if connection.outage is None else connection.outage.since_us)
        wake_us = connection.wake_us() if sender.incarnation else None
        return LOOP_S if wake_us is None else max(0.0, (wake_us - now_us()) / 1e6)

    def _take_dialed(self) -> None:
        for dialed in self._dialer.take():
            if dialed.sock is None:
                self._connection.failed(dialed.why, now_us(), final=dialed.final)
            else:
                self._sock, self._unsent = dialed.sock, b""
                self._connection.connected(now_us())

    def _read(self) -> None:
        while self._sock is not None:
            chunk = receive(self._sock, CHUNK)
            if chunk is None:
                return
            if isinstance(chunk, str):
                self._connection.closed(chunk, now_us())
                self._close()
                return
            self._connection.received(chunk, now_us())
            if self._connection.close_wanted:
                self._close()

    def _write(self) -> None:
        self._unsent += self._connection.take_out()
        if self._sock is None:
            self._unsent = b""
        elif self._unsent:
            left = send(self._sock, self._unsent)
            if isinstance(left, str):
                self._connection.closed(left, now_us())
                self._close()
            else:
                self._unsent = left

    def _close(self) -> None:
        self._connection.close_wanted = False
        self._unsent = b""
        if self._sock is not None:
            self._sock.close()
            self._sock = None


def open_heartbeats(task: Raw, memory: Memory, pid: int) -> ConnectionHeartbeats:
    return ConnectionHeartbeats(msgspec.msgpack.decode(task, type=Task), memory, pid)


def _tls_context(task: Task) -> ssl.SSLContext | None:
    if not task.tls:
        return None
    from quoracy.trust.tls import client_context

    return client_context(task.ca)


def _draw() -> float:
    return int.from_bytes(os.urandom(7), "big") / 2**56


# -- the process ----------------------------------------------------------------------------------------------------


class Process:
    """One loop over the control socket, the training's pidfd, and what the heartbeats wait for."""

    def __init__(self, control: socket.socket, memory: Memory, pid: int) -> None:
        control.setblocking(False)
        self._control = control
        self._memory = memory
        self._pid = pid
        self._pidfd = _pidfd(pid)
        self._reader = FrameReader()
        self._heartbeats: Heartbeats | None = None
        self._seen = memory.answer_count()

    def run(self) -> None:
        while os.getppid() == self._pid:
            self._memory.loop()
            wait_s = LOOP_S if self._heartbeats is None else min(LOOP_S, self._heartbeats.loop())
            self._wake_training()
            ready = self._wait(wait_s)
            if self._pidfd in ready or (self._control.fileno() in ready and not self._listen()):
                return

    def _wait(self, wait_s: float) -> set[int]:
        waiting = select.poll()
        waiting.register(self._control.fileno(), select.POLLIN)
        if self._pidfd >= 0:
            waiting.register(self._pidfd, select.POLLIN)
        for fd, events in [] if self._heartbeats is None else self._heartbeats.files():
            waiting.register(fd, events)
        return {fd for fd, _ in waiting.poll(wait_s * 1000)}

    def _listen(self) -> bool:
        """False: the training is gone."""
        chunk = receive(self._control, CHUNK)
        if chunk is None:
            return True
        if isinstance(chunk, str):
            return False
        for body in self._reader.feed(chunk):
            if self._heartbeats is None:
                start = msgspec.msgpack.decode(body, type=Start)
                opens = import_module(start.module).open_heartbeats
                self._heartbeats = opens(start.task, self._memory, self._pid)
            elif (reply := self._heartbeats.told(body)) is not None:
                self._control.setblocking(True)
                self._control.sendall(reply)
                self._control.setblocking(False)
        return True

    def _wake_training(self) -> None:
        """If it waits, it shall look. If it does not, its socket fills up, and that is all."""
        count = self._memory.answer_count()
        if count != self._seen:
            self._seen = count
            with contextlib.suppress(OSError):
                self._control.send(frame(None))


def _pidfd(pid: int) -> int:
    """Tells of the end of the whole process, even while a forked child still holds a copy of the control socket."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _wake_when_orphaned() -> None:
    """Somebody may have stopped this process (SIGSTOP), in which state it could not notice that its training is gone.
    SIGCONT does no harm otherwise, as SIGKILL would: the kernel sends it when the starting *thread* ends."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PDEATHSIG, int(signal.SIGCONT))


def now_us() -> int:
    return time.monotonic_ns() // 1000


def main() -> None:
    if sys.platform == "linux":
        _wake_when_orphaned()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    os.chdir("/")
    control_fd, memory_fd, pid = (int(argument) for argument in sys.argv[1:4])
    process = Process(socket.socket(fileno=control_fd), Memory(memory_fd), pid)
    process.run()
    os._exit(0)


if __name__ == "__main__":
    main()
