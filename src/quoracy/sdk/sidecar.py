"""``python -m quoracy.sdk.sidecar SOCKET PAGE PID``: the process beside a training that speaks to the coordinator.

A training may hold the GIL for minutes, in a kernel launch, a compiler or a long call into C. No thread of its process
can beat meanwhile, so another process does. It holds the session and the connection; the training process asks it
through a pair of sockets and shows its progress on a shared page.

It lives exactly as long as its training. The kernel says when that process is gone (a pidfd), the socket ends, and as a
last resort its parent's number changes; then it falls silent and exits at once, without a goodbye: a training that
died has something to recover, which "left" would deny. It ignores the signals that are meant for the training, such as
Ctrl-C for the whole group, because a training that drains must be heard until it has left.

One loop, no thread but for dialing, nothing that waits for anything but its sockets and its next heartbeat.
"""

from __future__ import annotations

import contextlib
import os
import random
import selectors
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from quoracy.core.errors import ConfigError
from quoracy.sdk import pipe
from quoracy.sdk.crossing import Crossing
from quoracy.sdk.dial import Call, Dialer
from quoracy.sdk.line import Line, Signer
from quoracy.sdk.membership import Membership
from quoracy.sdk.page import Page
from quoracy.sdk.settings import Settings
from quoracy.sdk.vitals import Vitals
from quoracy.wire.frames import FrameReader, frame

CHUNK: Final = 1 << 16
TURN_S: Final = 1.0
"""The longest sleep: whoever watches the turns on the page sees one a second."""
PDEATHSIG: Final = 1
"""prctl's number for: send me this signal when the thread that started me ends."""


class Sidecar:
    def __init__(self, training: socket.socket, page: Page, pid: int) -> None:
        self._training = training
        self._page = page
        self._pid = pid
        self._selector = selectors.DefaultSelector()
        self._reader = FrameReader()
        self._unsent = b""
        self._server: socket.socket | None = None
        self._unsent_server = b""
        self._bridge: Crossing | None = None
        self._dialer: Dialer | None = None
        self._vitals = Vitals(page, pid, now_us())
        self._done = False
        training.setblocking(False)
        self._selector.register(training, selectors.EVENT_READ, self._on_training)
        self._watch_parent()

    def run(self) -> None:
        while not self._done:
            self._page.turn()
            for key, events in self._selector.select(self._sleep_s()):
                act: Callable[[int], None] = key.data
                act(events)
            if os.getppid() != self._pid:
                return
            self._work(now_us())

    def _sleep_s(self) -> float:
        wake_us = None if self._bridge is None else self._bridge.line.wake_us()
        return TURN_S if wake_us is None else min(TURN_S, max(0.0, (wake_us - now_us()) / 1e6))

    def _work(self, at_us: int) -> None:
        """Everything that follows from what was read, and from the time. The training process is told before the
        coordinator: it can go on from what it was told if this process dies in between."""
        bridge = self._bridge
        if bridge is None:
            return
        self._look(bridge, at_us)
        bridge.line.tick(at_us)
        for message in bridge.tell(at_us):
            self._unsent += frame(message)
        self._write_training()
        if bridge.line.hang_up:
            self._hang_up(bridge.line)
        if self._dialer is not None and (address := bridge.line.dial(at_us)) is not None:
            self._dialer.dial(address)
        self._write_server(bridge.line)

    def _look(self, bridge: Crossing, at_us: int) -> None:
        if bridge.session.beat_due(at_us):
            bridge.look(self._vitals, at_us)

    # -- the training process ---------------------------------------------------------------------------------------

    def _watch_parent(self) -> None:
        """A pidfd tells of the end of the whole process, even while a forked child still holds the socket's copy."""
        if hasattr(os, "pidfd_open"):
            try:
                pidfd = os.pidfd_open(self._pid)
                self._selector.register(pidfd, selectors.EVENT_READ, self._on_parent_gone)
            except OSError:
                pass
        if os.getppid() != self._pid:
            self._done = True

    def _on_parent_gone(self, _events: int) -> None:
        self._done = True

    def _on_training(self, _events: int) -> None:
        try:
            chunk = self._training.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._done = True
            return
        at_us = now_us()
        for payload in self._reader.feed(chunk):
            self._ask(pipe.to_sidecar.decode(payload), at_us)

    def _ask(self, message: pipe.ToSidecar, at_us: int) -> None:
        match message:
            case pipe.Start():
                self._start(message, at_us)
            case pipe.Bye():
                self._done = True
            case _ if self._bridge is not None:
                self._bridge.ask(message, at_us)

    def _start(self, start: pipe.Start, at_us: int) -> None:
        settings = start.settings
        try:
            self._dialer = Dialer(_tls(settings))
            key = _key(settings)
        except ConfigError as error:
            self._unsent += frame(pipe.Unfit(error.field, str(error.value), error.fix))
            self._write_training()
            return
        self._bridge = _bridge(start, key, at_us)
        self._selector.register(self._dialer.wake, selectors.EVENT_READ, self._on_dialed)

    def _write_training(self) -> None:
        """Never blocks: a training that is stopped does not read, and must be heard of all the same."""
        if self._unsent:
            try:
                self._unsent = self._unsent[self._training.send(self._unsent) :]
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self._done = True
                return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        if self._selector.get_key(self._training).events != events:
            self._selector.modify(self._training, events, self._on_training)

    # -- the coordinator --------------------------------------------------------------------------------------------

    def _on_dialed(self, _events: int) -> None:
        if self._dialer is not None and self._bridge is not None:
            for call in self._dialer.take():
                self._dialed(call, self._bridge.line)

    def _dialed(self, call: Call, line: Line) -> None:
        if call.sock is None:
            line.failed(call.why, now_us())
            return
        if line.over is not None:
            call.sock.close()
            return
        self._server = call.sock
        self._unsent_server = b""
        self._selector.register(call.sock, selectors.EVENT_READ, self._on_server)
        line.connected(now_us())

    def _on_server(self, events: int) -> None:
        if self._server is None or self._bridge is None or not events & selectors.EVENT_READ:
            return
        bridge, sock = self._bridge, self._server
        while True:
            try:
                chunk = sock.recv(CHUNK)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if _would_block(error):
                    return
                bridge.line.closed(error.strerror or str(error), now_us())
                return
            at_us = now_us()
            if not chunk:
                bridge.line.closed("it closed the connection", at_us)
                return
            self._look(bridge, at_us)
            bridge.line.received(chunk, at_us)
            if bridge.line.hang_up or not _more(sock, chunk):
                return

    def _write_server(self, line: Line) -> None:
        self._unsent_server += line.take_out()
        sock = self._server
        if sock is None:
            self._unsent_server = b""
            return
        if self._unsent_server:
            try:
                self._unsent_server = self._unsent_server[sock.send(self._unsent_server) :]
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                if not _would_block(error):
                    line.closed(error.strerror or str(error), now_us())
                    self._hang_up(line)
                    return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent_server else 0)
        if self._selector.get_key(sock).events != events:
            self._selector.modify(sock, events, self._on_server)

    def _hang_up(self, line: Line) -> None:
        line.hang_up = False
        self._unsent_server = b""
        if self._server is not None:
            self._selector.unregister(self._server)
            self._server.close()
            self._server = None


