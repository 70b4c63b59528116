"""What a participant waits for, as flows: work, what became of it, and the end of its patience.

A wait that a person should hear of in between ends with ``NEWS``, and is begun again: nobody is told anything while a
flow holds the lock.
"""

from __future__ import annotations

from typing import Any, Final

from quoracy.sdk.errors import Draining, from_refusal
from quoracy.sdk.flowing import Flow, Flowing, now, sooner
from quoracy.sdk.partaking import Offer, Work
from quoracy.sdk.partaking_mirror import PartakingMirror

NEWS: Final[Any] = object()
LEFT: Final = "drained after SIGTERM"


class PartakingFlows(Flowing[PartakingMirror]):
    _since_s: float | None = None
    """When it was last in, or began to ask."""
    _told: Any = None

    @staticmethod
    def now() -> float:
        return now()

    def next_work(self) -> Flow[Any]:
        """What to do next; None: the run is over, and this participant has left it. Raises Draining as soon as SIGTERM
        has come: nothing is begun then."""
        mirror = self._mirror
        while mirror.work is None:
            if mirror.over is not None:
                yield from self._gone()
                return None
            yield from self._between()
            if self._is_news():
                return NEWS
            yield from self._news(self._patience_until())
        yield from self._between()
        return mirror.work

    def offer(self, offer: Offer) -> Flow[None]:
        """Unless nobody waits for it any more."""
        work = self._mirror.work
        if work is not None and work.ticket == offer.ticket and self._mirror.ended is None:
            self._mirror.offers(offer)
        yield from ()

    def settled(self, work: Work) -> Flow[Any]:
        """Until the work at hand has become something, or SIGTERM has come and ``drain_s`` are over."""
        mirror = self._mirror
        while mirror.wants(work):
            until = self._drain_until()
            if until is not None and now() >= until:
                yield from self._leave_draining()
            self._check_patience()
            if self._is_news():
                return NEWS
            yield from self._news(sooner(until, self._patience_until()))
        return None

    def pause(self, work: Work, pause_s: float) -> Flow[bool]:
        """Before something is tried again; no longer than until a coordinator that was away is back. False if nobody
        waits for it any more."""
        until, away = now() + pause_s, False
        while now() < until and self._mirror.wants(work) and not (away and self._mirror.outage is None):
            away = self._mirror.outage is not None
            end = self._drain_until()
            if end is not None and now() >= end:
                yield from self._leave_draining()
            yield sooner(until, end)
        if self._mirror.over is None:
            yield from self._bad_news()
        return self._mirror.wants(work)

    def watch(self, work: Work, done: list[bool]) -> Flow[Any]:
        """Beside a training, in another thread: takes in what comes, and hands the place back when ``drain_s`` are over
        before the training is. Raises no bad news: whoever trains will find it."""
        mirror = self._mirror
        while not done and mirror.ended is None:
            end = self._drain_until()
            if end is not None and now() >= end:
                error = Draining(f"SIGTERM came, and round {work.round} was not trained within drain_s", None)
                yield from self.leave(LEFT, error)
                return None
            if self._is_news():
                return NEWS
            yield end
        return None

    # -- underneath -------------------------------------------------------------------------------------------------

    def _between(self) -> Flow[None]:
        """Between two rounds one can be told anything."""
        yield from self._bad_news()
        if self._drain.since_s is not None:
            yield from self._leave_draining()
        self._check_patience()

    def _leave_draining(self) -> Flow[None]:
        """A join may be on its way: whoever goes now would be missed."""
        mirror, until = self._mirror, now() + self._patience.leave_s
        while (
            not mirror.joined and (mirror.ended, mirror.outage, mirror.turned) == (None, None, None) and now() < until
        ):
            yield until
        error = Draining("SIGTERM came, and this participant has left", None)
        yield from self.leave(LEFT, error)
        raise error

    def _gone(self) -> Flow[None]:
        """The sidecar says goodbye by itself when the run is over: wait a moment for the answer."""
        until = now() + self._patience.leave_s
        while not self._mirror.finished and now() < until:
            yield until

    def _is_news(self) -> bool:
        """Whether somebody should be told something before the wait goes on."""
        mirror = self._mirror
        away = mirror.outage is not None and mirror.outage.tries > 1
        stands = None if mirror.standing is None else (mirror.standing.phase, mirror.standing.reason)
        now_so = (mirror.known.incarnation, away, mirror.turned, stands, mirror.passes, len(mirror.outcomes))
        news: bool = self._told != now_so
        self._told = now_so
        return news

    def _check_patience(self) -> None:
        mirror = self._mirror
        if mirror.joined or self._since_s is None:
            self._since_s = now()
        if mirror.joined:
            return
        if mirror.turned is not None and not mirror.settings.passes(mirror.turned):
            raise from_refusal(mirror.turned)
        until = self._patience_until()
        if until is not None and now() >= until:
            raise self._not_let_in(f"for give_up_s = {self._patience.give_up_s:g}")

    def _patience_until(self) -> float | None:
        give_up_s = self._patience.give_up_s
        return None if give_up_s is None or self._mirror.joined else (self._since_s or now()) + give_up_s
