"""What a worker is, however it waits: progress, reports and orders.

``Worker`` blocks and ``AsyncWorker`` awaits; both stand on this.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from quoracy.core.errors import ConfigError
from quoracy.sdk.companion import Companion, log
from quoracy.sdk.errors import Closed, again
from quoracy.sdk.flows import MAX_COUNT, Flows
from quoracy.sdk.metrics import MAX_VALUE, check_metrics, check_number
from quoracy.sdk.mirror import Mirror, Order
from quoracy.sdk.page import MAX_TASK
from quoracy.sdk.settings import Settings

GLANCE_S: Final = 1.0
"""How often ``progress`` looks whether the sidecar is still there."""

OnOrder = Callable[[Order], None]


class BaseWorker(Companion[Mirror]):
    def __init__(self, settings: Settings, *, auto: bool, on_order: OnOrder | None) -> None:
        super().__init__(Mirror(settings, secrets.token_bytes(32)))
        self._flows = Flows(self._mirror, self._page, self._drain, auto)
        self._on_order = on_order
        self._look_s = 0.0
        self._measured: frozenset[str] = frozenset()
        """The names of all metrics that were ever reported."""
        self._told: set[str] = set()

    # -- what the script sees ---------------------------------------------------------------------------------------

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

    # -- underneath -------------------------------------------------------------------------------------------------

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
