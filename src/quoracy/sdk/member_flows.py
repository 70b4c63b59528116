"""What the conductor of a witnessed member waits for, as flows: news, own facts, the end of its patience."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quoracy.sdk.errors import Draining, from_refusal
from quoracy.sdk.flowing import Flow, Flowing, now, sooner
from quoracy.sdk.witnessing_mirror import WitnessingMirror

LEFT: Final = "drained after SIGTERM"


class MemberFlows(Flowing[WitnessingMirror]):
    _since_s: float | None = None
    """When it was last in, or began to ask."""

    def wait(self, until: float | None, ready: Callable[[], bool], settled: Callable[[], bool]) -> Flow[None]:
        """Until there is something to do. After SIGTERM, raises Draining once ``settled``, when nothing is under way
        that the others wait for, or when ``drain_s`` are over."""
        mirror = self._mirror
        version = mirror.version
        while True:
            yield from self._bad_news()
            drain_until = self._drain_until()
            if drain_until is not None and (settled() or now() >= drain_until):
                yield from self._leave_draining()
            self._check_patience()
            if ready() or mirror.views or mirror.version != version or (until is not None and now() >= until):
                return
            yield from self._news(sooner(until, sooner(drain_until, self._patience_until())))

    def _leave_draining(self) -> Flow[None]:
        """A join may be on its way: whoever goes now would be missed."""
        mirror, until = self._mirror, now() + self._patience.leave_s
        while (
            not mirror.joined and (mirror.ended, mirror.outage, mirror.turned) == (None, None, None) and now() < until
        ):
            yield until
        error = Draining("SIGTERM came, and this member has left", None)
        yield from self.leave(LEFT, error)
        raise error

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
