"""The worker of a training script that blocks. Any number of threads may use it."""

from __future__ import annotations

import atexit
import os
from types import TracebackType

from quoracy.core.cluster.views import Passage
from quoracy.sdk.base import BaseWorker, OnOrder
from quoracy.sdk.errors import Closed, WorkerError, reason_of
from quoracy.sdk.mirror import Mirror
from quoracy.sdk.settings import Settings
from quoracy.sdk.waiting import Waiting


class Worker(BaseWorker, Waiting[Mirror]):
    """Made by ``quoracy.connect``. Leave it with ``with``, or with ``close``."""

    def __init__(
        self, settings: Settings, *, auto: bool, handle_sigterm: bool | None, on_order: OnOrder | None
    ) -> None:
        super().__init__(settings, auto=auto, on_order=on_order)
        try:
            self._drain.install(handle_sigterm)
            self._run(self._flows.begin())
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
        return self._run(self._flows.barrier(name, step, timeout_s))

    def next_step(self, barrier: str) -> int:
        """The step after the newest that was released: where to begin, and where to go on after a setback."""
        return self._run(self._flows.next_step(barrier))

    def ready(self) -> None:
        """Set up: barriers may count this worker in. Done by ``connect`` unless ``auto=False``."""
        self._run(self._flows.ready())

    def recovered(self) -> None:
        """Restored: barriers may count this worker in again. Done by the next call unless ``auto=False``."""
        self._run(self._flows.recovered())

    def loading(self) -> None:
        """Fetches or splits its data. Like the other states: in the journal when this returns."""
        self._run(self._flows.state("loading"))

    def training(self) -> None:
        """Processes batches."""
        self._run(self._flows.state("training"))

    def checkpointing(self) -> None:
        """Persists its part."""
        self._run(self._flows.state("checkpointing"))

    def idle(self) -> None:
        """Done with what it did."""
        self._run(self._flows.state("idle"))

    # -- going ------------------------------------------------------------------------------------------------------

    def leave(self, reason: str = "done") -> None:
        """Say goodbye: nobody waits for this worker any more. Every further call raises ``Closed``."""
        self._run(self._flows.leave(reason, Closed(f"{self.member} has left: {reason}")))

    def close(self, reason: str = "done") -> None:
        """Leave, unless that was done, and end the sidecar. May be called again. A script that ends without it leaves
        all the same; one that dies does not, and is missed."""
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
