"""A worker of a run: what ``quoracy.connect`` returns. Any number of threads may use it."""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final

from quoracy.core.cluster.views import Passage
from quoracy.core.errors import ConfigError
from quoracy.sdk.client.driver import Driver, log
from quoracy.sdk.client.errors import Closed, WorkerError, again, reason_of
from quoracy.sdk.client.memory import MAX_TASK
from quoracy.sdk.client.metrics import MAX_VALUE, check_metrics, check_number
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.sync import BlockingDriver
from quoracy.sdk.cluster.client import Order, WorkerClient
from quoracy.sdk.cluster.operations import MAX_COUNT, WorkerOperations
from quoracy.sdk.cluster.session import WorkerSession

GLANCE_S: Final = 1.0
"""How often ``progress`` looks whether the heartbeat process is still there."""

OnOrder = Callable[[Order], None]


class BaseWorker(Driver[WorkerClient]):
    """What a worker is, however it waits: progress, reports and commands."""

    def _prepare(self, auto: bool, on_order: OnOrder | None) -> None:
        self._operations = WorkerOperations(self._client, self._memory, self._drain, auto)
        self._on_order = on_order
        self._look_s = 0.0
        self._measured: frozenset[str] = frozenset()
        """The names of all metrics that were ever reported."""
        self._told: set[str] = set()

    # -- what the script sees ---------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The lowest number that nobody else had when this life began."""
        return self._client.rank

    @property
    def state(self) -> str:
        """What the coordinator takes this worker to do, as far as is known here."""
        self._refresh()
        return self._client.state

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
        go on while this does not is shown as stuck. ``barrier`` and all reports call it by themselves. Raises
        ``Setback`` if the coordinator declared this worker dead meanwhile: a new incarnation has begun."""
        if os.getpid() != self._pid:
            raise self._forked()
        if self._released:
            raise again(self._client.ended or Closed(f"{self.member} is closed"))
        memory = self._memory
        memory.progress(amount)
        now = time.monotonic()
        if now >= self._look_s or memory.dead_incarnation() == self._client.incarnation:
            self._look_s = now + GLANCE_S
            self._glance()
            if self._client.setback is not None:
                setback, self._client.setback = self._client.setback, None
                raise again(setback)

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
        self._memory.report(step, epoch, gpu)
        if task is not None:
            self._memory.name_task(task[:MAX_TASK])
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
        self._memory.measure(finite, numbers.keys() - finite.keys())

    def orders(self) -> list[Order]:
        """What operators have ordered since the last call, oldest first. ``barrier`` obeys stop, pause and resume by
        itself; the others are for the script. Empty if ``on_order`` was given: then they went there."""
        self._refresh()
        return list(self._take_orders())

    # -- underneath -------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Take in what has come, without waiting."""
        raise NotImplementedError

    def _glance(self) -> None:
        """The same, if nobody is in the way."""
        raise NotImplementedError

    def _deliver(self) -> None:
        """Orders for the script's own callback, in the thread that happens to be here."""
        if self._on_order is not None:
            for order in self._take_orders():
                self._on_order(order)

    def _take_orders(self) -> Iterator[Order]:
        """Each to one thread."""
        with contextlib.suppress(IndexError):
            while True:
                yield self._client.orders.popleft()


class Worker(BlockingDriver[WorkerClient], BaseWorker):
    """Made by ``quoracy.connect``. Leave it with ``with``, or with ``close``."""

    def __init__(
        self, settings: Settings, *, auto: bool, handle_sigterm: bool | None, on_order: OnOrder | None
    ) -> None:
        super().__init__(settings, WorkerSession, WorkerClient)
        self._prepare(auto, on_order)
        try:
            self._drain.install(handle_sigterm)
            self._run(self._operations.begin())
        except BaseException as error:
            self.close(reason_of(error))
            raise
        atexit.register(self.close, "its process ended")

    # -- barriers and states ----------------------------------------------------------------------------------------

    def barrier(self, name: str, step: int, timeout_s: float | None = None) -> Passage:
        """Stand at the barrier until all who take part stand there at the same step.

        Returns how it ended: ``generation``, and this worker's place ``order`` among ``of`` arrivals. Goes on across
        restarts of the coordinator. Holds while an operator's pause lasts. Raises, among others, ``BarrierAborted``
        (ask ``next_step`` and arrive again), ``Setback`` (restore first), ``Ended`` (stop), ``BarrierTimeout`` (after
        ``timeout_s``; without it the run's own deadline ends the wait), ``Unreachable``.
        """
        return self._run(self._operations.barrier(name, step, timeout_s))

    def next_step(self, barrier: str) -> int:
        """The step after the newest that was released: where to begin, and where to go on after a setback."""
        return self._run(self._operations.next_step(barrier))

    def ready(self) -> None:
        """Set up: barriers may count this worker in. Done by ``connect`` unless ``auto=False``."""
        self._run(self._operations.ready())

    def recovered(self) -> None:
        """Restored: barriers may count this worker in again. Done by the next call unless ``auto=False``."""
        self._run(self._operations.recovered())

    def loading(self) -> None:
        """Fetches or splits its data. Like the other states: in the journal when this returns."""
        self._run(self._operations.state("loading"))

    def training(self) -> None:
        """Processes batches."""
        self._run(self._operations.state("training"))

    def checkpointing(self) -> None:
        """Persists its part."""
        self._run(self._operations.state("checkpointing"))

    def idle(self) -> None:
        """Done with what it did."""
        self._run(self._operations.state("idle"))

    # -- going ------------------------------------------------------------------------------------------------------

    def leave(self, reason: str = "done") -> None:
        """Say goodbye: nobody waits for this worker any more. Every further call raises ``Closed``."""
        self._run(self._operations.leave(reason, Closed(f"{self.member} has left: {reason}")))

    def close(self, reason: str = "done") -> None:
        """Leave, unless that was done, and end the heartbeat process. May be called again. A script that ends without
        it leaves all the same; one that dies does not, and is missed."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self.leave(reason)
        except WorkerError:
            pass
        finally:
            self._end()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, _sort: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close(reason_of(error))
