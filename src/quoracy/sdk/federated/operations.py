"""What a participant waits for, as operations: work, what became of it, and the end of its patience.

A wait that a person should hear of in between ends with ``NEWS``, and is begun again: nobody is told anything while an
operation holds the lock.
"""

from __future__ import annotations

from typing import Any, Final

from quoracy.sdk.client.errors import Draining
from quoracy.sdk.client.operation import DRAINED, Operation, Operations, now, sooner
from quoracy.sdk.federated.client import ParticipantClient
from quoracy.sdk.federated.session import Offer, Work

NEWS: Final[Any] = object()


class ParticipantOperations(Operations[ParticipantClient]):
    _told: Any = None

    @staticmethod
    def now() -> float:
        return now()

    def next_work(self) -> Operation[Any]:
        """What to do next; None: the run is over, and this participant has left it. Raises Draining as soon as SIGTERM
        has come: nothing is begun then."""
        client = self._client
        while client.work is None:
            if client.over is not None:
                yield from self._gone()
                return None
            yield from self._between()
            if self._is_news():
                return NEWS
            yield from self._news(self._let_in_until())
        yield from self._between()
        return client.work

    def offer(self, offer: Offer) -> Operation[None]:
        """Unless nobody waits for it any more."""
        work = self._client.work
        if work is not None and work.ticket == offer.ticket and self._client.ended is None:
            self._client.offer(offer)
        yield from ()

    def settled(self, work: Work) -> Operation[Any]:
        """Until the work at hand has become something, or SIGTERM has come and ``drain_s`` are over."""
        client = self._client
        while client.wants(work):
            until = self._drain_until()
            if until is not None and now() >= until:
                yield from self._leave_drained()
            self._check_let_in()
            if self._is_news():
                return NEWS
            yield from self._news(sooner(until, self._let_in_until()))
        return None

    def pause(self, work: Work, pause_s: float) -> Operation[bool]:
        """Before something is tried again; no longer than until a coordinator that was away is back. False if nobody
        waits for it any more."""
        until, away = now() + pause_s, False
        while now() < until and self._client.wants(work) and not (away and self._client.outage is None):
            away = self._client.outage is not None
            end = self._drain_until()
            if end is not None and now() >= end:
                yield from self._leave_drained()
            yield sooner(until, end)
        if self._client.over is None:
            yield from self._bad_news()
        return self._client.wants(work)

    def watch(self, work: Work, done: list[bool]) -> Operation[Any]:
        """Beside a training, in another thread: takes in what comes, and hands the place back when ``drain_s`` are over
        before the training is. Raises no bad news: whoever trains will find it."""
        client = self._client
        while not done and client.ended is None:
            end = self._drain_until()
            if end is not None and now() >= end:
                error = Draining(f"SIGTERM came, and round {work.round} was not trained within drain_s", None)
                yield from self.leave(DRAINED, error)
                return None
            if self._is_news():
                return NEWS
            yield end
        return None

    # -- underneath -------------------------------------------------------------------------------------------------

    def _between(self) -> Operation[None]:
        """Between two rounds one can be told anything."""
        yield from self._bad_news()
        if self._drain.since_s is not None:
            yield from self._leave_drained()
        self._check_let_in()

    def _gone(self) -> Operation[None]:
        """The session says goodbye by itself when the run is over: wait a moment for the answer."""
        until = now() + self._timeouts.leave_s
        while not self._client.finished and now() < until:
            yield until

    def _is_news(self) -> bool:
        """Whether somebody should be told something before the wait goes on."""
        client = self._client
        away = client.outage is not None and client.outage.tries > 1
        stands = None if client.standing is None else (client.standing.phase, client.standing.reason)
        now_so = (client.incarnation, away, client.refused, stands, client.phase, len(client.outcomes))
        news: bool = self._told != now_so
        self._told = now_so
        return news
