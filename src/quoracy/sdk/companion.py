"""What a training process holds to be heard of, whatever the kind: a reflection, a page, a sidecar, and a bell.

The sidecar is watched and replaced here; the waiting is done by whoever stands on this.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any, Final, Generic, TypeVar

from quoracy.sdk.drain import Drain
from quoracy.sdk.errors import Forked, SidecarFailed
from quoracy.sdk.page import Page
from quoracy.sdk.reflection import Reflection
from quoracy.sdk.spawn import Child

WATCH_S: Final = 5.0
"""How long a wait may be without a look at the sidecar."""
WATCHES: Final = 3
"""A sidecar that has not turned during so many looks in a row is stopped or stuck, and replaced."""
RESTARTS: Final = 5
RESTARTS_S: Final = 60.0
"""More deaths of sidecars than this in this time, and the member gives up."""
CHUNK: Final = 1 << 16

log = logging.getLogger("quoracy")
M = TypeVar("M", bound=Reflection)


class Companion(Generic[M]):
    def __init__(self, mirror: M) -> None:
        self._pid = os.getpid()
        self._mirror = mirror
        self._page = Page.create()
        self._bell_read, self._bell_write = os.pipe()
        os.set_blocking(self._bell_read, False)
        os.set_blocking(self._bell_write, False)
        self._drain = Drain(self._ring)
        self._deaths: list[float] = []
        self._turns, self._still = -1, 0
        self._closed = self._released = False
        try:
            self._child = self._new_child()
        except BaseException:
            self._release()
            raise
        _alive.add(self)

    @property
    def run(self) -> str:
        return self._mirror.settings.run

    @property
    def member(self) -> str:
        return self._mirror.settings.member

    @property
    def incarnation(self) -> int:
        """Which life of the member this is; 0 while a new one begins."""
        return self._mirror.known.incarnation

    @property
    def draining(self) -> bool:
        """SIGTERM has come: what is under way is brought to an end, and then this member leaves."""
        return self._drain.since_s is not None

    def drain(self) -> None:
        """As if SIGTERM had come: for programs that handle signals themselves."""
        self._drain.begin()

    # -- the sidecar ------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Take in what has come, without waiting."""
        raise NotImplementedError

    def _glance(self) -> None:
        """The same, if nobody is in the way: from time to time, so that a sidecar that was killed is soon replaced."""
        raise NotImplementedError

    def _deliver(self) -> None:
        """After every call: what the script's own callbacks are told, in the thread that happens to be here."""

    def _new_child(self) -> Child:
        child = Child("quoracy.sdk.sidecar", self._page)
        self._mirror.start()
        self._flush(child)
        return child

    def _flush(self, child: Child) -> None:
        out, self._mirror.outbox = self._mirror.outbox, []
        if out:
            try:
                child.sock.sendall(b"".join(out))
            except OSError:
                log.debug("the sidecar does not read; its end will be noticed by whoever waits for it")

    def _replace_child(self, why: str) -> None:
        """Go on with another sidecar, in the same life: what was open is asked again, and nothing happens twice."""
        ended = self._child.kill()
        mirror = self._mirror
        if mirror.ended is not None:
            mirror.finished = True
            mirror.version += 1
            return
        now = time.monotonic()
        self._deaths = [at for at in self._deaths if now - at < RESTARTS_S] + [now]
        mirror.restarts += 1
        if len(self._deaths) > RESTARTS:
            died = f"the sidecar of {self.member} died {len(self._deaths)} times in {RESTARTS_S:.0f} s ({why}: {ended})"
            mirror.ended = SidecarFailed(died, "see what it wrote to standard error")
        else:
            log.warning("sidecar of %s: %s (%s); another one goes on in the same life", self.member, why, ended)
            self._child = self._new_child()
        mirror.version += 1

    def _sidecar_stands_still(self) -> bool:
        """Called when a wait of ``WATCH_S`` brought nothing. Judged by counting waits and not by the clock, because
        this process may have been stopped as well."""
        turns = self._page.turns()
        self._still = self._still + 1 if turns == self._turns else 0
        self._turns = turns
        return self._still >= WATCHES

    def _ring(self) -> None:
        """Wake whoever waits. Called by the signal handler: does nothing else."""
        try:
            os.write(self._bell_write, b"!")
        except (BlockingIOError, OSError):
            return

    def _rang(self) -> None:
        try:
            os.read(self._bell_read, 64)
        except (BlockingIOError, OSError):
            return

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise self._forked()

    def _forked(self) -> Forked:
        called = self._mirror.called
        why = f"{called} {self.member} belongs to process {self._pid}, and this is its child {os.getpid()}"
        return Forked(why)

    def _release(self) -> None:
        """Everything this member holds."""
        self._released = True
        self._drain.remove()
        _alive.discard(self)
        self._page.close()
        os.close(self._bell_read)
        os.close(self._bell_write)


_alive: set[Companion[Any]] = set()
"""Those that nobody has closed. One that its script has lost sight of lives on, as its process does."""


def _after_fork() -> None:
    """A forked child must not keep the socket open: the sidecar would take it for a living training."""
    for companion in _alive:
        companion._child.forget()


os.register_at_fork(after_in_child=_after_fork)
