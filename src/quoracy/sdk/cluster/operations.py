"""What a worker does: coming and going, reporting, and barriers, as operations."""

from __future__ import annotations

import operator
import time
from typing import Any, Final

from quoracy.core.cluster.events import (
    WorkerCheckpointing,
    WorkerIdle,
    WorkerLoading,
    WorkerReady,
    WorkerTraining,
)
from quoracy.core.cluster.views import Passage
from quoracy.core.errors import ConfigError, Refusal
from quoracy.core.machine import MemberEvent
from quoracy.sdk.client.errors import Draining, Stopped, WorkerError, again, from_refusal
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.operation import DRAINED, Operation, Operations, Steps, now, plain, sooner
from quoracy.sdk.client.sigterm import Drain
from quoracy.sdk.cluster.client import Wait, WorkerClient
from quoracy.sdk.cluster.errors import BarrierAborted, BarrierTimeout, Setback

MAX_COUNT: Final = 2**53
SHOWN_AFTER_S: Final = 0.2
SET_BACK: Final = frozenset({"member_gone", "stale_token"})
STATES: Final[dict[str, type[MemberEvent]]] = {
    "loading": WorkerLoading, "training": WorkerTraining, "checkpointing": WorkerCheckpointing, "idle": WorkerIdle,
}  # fmt: skip


class WorkerOperations(Operations[WorkerClient]):
    def __init__(self, client: WorkerClient, memory: Memory, drain: Drain, auto: bool) -> None:
        super().__init__(client, memory, drain)
        self._auto = auto
        self._entering = False

    # -- coming and going -------------------------------------------------------------------------------------------

    def begin(self) -> Operation[None]:
        yield from self.join()
        if self._auto:
            yield from self._take_part()

    def ready(self) -> Operation[None]:
        yield from self._bad_news()
        yield from self._command(WorkerReady)
        while self._client.state in ("", "Initializing"):
            yield from self._news()

    def recovered(self) -> Operation[None]:
        yield from self._bad_news()
        yield from self._command(WorkerIdle, fence=self._client.session.fence)
        while not self._client.takes_part:
            yield from self._news()

    def _take_part(self) -> Operation[None]:
        """Whatever it takes until barriers wait for this worker: a new incarnation, getting ready, having recovered."""
        client, give_up_s = self._client, self._timeouts.give_up_s
        until = None if give_up_s is None else now() + give_up_s
        while not client.takes_part:
            if self._entering or not client.joined:
                if until is not None and now() >= until and not client.joined:
                    raise self._not_let_in(f"for give_up_s = {give_up_s:g}")
                yield from self._news(until)
                continue
            self._entering = True
            try:
                yield from self.recovered() if client.state == "Recovering" else self.ready()
            finally:
                self._entering = False

    # -- reporting --------------------------------------------------------------------------------------------------

    def state(self, state: str) -> Operation[None]:
        """Report what the worker does; in the journal when it returns."""
        yield from self._usable()
        self._memory.progress()
        event = STATES[state]
        fenced = {"fence": self._client.session.fence} if "fence" in event.__struct_fields__ else {}
        yield from self._command(event, **fenced)

    def next_step(self, barrier: str) -> Operation[int]:
        yield from self._usable()
        return self._client.session.next_step(barrier)

    # -- barriers ---------------------------------------------------------------------------------------------------

    def barrier(self, name: str, step: int, timeout_s: float | None) -> Operation[Passage]:
        name, step = _check_barrier(name, step)
        until = None if timeout_s is None else now() + timeout_s
        yield from self._usable()
        self._memory.progress()
        self._memory.report(step)
        wait = self._client.arrive(name, step, time.monotonic_ns() // 1000)
        if isinstance(wait, Refusal):
            raise self._error(wait)
        passage: Passage | None = None
        try:
            passage = yield from self._settled(wait, step, until)
        finally:
            self._client.stop_waiting(wait, passage is not None)
        if passage.released and self._client.paused:
            yield from self._hold()
        self._memory.progress()
        if self._drain.since_s is not None and passage.released:
            yield from self._leave_draining(f"step {passage.step} counts", passage)
        if self._drain.since_s is not None:
            yield from self._leave_draining(f"the barrier was aborted ({passage.reason})", None)
        if not passage.released:
            raise BarrierAborted(passage)
        return passage

    def _settled(self, wait: Wait, step: int, until: float | None) -> Operation[Passage]:
        """A wait that lasts is shown to people: most do not."""
        shows: float | None = now() + SHOWN_AFTER_S
        while True:
            if isinstance(wait.ended, Passage):
                return wait.ended
            yield from self._bad_news()
            if isinstance(wait.ended, Refusal):
                raise self._error(wait.ended)
            if (end := self._drain_until()) is not None and now() >= end:
                why = f"barrier {wait.barrier} did not open within {self._timeouts.drain_s:g} s"
                yield from self._leave_draining(why, None)
            if until is not None and now() >= until:
                raise BarrierTimeout(f"barrier {wait.barrier} did not open for step {step} in the time this call had")
            yield from self._news(sooner(sooner(until, end), shows))
            if shows is not None and now() >= shows:
                self._client.show_waits()
                shows = None

    def _hold(self) -> Operation[None]:
        """An operator's pause: everybody stays here until resume."""
        while self._client.paused and self._drain.since_s is None:
            self._tell_once("an operator's pause: held here until resume")
            yield from self._news()
        self._tell_once("goes on after an operator's pause")

    def _leave_draining(self, what: str, passage: Passage | None) -> Operation[None]:
        error = Draining(f"SIGTERM came, {what}, and this worker has left", passage)
        yield from self.leave(DRAINED, error)
        raise error

    # -- underneath -------------------------------------------------------------------------------------------------

    def _usable(self) -> Operation[None]:
        yield from self._bad_news()
        if self._auto and not self._client.takes_part:
            yield from self._take_part()

    def _bad_news(self) -> Steps:
        client = self._client
        if client.ended is None and client.setback is None and client.stop is None:
            return ()
        return self._raise_bad_news()

    def _raise_bad_news(self) -> Operation[None]:
        client = self._client
        if client.ended is not None:
            raise again(client.ended)
        if client.setback is not None:
            setback, client.setback = client.setback, None
            raise again(setback)
        if client.stop is not None:
            reason = str(client.stop.arguments.get("reason", ""))
            error = Stopped(f"an operator stopped this worker{': ' if reason else ''}{reason}")
            yield from self.leave(f"stopped by an operator {reason}".strip(), error)
            raise error

    def _command(self, event: type[MemberEvent], **fields: Any) -> Operation[None]:
        answer = yield from self._ask(event, **fields)
        if isinstance(answer, Refusal):
            yield from self._bad_news()
            raise self._error(answer)

    def _error(self, refusal: Refusal) -> WorkerError:
        """A request that bad news made void raises the news, in every thread that waited."""
        known: Setback | None = self._client.last_setback
        return again(known) if known is not None and refusal.code in SET_BACK else from_refusal(refusal)


def _check_barrier(name: str, step: int) -> tuple[str, int]:
    """What the coordinator could not read, nobody would answer."""
    if not 1 <= len(name) <= 128 or plain(name) != name:
        raise ConfigError("barrier", name, "a name of 1 to 128 characters")
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if not 0 <= number <= MAX_COUNT:
        raise ConfigError("step", step, "a whole number from 0 on")
    return name, number
