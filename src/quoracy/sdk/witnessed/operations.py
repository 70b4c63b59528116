"""What the conductor of a witnessed member waits for, as operations: news, own facts, the end of its patience."""

from __future__ import annotations

from collections.abc import Callable

from quoracy.sdk.client.operation import Operation, Operations, now, sooner
from quoracy.sdk.witnessed.client import MemberClient


class MemberOperations(Operations[MemberClient]):
    def wait(self, until: float | None, ready: Callable[[], bool], settled: Callable[[], bool]) -> Operation[None]:
        """Until there is something to do. After SIGTERM, raises Draining once ``settled``, when nothing is under way
        that the others wait for, or when ``drain_s`` are over."""
        client = self._client
        version = client.version
        while True:
            yield from self._bad_news()
            drain_until = self._drain_until()
            if drain_until is not None and (settled() or now() >= drain_until):
                yield from self._leave_drained()
            self._check_let_in()
            if ready() or client.views or client.version != version or (until is not None and now() >= until):
                return
            yield from self._news(sooner(until, sooner(drain_until, self._let_in_until())))
