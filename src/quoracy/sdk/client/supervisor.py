"""The heartbeat process, seen from the training: started, told for which incarnation to beat, replaced when it dies or
stands still, ended.

The child gets one end of a pair of sockets and the shared memory, and nothing else: no standard input, none of the
training's files. It is a session of its own, so that Ctrl-C and Ctrl-Z at the terminal mean the training alone. What is
secret goes through the socket, never on the command line. There is no thread here: a training may fork.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import site
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.sdk.client.dialer import detach, receive
from quoracy.sdk.client.errors import HeartbeatProcessFailed
from quoracy.sdk.client.heartbeat import SIGNALS, Start
from quoracy.sdk.client.memory import Memory
from quoracy.wire.frames import FrameReader, frame

ROOT: Final = Path(__file__).resolve().parents[3]
"""Where the package is found: a training may know it only through its own sys.path."""
LOOK_S: Final = 5.0
LOOKS: Final = 3
"""A process whose loop has not moved between so many looks in a row, each at least so long after the one before, is
stopped or stuck. Looks are counted and not seconds, because the training may have been stopped as well."""
START_S: Final = 60.0
"""For its loop to begin: a loaded machine takes seconds to start a process."""
RESTARTS: Final = 5
RESTARTS_S: Final = 60.0
"""More deaths than this in this time, and the member gives up."""
MAX_REPLY_BYTES: Final = 16 * 1024 * 1024
CHUNK: Final = 1 << 20
WAKE: Final = encode(None)
"""A reply that only says: look into memory."""

log = logging.getLogger("quoracy")


class HeartbeatProcess:
    def __init__(self, module: str, task: Any, memory: Memory, called: str) -> None:
        """``called``: whose it is, for people. Nothing is started before ``start``."""
        self._start = Start(module, Raw(encode(task)))
        self._memory = memory
        self._called = called
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._reader = FrameReader(MAX_REPLY_BYTES)
        self._told: bytes = b""
        """The last message: what a replacement begins with."""
        self._deaths: list[float] = []
        self._loops, self._still, self._looked_s = 0, 0, 0.0
        self._began_s = 0.0
        self._begun = False
        """Its loop has moved."""
        self.replaced = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None

    def fileno(self) -> int:
        """To wait for: it becomes readable when the process wrote something to memory, replied, or ended. -1: none."""
        return -1 if self._control is None else self._control.fileno()

    def start(self) -> None:
        """Raises HeartbeatProcessFailed if no process can be started."""
        self._control, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), str(self._memory.fd), str(os.getpid())]
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # inherited: none may end it before it can ignore them
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-P", "-m", "quoracy.sdk.client.heartbeat", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), self._memory.fd],
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            self._control.close()
            self._control = None
            why = f"no process can be started with {sys.executable!r}: {error.strerror}"
            raise HeartbeatProcessFailed(why, "free memory or processes, and connect again") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        self._reader = FrameReader(MAX_REPLY_BYTES)
        self._loops, self._still, self._begun = self._memory.loops(), 0, False
        self._began_s = self._looked_s = time.monotonic()
        self._control.sendall(frame(self._start) + self._told)
        self._control.setblocking(False)
        _alive.add(self)

    def tell(self, message: Any, *, keep: bool = True) -> None:
        """``keep``: a replacement is told the same."""
        told = frame(message)
        if keep:
            self._told = told
        if self._control is not None:
            with contextlib.suppress(OSError):  # one that is gone is replaced at the next check
                self._control.send(told)

    def replies(self) -> list[bytes]:
        """What it has sent. Raises HeartbeatProcessFailed if none can be kept alive."""
        bodies: list[bytes] = []
        while self._control is not None:
            chunk = receive(self._control, CHUNK)
            if chunk is None:
                break
            if isinstance(chunk, str):
                self.replace("it is gone")
                break
            bodies += self._reader.feed(chunk)
        return bodies

    def check(self) -> None:
        """Replace it if it stands still. Cheap: at every call of the SDK. One that is gone is noticed by ``replies``,
        since its end of the socket is nobody else's. Raises HeartbeatProcessFailed."""
        now_s = time.monotonic()
        if self._process is not None and now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            loops = self._memory.loops()
            self._still = self._still + 1 if loops == self._loops else 0
            self._begun = self._begun or not self._still
            self._loops = loops
            if self._still >= LOOKS and (self._begun or now_s - self._began_s > START_S):
                self.replace("it stands still")

    def replace(self, why: str) -> None:
        """Raises HeartbeatProcessFailed if none can be kept alive."""
        ended = self._end()
        now_s = time.monotonic()
        self._deaths = [at_s for at_s in self._deaths if now_s - at_s < RESTARTS_S] + [now_s]
        if len(self._deaths) > RESTARTS:
            died = f"the heartbeat process of {self._called} died {len(self._deaths)} times in {RESTARTS_S:.0f} s"
            raise HeartbeatProcessFailed(f"{died} ({why}: {ended})", "see what it wrote to standard error")
        log.warning("heartbeat process of %s: %s (%s); another one goes on", self._called, why, ended)
        self.replaced += 1
        self.start()

    def _end(self) -> int:
        """How it ended."""
        _alive.discard(self)
        if self._control is not None:
            self._control.close()
            self._control = None
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        return process.wait()

    def close(self) -> None:
        self._end()

    def forget(self) -> None:
        """In a forked child, whose process this is not: close our copy of the socket, reap nobody."""
        if self._control is not None:
            detach(self._control)


_alive: WeakSet[HeartbeatProcess] = WeakSet()


def _after_fork() -> None:
    """A forked child must not keep the control socket open: the process would take it for a living training."""
    for process in list(_alive):
        process.forget()


os.register_at_fork(after_in_child=_after_fork)


def _environment() -> dict[str, str]:
    known = {Path(folder) for folder in [*site.getsitepackages(), site.getusersitepackages()]}
    if ROOT in known:
        return dict(os.environ)
    path = [entry for entry in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if entry]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}
