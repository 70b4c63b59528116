"""What a member does, written once: each call as a generator that yields until when to wait for news.

A shell runs a flow: it sends what the flow put into the outbox, waits until something was fed or the time has come, and
goes on. The shell for threads blocks meanwhile, the shell for asyncio awaits; neither decides anything.

Two rules for whoever reads on. Bad news comes first: a call that finds the member ended raises that before it does
anything. And nobody waits for ever who did not ask for it: every wait ends with an answer, with bad news, or when the
coordinator has been away for longer than ``give_up_s``.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from quoracy.core.cluster.views import Passage
from quoracy.core.codec import said_s
from quoracy.core.errors import Refusal
from quoracy.core.members import Accepted
from quoracy.sdk.companion import M
from quoracy.sdk.drain import Drain
from quoracy.sdk.errors import Unreachable, WorkerError, again, from_refusal
from quoracy.sdk.page import Page

T = TypeVar("T")
Flow = Generator[float | None, None, T]


class Flowing(Generic[M]):
    def __init__(self, mirror: M, page: Page, drain: Drain) -> None:
        self._mirror = mirror
        self._page = page
        self._drain = drain
        self._patience = mirror.settings.patience

    def leave(self, reason: str, error: WorkerError) -> Flow[None]:
        """Say goodbye and wait a moment for the answer. From here on every call raises ``error``."""
        mirror = self._mirror
        over = mirror.ended is not None or not mirror.joined or self._away_for_too_long()
        mirror.ended = mirror.ended or error
        if over:
            return
        until = now() + self._patience.leave_s
        number = mirror.do("left", reason=plain(reason)[:256])
        try:
            while mirror.answer(number) is None and not mirror.finished and now() < until:
                yield until
        finally:
            mirror.abandon(number)

    def _bad_news(self) -> Flow[None]:
        if self._mirror.ended is not None:
            raise again(self._mirror.ended)
        yield from ()

    def _ask(self, event: str, **fields: Any) -> Flow[Accepted | Refusal | Passage]:
        number = self._mirror.do(event, **fields)
        try:
            while (answer := self._mirror.answer(number)) is None:
                yield from self._news()
        finally:
            self._mirror.abandon(number)
        return answer

    def _news(self, until: float | None = None) -> Flow[None]:
        """Wait for any, at most until the coordinator has been away for too long. Bad news is raised."""
        yield from self._bad_news()
        if self._away_for_too_long():
            raise self._unreachable(f"for longer than give_up_s = {self._patience.give_up_s:g}")
        yield sooner(until, self._away_until())

    def _drain_until(self) -> float | None:
        since_s = self._drain.since_s
        return None if since_s is None else since_s + self._patience.drain_s

    def _away_until(self) -> float | None:
        """When the coordinator has been away for too long; None while it is there."""
        outage, give_up_s = self._mirror.outage, self._patience.give_up_s
        return None if outage is None or give_up_s is None else outage.since_us / 1e6 + give_up_s

    def _away_for_too_long(self) -> bool:
        end = self._away_until()
        return end is not None and now() >= end

    def _not_let_in(self, waited: str) -> WorkerError:
        """A life that does not begin, such as in a run that is full by now."""
        turned = self._mirror.turned
        return self._unreachable(waited) if turned is None else from_refusal(turned)

    def _unreachable(self, waited: str) -> Unreachable:
        settings, outage = self._mirror.settings, self._mirror.outage
        scheme = "tcps" if settings.tls else "tcp"
        if outage is None:
            found = f"is there, but did not let {settings.member} in" if self._mirror.found else "has not answered"
            return Unreachable(f"{scheme}://{settings.addresses[0]} {found} {waited}")
        since = said_s(max(0, round(now() * 1e6) - outage.since_us))
        tried = f"tried {outage.tries} times in {since}, last at {scheme}://{outage.where}: {outage.why}"
        return Unreachable(f"no coordinator for run {settings.run!r} {waited} ({tried})")


def plain(text: str) -> str:
    """What can be written as UTF-8; file names and messages of exceptions may hold other things."""
    return text.encode("utf-8", "replace").decode()


def sooner(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def now() -> float:
    return time.monotonic()
