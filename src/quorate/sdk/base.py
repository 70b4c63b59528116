"""What a worker is, however it waits: its mirror, its page, its sidecar, and all that needs no waiting.

``Worker`` blocks and ``AsyncWorker`` awaits; both stand on this.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from quorate.core.errors import ConfigError
from quorate.sdk.drain import Drain
from quorate.sdk.errors import Closed, Forked, SidecarFailed, again
from quorate.sdk.flows import MAX_COUNT, Flows
from quorate.sdk.metrics import MAX_VALUE, check_metrics, check_number
from quorate.sdk.mirror import Mirror, Order
from quorate.sdk.page import MAX_TASK, Page
from quorate.sdk.settings import Settings
from quorate.sdk.spawn import Child

WATCH_S: Final = 5.0
"""How long a wait may be without a look at the sidecar."""
WATCHES: Final = 3
"""A sidecar that has not turned during so many looks in a row is stopped or stuck, and replaced."""
RESTARTS: Final = 5
RESTARTS_S: Final = 60.0
"""More deaths of sidecars than this in this time, and the worker gives up."""
GLANCE_S: Final = 1.0
"""How often ``progress`` looks whether the sidecar is still there."""
CHUNK: Final = 1 << 16

log = logging.getLogger("quorate")
OnOrder = Callable[[Order], None]


class BaseWorker:
    def __init__(self, settings: Settings, *, auto: bool, on_order: OnOrder | None) -> None:
        self._pid = os.getpid()
        self._mirror = Mirror(settings, secrets.token_bytes(32))
        self._page = Page.create()
        self._bell_read, self._bell_write = os.pipe()
        os.set_blocking(self._bell_read, False)
        os.set_blocking(self._bell_write, False)
        self._drain = Drain(self._ring)
        self._flows = Flows(self._mirror, self._page, self._drain, auto)
        self._on_order = on_order
        self._deaths: list[float] = []
        self._turns, self._still = -1, 0
        self._closed = self._released = False
        self._look_s = 0.0
        self._measured: frozenset[str] = frozenset()
        """The names of all metrics that were ever reported."""
        self._told: set[str] = set()
        try:
            self._child = self._new_child()
        except BaseException:
            self._release()
            raise
        _alive.add(self)

    # -- what the script sees ---------------------------------------------------------------------------------------

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
    def rank(self) -> int:
        """The lowest number that nobody else had when this life began."""
        return self._mirror.rank

    @property
    def state(self) -> str:
        """What the coordinator takes this worker to do, as far as is known here."""
        self._refresh()
        return self._mirror.state

    @property
    def recovering(self) -> bool:
        """Something has to be restored before barriers count this worker in: ``recovered`` says that it is done."""
        return self.state == "Recovering"

    @property
    def draining(self) -> bool:
        """SIGTERM has come. The next ``barrier`` passes, leaves and raises ``Draining``; whoever looks here first may
        stop by itself."""
        return self._drain.since_s is not None

    def drain(self) -> None:
        """As if SIGTERM had come: for programs that handle signals themselves."""
        self._drain.begin()

    def progress(self, amount: int = 1) -> None:
        """The training has moved. Costs less than a microsecond, so call it for every batch: a worker whose heartbeats
        go on while this does not is shown as stuck. ``barrier`` and all reports call it by themselves."""
        if os.getpid() != self._pid:
            raise self._forked()
        if self._released:
            raise again(self._mirror.ended or Closed(f"{self.member} is closed"))
        self._page.progress(amount)
        now = time.monotonic()
        if now >= self._look_s:
            self._look_s = now + GLANCE_S
            self._glance()

    def report(
        self,
        *,
        step: int | None = None,
        epoch: int | None = None,
        task: str | None = None,
        gpu: float | None = None,
        **metrics: float,
    ) -> None:
        """For people: shown with the next heartbeat. ``gpu`` is its load, from 0 to 1. Whatever else is named is a
        number that the training measures, such as ``loss=0.3``: at most 16 of them, each kept until it is reported
        again. One that is not finite is left out until it is: a loss that overflows for a step is no reason to stop."""
        self.progress()
        for name, number in (("step", step), ("epoch", epoch)):
            if number is not None and not 0 <= number <= MAX_COUNT:
                raise ConfigError(name, number, "a whole number from 0 on")
        if gpu is not None and not 0.0 <= gpu <= 1.0:
            raise ConfigError("gpu", gpu, "a share from 0 to 1")
        self._page.report(step, epoch, gpu)
        if task is not None:
            self._page.name_task(task[:MAX_TASK])
        if metrics:
            self._measure(metrics)

    def _measure(self, metrics: dict[str, Any]) -> None:
        if unknown := metrics.keys() - self._measured:
            self._measured = check_metrics(unknown, self._measured)
        numbers = {name: check_number(name, value) for name, value in metrics.items()}
        finite = {name: number for name, number in numbers.items() if abs(number) <= MAX_VALUE}
        for name in numbers.keys() - finite.keys() - self._told:
            self._told.add(name)
            log.warning("%s of %s is %s: left out until it is finite", name, self.member, numbers[name])
        self._page.measure(finite, numbers.keys() - finite.keys())

    def orders(self) -> list[Order]:
        """What operators have ordered since the last call, oldest first. ``barrier`` obeys stop, pause and resume by
        itself; the others are for the script. Empty if ``on_order`` was given: then they went there."""
        self._refresh()
        return list(self._take_orders())

    # -- the sidecar ------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Take in what has come, without waiting."""
        raise NotImplementedError

    def _glance(self) -> None:
        """The same, if nobody is in the way: from time to time, so that a sidecar that was killed is soon replaced."""
        raise NotImplementedError

    def _new_child(self) -> Child:
        child = Child("quorate.sdk.sidecar", self._page)
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

    def _deliver(self) -> None:
        """Orders for the script's own callback, in the thread that happens to be here."""
        if self._on_order is not None:
            for order in self._take_orders():
                self._on_order(order)

    def _take_orders(self) -> Iterator[Order]:
        """Each to one thread."""
        with contextlib.suppress(IndexError):
            while True:
                yield self._mirror.orders.popleft()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise self._forked()

    def _forked(self) -> Forked:
        why = f"worker {self.member} belongs to process {self._pid}, and this is its child {os.getpid()}"
        return Forked(why)

    def _release(self) -> None:
        """Everything this worker holds."""
        self._released = True
        self._drain.remove()
        _alive.discard(self)
        self._page.close()
        os.close(self._bell_read)
        os.close(self._bell_write)


_alive: set[BaseWorker] = set()
"""Those that nobody has closed. One that its script has lost sight of lives on, as its process does."""


def _after_fork() -> None:
    """A forked child must not keep the socket open: the sidecar would take it for a living training."""
    for worker in _alive:
        worker._child.forget()


os.register_at_fork(after_in_child=_after_fork)
