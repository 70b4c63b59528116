"""What a worker does: coming and going, reporting, and barriers, as flows."""

from __future__ import annotations

import operator
from typing import Any, Final

from quoracy.core.cluster.views import Passage
from quoracy.core.errors import ConfigError, Refusal
from quoracy.sdk.companion import log
from quoracy.sdk.drain import Drain
from quoracy.sdk.errors import (
    BarrierAborted,
    BarrierTimeout,
    Draining,
    Setback,
    Stopped,
    WorkerError,
    again,
    from_refusal,
)
from quoracy.sdk.flowing import Flow, Flowing, now, plain, sooner
from quoracy.sdk.mirror import Mirror
from quoracy.sdk.page import Page

MAX_COUNT: Final = 2**53
SET_BACK: Final = frozenset({"member_gone", "stale_token"})


class Flows(Flowing[Mirror]):
    def __init__(self, mirror: Mirror, page: Page, drain: Drain, auto: bool) -> None:
        super().__init__(mirror, page, drain)
        self._auto = auto
        self._entering = False
        self._said = ""

    # -- coming and going -------------------------------------------------------------------------------------------

    def begin(self) -> Flow[None]:
        mirror = self._mirror
        until = now() + self._patience.connect_timeout_s
        while not mirror.joined:
            if mirror.ended is not None:
                raise again(mirror.ended)
            if mirror.turned is not None:
                if not mirror.settings.waits_out(mirror.turned):
                    raise from_refusal(mirror.turned)
                self._tell_once(f"{mirror.turned.why}; waits until somebody creates it")
                until = now() + self._patience.connect_timeout_s
            if now() >= until:
                raise self._unreachable(f"for {self._patience.connect_timeout_s:g} s")
            yield until
        if self._auto:
            yield from self._take_part()

    def ready(self) -> Flow[None]:
        yield from self._bad_news()
        yield from self._command("ready")
        while self._mirror.state in ("", "Initializing"):
            yield from self._news()

    def recovered(self) -> Flow[None]:
        yield from self._bad_news()
        yield from self._command("idle", fence=self._mirror.known.fence)
        while not self._mirror.takes_part:
            yield from self._news()

    def _take_part(self) -> Flow[None]:
        """Whatever it takes until barriers wait for this worker: a new life, getting ready, having recovered."""
        mirror, give_up_s = self._mirror, self._patience.give_up_s
        until = None if give_up_s is None else now() + give_up_s
        while not mirror.takes_part:
            if self._entering or not mirror.joined:
                if until is not None and now() >= until and not mirror.joined:
                    raise self._not_let_in(f"for give_up_s = {give_up_s:g}")
                yield from self._news(until)
                continue
            self._entering = True
            try:
                yield from self.recovered() if mirror.state == "Recovering" else self.ready()
            finally:
                self._entering = False

    def _tell_once(self, what: str) -> None:
        """To the log: why it waits, whenever that is something else."""
        if what != self._said:
            self._said = what
            log.info("%s: %s", self._mirror.settings.member, what)

    # -- reporting --------------------------------------------------------------------------------------------------

    def state(self, event: str) -> Flow[None]:
        """Report what the worker does; in the journal when it returns."""
        yield from self._usable()
        self._page.progress()
        fields = {"fence": self._mirror.known.fence} if event in ("idle", "loading") else {}
        yield from self._command(event, **fields)

    def next_step(self, barrier: str) -> Flow[int]:
        yield from self._usable()
        return self._mirror.next_step(barrier)

    # -- barriers ---------------------------------------------------------------------------------------------------

    def barrier(self, name: str, step: int, timeout_s: float | None) -> Flow[Passage]:
        name, step = _check_barrier(name, step)
        until = None if timeout_s is None else now() + timeout_s
        yield from self._usable()
        self._page.progress()
        self._page.report(step)
        passage = self._mirror.outcome(name, step)
        if passage is None:
            number = self._mirror.stand(name, step)
            try:
                passage = yield from self._settled(number, name, step, until)
            finally:
                self._mirror.abandon(number)
        if passage.released:
            yield from self._hold()
        self._page.progress()
        if self._drain.since_s is not None and passage.released:
            yield from self._leave_draining(f"step {passage.step} counts", passage)
        if self._drain.since_s is not None:
            yield from self._leave_draining(f"the barrier was aborted ({passage.reason})", None)
        if not passage.released:
            raise BarrierAborted(passage)
        return passage

    def _settled(self, number: int, name: str, step: int, until: float | None) -> Flow[Passage]:
        mirror = self._mirror
        while True:
            answer = mirror.answer(number)
            if isinstance(answer, Passage):
                return answer
            yield from self._bad_news()
            if isinstance(answer, Refusal):
                raise self._error(answer)
            if (end := self._drain_until()) is not None and now() >= end:
                why = f"barrier {name} did not open within {self._patience.drain_s:g} s"
                yield from self._leave_draining(why, None)
            if until is not None and now() >= until:
                raise BarrierTimeout(f"barrier {name} did not open for step {step} in the time this call had")
            yield from self._news(sooner(until, end))

    def _hold(self) -> Flow[None]:
        """An operator's pause: everybody stays here until resume."""
        held = self._mirror.paused
        while self._mirror.paused and self._drain.since_s is None:
            self._tell_once("an operator's pause: held here until resume")
            yield from self._news()
        if held:
            self._tell_once("goes on after an operator's pause")

    def _leave_draining(self, what: str, passage: Passage | None) -> Flow[None]:
        error = Draining(f"SIGTERM came, {what}, and this worker has left", passage)
        yield from self.leave("drained after SIGTERM", error)
        raise error

    # -- underneath -------------------------------------------------------------------------------------------------

    def _usable(self) -> Flow[None]:
        yield from self._bad_news()
        if self._auto:
            yield from self._take_part()

    def _bad_news(self) -> Flow[None]:
        mirror = self._mirror
        yield from super()._bad_news()
        if mirror.setback is not None:
            setback, mirror.setback = mirror.setback, None
            raise again(setback)
        if mirror.stop is not None:
            reason = str(mirror.stop.arguments.get("reason", ""))
            error = Stopped(f"an operator stopped this worker{': ' if reason else ''}{reason}")
            yield from self.leave(f"stopped by an operator {reason}".strip(), error)
            raise error

    def _command(self, event: str, **fields: Any) -> Flow[None]:
        answer = yield from self._ask(event, **fields)
        if isinstance(answer, Refusal):
            yield from self._bad_news()
            raise self._error(answer)

    def _error(self, refusal: Refusal) -> WorkerError:
        """A request that bad news made void raises the news, in every thread that waited."""
        known: Setback | None = self._mirror.last_setback
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
