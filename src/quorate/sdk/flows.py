"""What a worker does, written once: each call as a generator that yields until when to wait for news.

A shell runs a flow: it sends what the flow put into the mirror's outbox, waits until something was fed or the time has
come, and goes on. The shell for threads blocks meanwhile, the shell for asyncio awaits; neither decides anything.

Two rules for whoever reads on. Bad news comes first: a call that finds the worker ended, or set back, raises that
before it does anything. And nobody waits for ever: every wait ends with an answer, with bad news, or when the
coordinator has been away for longer than ``give_up_s``.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Generator
from typing import Any, Final, TypeVar

from quorate.core.cluster.views import Passage
from quorate.core.codec import said_s
from quorate.core.errors import ConfigError, Refusal
from quorate.sdk.drain import Drain
from quorate.sdk.errors import (
    BarrierAborted,
    BarrierTimeout,
    Draining,
    Setback,
    Stopped,
    Unreachable,
    WorkerError,
    again,
    from_refusal,
)
from quorate.sdk.mirror import Mirror
from quorate.sdk.page import Page

T = TypeVar("T")
Flow = Generator[float | None, None, T]

MAX_COUNT: Final = 2**53
SET_BACK: Final = frozenset({"member_gone", "stale_token"})


class Flows:
    def __init__(self, mirror: Mirror, page: Page, drain: Drain, auto: bool) -> None:
        self._mirror = mirror
        self._page = page
        self._drain = drain
        self._auto = auto
        self._patience = mirror.settings.patience
        self._entering = False

    # -- coming and going -------------------------------------------------------------------------------------------

    def begin(self) -> Flow[None]:
        mirror = self._mirror
        until = _now() + self._patience.connect_timeout_s
        while not mirror.joined:
            if mirror.ended is not None:
                raise again(mirror.ended)
            if mirror.turned is not None:
                raise from_refusal(mirror.turned)
            if _now() >= until:
                raise self._unreachable(f"for {self._patience.connect_timeout_s:g} s")
            yield until
        if self._auto:
            yield from self._take_part()

    def leave(self, reason: str, error: WorkerError) -> Flow[None]:
        """Say goodbye and wait a moment for the answer. From here on every call raises ``error``."""
        mirror = self._mirror
        over = mirror.ended is not None or not mirror.joined or self._away_for_too_long()
        mirror.ended = mirror.ended or error
        if over:
            return
        until = _now() + self._patience.leave_s
        number = mirror.do("left", reason=_plain(reason)[:256])
        try:
            while mirror.answer(number) is None and not mirror.finished and _now() < until:
                yield until
        finally:
            mirror.abandon(number)

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
        until = None if give_up_s is None else _now() + give_up_s
        while not mirror.takes_part:
            if self._entering or not mirror.joined:
                if until is not None and _now() >= until and not mirror.joined:
                    raise self._not_let_in(f"for give_up_s = {give_up_s:g}")
                yield from self._news(until)
                continue
            self._entering = True
            try:
                yield from self.recovered() if mirror.state == "Recovering" else self.ready()
            finally:
                self._entering = False

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
        until = None if timeout_s is None else _now() + timeout_s
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
            if (end := self._drain_until()) is not None and _now() >= end:
                why = f"barrier {name} did not open within {self._patience.drain_s:g} s"
                yield from self._leave_draining(why, None)
            if until is not None and _now() >= until:
                raise BarrierTimeout(f"barrier {name} did not open for step {step} in the time this call had")
            yield from self._news(_sooner(until, end))

    def _hold(self) -> Flow[None]:
        """An operator's pause: everybody stays here until resume."""
        while self._mirror.paused and self._drain.since_s is None:
            yield from self._news()

    def _drain_until(self) -> float | None:
        since_s = self._drain.since_s
        return None if since_s is None else since_s + self._patience.drain_s

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
        if mirror.ended is not None:
            raise again(mirror.ended)
        if mirror.setback is not None:
            setback, mirror.setback = mirror.setback, None
            raise again(setback)
        if mirror.stop is not None:
            reason = str(mirror.stop.arguments.get("reason", ""))
            error = Stopped(f"an operator stopped this worker{': ' if reason else ''}{reason}")
            yield from self.leave(f"stopped by an operator {reason}".strip(), error)
            raise error

    def _command(self, event: str, **fields: Any) -> Flow[None]:
        number = self._mirror.do(event, **fields)
        try:
            while (answer := self._mirror.answer(number)) is None:
                yield from self._news()
        finally:
            self._mirror.abandon(number)
        if isinstance(answer, Refusal):
            yield from self._bad_news()
            raise self._error(answer)

    def _error(self, refusal: Refusal) -> WorkerError:
        """A request that bad news made void raises the news, in every thread that waited."""
        known: Setback | None = self._mirror.last_setback
        return again(known) if known is not None and refusal.code in SET_BACK else from_refusal(refusal)

    def _news(self, until: float | None = None) -> Flow[None]:
        """Wait for any, at most until the coordinator has been away for too long. Bad news is raised."""
        yield from self._bad_news()
        if self._away_for_too_long():
            raise self._unreachable(f"for longer than give_up_s = {self._patience.give_up_s:g}")
        yield _sooner(until, self._away_until())

    def _away_until(self) -> float | None:
        """When the coordinator has been away for too long; None while it is there."""
        outage, give_up_s = self._mirror.outage, self._patience.give_up_s
        return None if outage is None or give_up_s is None else outage.since_us / 1e6 + give_up_s

    def _away_for_too_long(self) -> bool:
        end = self._away_until()
        return end is not None and _now() >= end

    def _not_let_in(self, waited: str) -> WorkerError:
        """A new life that does not begin, such as in a fleet that is full by now."""
        turned = self._mirror.turned
        return self._unreachable(waited) if turned is None else from_refusal(turned)

    def _unreachable(self, waited: str) -> Unreachable:
        settings, outage = self._mirror.settings, self._mirror.outage
        scheme = "tcps" if settings.tls else "tcp"
        if outage is None:
            found = f"is there, but did not let {settings.member} in" if self._mirror.found else "has not answered"
            return Unreachable(f"{scheme}://{settings.addresses[0]} {found} {waited}")
        since = said_s(max(0, round(_now() * 1e6) - outage.since_us))
        tried = f"tried {outage.tries} times in {since}, last at {scheme}://{outage.where}: {outage.why}"
        return Unreachable(f"no coordinator for run {settings.run!r} {waited} ({tried})")


def _check_barrier(name: str, step: int) -> tuple[str, int]:
    """What the coordinator could not read, nobody would answer."""
    if not 1 <= len(name) <= 128 or _plain(name) != name:
        raise ConfigError("barrier", name, "a name of 1 to 128 characters")
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if not 0 <= number <= MAX_COUNT:
        raise ConfigError("step", step, "a whole number from 0 on")
    return name, number


def _plain(text: str) -> str:
    """What can be written as UTF-8; file names and messages of exceptions may hold other things."""
    return text.encode("utf-8", "replace").decode()


def _sooner(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _now() -> float:
    return time.monotonic()