def _more(sock: socket.socket, chunk: bytes) -> bool:
    """Whether to read on at once. What TLS has decrypted already, no selector tells of."""
    return len(chunk) == CHUNK or (isinstance(sock, ssl.SSLSocket) and sock.pending() > 0)


def _would_block(error: OSError) -> bool:
    """TLS says it in its own words."""
    return isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError)


def _bridge(start: pipe.Start, key: Signer | None, at_us: int) -> Crossing:
    """What speaks for the training, by the kind of its run. Only that kind is imported: a sidecar must start fast."""
    told = start.settings
    given = told.run, told.member, start.secret, round(told.patience.retry_s * 1e6), b"" if key is None else key.public
    crossing: Callable[[Line], Crossing]
    session: Membership
    if told.kind == "federated":
        from quoracy.sdk.partaking import Partaking
        from quoracy.sdk.partaking_bridge import PartakingBridge

        session = partaking = Partaking(*given, told.about)
        crossing = partial(PartakingBridge, partaking, holds=start.holds)
    elif told.kind == "witnessed":
        from quoracy.sdk.witnessing import Witnessing
        from quoracy.sdk.witnessing_bridge import WitnessingBridge

        session = witnessing = Witnessing(*given, told.about)
        crossing = partial(WitnessingBridge, witnessing)
    else:
        from quoracy.sdk.bridge import Bridge
        from quoracy.sdk.session import Session

        session = worker = Session(*given, told.about)
        crossing = partial(Bridge, worker)
    session.resume(start.known, start.restarts)
    dice = random.SystemRandom().random
    return crossing(Line(session, told.addresses, told.token, key, dice, at_us, told.tls))


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.tls:
        return None
    from quoracy.trust.tls import client_context

    return client_context(settings.ca)


def _key(settings: Settings) -> Signer | None:
    if settings.key is None:
        return None
    from quoracy.trust.keys import MemberKey

    return MemberKey.open(Path(settings.key))


def _wake_when_orphaned() -> None:
    """Somebody may have stopped this process (SIGSTOP), in which state it could not notice that its training is gone.
    SIGCONT does no harm otherwise, as SIGKILL would: the kernel sends it when the starting *thread* ends."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PDEATHSIG, int(signal.SIGCONT))


def now_us() -> int:
    return time.monotonic_ns() // 1000


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    sock_fd, page_fd, pid = (int(argument) for argument in sys.argv[1:4])
    if sys.platform == "linux":
        _wake_when_orphaned()
    sidecar = Sidecar(socket.socket(fileno=sock_fd), Page(page_fd), pid)
    sidecar.run()
    os._exit(0)


if __name__ == "__main__":
    main()
