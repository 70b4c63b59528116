"""What a member does, written once: each call as a generator that yields until when to wait for something to happen.

A driver runs an operation: it sends what the operation put into the session, waits until something happened or the time
has come, and goes on. The driver for threads blocks meanwhile, the one for asyncio awaits; neither decides anything.

Two rules. Bad news comes first: a call that finds the member ended raises that before it does anything. And nobody
waits for ever who did not ask for it: every wait ends with an answer, with bad news, or when the coordinator has been
away for longer than ``give_up_s``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable
from typing import Any, Final, Generic, TypeVar

from quoracy.core.codec import said_s
from quoracy.core.errors import Refusal
from quoracy.core.machine import MemberEvent
from quoracy.core.members import Accepted
from quoracy.sdk.client.client import Client
from quoracy.sdk.client.errors import Draining, Unreachable, WorkerError, again, from_refusal
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.sigterm import Drain

DRAINED: Final = "drained after SIGTERM"
log = logging.getLogger("quoracy")
T = TypeVar("T")
C = TypeVar("C", bound=Client[Any])
Operation = Generator[float | None, None, T]
Steps = Iterable[float | None]
"""An operation without a result, or nothing at all."""


class Operations(Generic[C]):
    def __init__(self, client: C, memory: Memory, drain: Drain) -> None:
        self._client = client
        self._memory = memory
        self._drain = drain
        self._timeouts = client.settings.timeouts
        self._said = ""
        self._since_s: float | None = None
        """When it was last in, or began to ask."""

    def join(self) -> Operation[None]:
        """Until the coordinator counts this member in. The first failure is told at once, and what waiting cannot mend
        is raised at once."""
        client = self._client
        timeout_s = self._timeouts.connect_timeout_s
        until = now() + timeout_s
        while not client.joined:
            if client.ended is not None:
                raise again(client.ended)
            if self._drain.since_s is not None:
                yield from self._leave_while_joining()
            if (refused := client.refused) is not None:
                if not client.settings.passes(refused):
                    raise from_refusal(refused)
                if client.settings.waits_out(refused):
                    self._tell_once(f"{refused.why}; waits until somebody creates it")
                    until = now() + timeout_s
                else:
                    self._tell_once(f"{refused.why}; tries again for {timeout_s:g} s", logging.WARNING)
            if now() >= until:
                raise self._not_let_in(f"for {timeout_s:g} s")
            if client.outage is not None:
                outage = client.outage
                where = f"{'tcps' if client.settings.tls else 'tcp'}://{outage.where}"
                self._tell_once(f"{where}: {outage.why}; tries again for {timeout_s:g} s", logging.WARNING)
            yield until

    def _leave_while_joining(self) -> Operation[None]:
        """SIGTERM. A join may be on its way: whoever goes now would be missed."""
        client, until = self._client, now() + self._timeouts.leave_s
        while client.connection.is_open() and not client.joined and client.ended is None and now() < until:
            yield until
        error = Draining(f"SIGTERM came before this {client.called} had joined", None)
        yield from self.leave("SIGTERM", error)
        raise error

    def _leave_drained(self) -> Operation[None]:
        """SIGTERM came, and nothing is under way. A join may be on its way: whoever goes now would be missed."""
        client, until = self._client, now() + self._timeouts.leave_s
        while (
            not client.joined and (client.ended, client.outage, client.refused) == (None, None, None) and now() < until
        ):
            yield until
        error = Draining(f"SIGTERM came, and this {client.called} has left", None)
        yield from self.leave(DRAINED, error)
        raise error

    def _check_let_in(self) -> None:
        """Raises what keeps it out, if waiting cannot mend that, or if it has waited for ``give_up_s``."""
        client = self._client
        if client.joined or self._since_s is None:
            self._since_s = now()
        if client.joined:
            return
        if client.refused is not None and not client.settings.passes(client.refused):
            raise from_refusal(client.refused)
        until = self._let_in_until()
        if until is not None and now() >= until:
            raise self._not_let_in(f"for give_up_s = {self._timeouts.give_up_s:g}")

    def _let_in_until(self) -> float | None:
        give_up_s = self._timeouts.give_up_s
        return None if give_up_s is None or self._client.joined else (self._since_s or now()) + give_up_s

    def leave(self, reason: str, error: WorkerError) -> Operation[None]:
        """Say goodbye and wait a moment for the answer. From here on every call raises ``error``."""
        client = self._client
        over = client.ended is not None or not client.joined or self._away_for_too_long()
        client.ended = client.ended or error
        if over:
            return
        until = now() + self._timeouts.leave_s
        request = client.command(client.session.leaves, reason=plain(reason)[:256])
        try:
            while client.answer(request) is None and not client.finished and now() < until:
                yield until
        finally:
            client.abandon(request)

    def _bad_news(self) -> Steps:
        """Raise it, if there is any: to be yielded from, because some of it takes a last exchange with the
        coordinator. In most cases there is none, and nothing to do."""
        if self._client.ended is not None:
            raise again(self._client.ended)
        return ()

    def _ask(self, event: type[MemberEvent], **fields: Any) -> Operation[Accepted | Refusal]:
        request = self._client.command(event, **fields)
        try:
            while (answer := self._client.answer(request)) is None:
                yield from self._news()
        finally:
            self._client.abandon(request)
        return answer

    def _news(self, until: float | None = None) -> Operation[None]:
        """Wait for any, at most until the coordinator has been away for too long. Bad news is raised."""
        yield from self._bad_news()
        end = self._away_until()
        if end is None:
            yield until
        elif now() >= end:
            raise self._unreachable(f"for longer than give_up_s = {self._timeouts.give_up_s:g}")
        else:
            yield sooner(until, end)

    def _drain_until(self) -> float | None:
        since_s = self._drain.since_s
        return None if since_s is None else since_s + self._timeouts.drain_s

    def _away_until(self) -> float | None:
        """When the coordinator has been away for too long; None while it is there."""
        outage, give_up_s = self._client.outage, self._timeouts.give_up_s
        return None if outage is None or give_up_s is None else outage.since_us / 1e6 + give_up_s

    def _away_for_too_long(self) -> bool:
        end = self._away_until()
        return end is not None and now() >= end

    def _not_let_in(self, waited: str) -> WorkerError:
        """An incarnation that does not begin, such as in a run that is full by now."""
        refused = self._client.refused
        return self._unreachable(waited) if refused is None else from_refusal(refused)

    def _unreachable(self, waited: str) -> Unreachable:
        settings, outage = self._client.settings, self._client.outage
        scheme = "tcps" if settings.tls else "tcp"
        if outage is None:
            found = f"is there, but did not let {settings.member} in" if self._client.found else "has not answered"
            return Unreachable(f"{scheme}://{settings.addresses[0]} {found} {waited}")
        since = said_s(max(0, round(now() * 1e6) - outage.since_us))
        tried = f"tried {outage.tries} times in {since}, last at {scheme}://{outage.where}: {outage.why}"
        return Unreachable(f"no coordinator for run {settings.run!r} {waited} ({tried})")

    def _tell_once(self, what: str, level: int = logging.INFO) -> None:
        """To the log: why it waits, whenever that is something else."""
        if what != self._said:
            self._said = what
            log.log(level, "%s: %s", self._client.settings.member, what)


def plain(text: str) -> str:
    """What can be written as UTF-8; file names and messages of exceptions may hold other things."""
    return text.encode("utf-8", "replace").decode()


def sooner(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def now() -> float:
    return time.monotonic()
