"""Journal entries as Server-Sent Events, rendered once for all who read them.

A reader holds nothing but its place: it is woken when there is more, takes what follows its place from the entries that
were rendered lately, or has them read from the journal. So a slow reader costs no memory, and whoever comes back with
the number it saw last goes on exactly there, at this server or at the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from quoracy.core.errors import EntriesGone
from quoracy.doors.http.problems import encode
from quoracy.doors.questions import plain_entry
from quoracy.doors.service import Service

KEPT_BYTES: Final = 1024 * 1024
"""Rendered entries of one run that are kept for readers who are nearly there."""
PAGE: Final = 200
PAGE_BYTES: Final = 256 * 1024
"""Of the journal that is read at once: entries may be large, and readers who are far behind many."""
WAKE_S: Final = 0.02
"""Readers are woken at most so often: entries that follow each other closely are sent together."""


class Rendered:
    """One entry as an event, without the line that says its id: that depends on who reads."""

    __slots__ = ("event", "n")

    def __init__(self, n: int, event: bytes) -> None:
        self.n = n
        self.event = event


class Gap(Exception):
    """Retention has deleted what was asked for: the journal begins at ``first``."""

    def __init__(self, first: int) -> None:
        super().__init__(first)
        self.first = first


class Feed:
    """The entries of one run."""

    def __init__(self, service: Service, run: str) -> None:
        self._service = service
        self.run = run
        self._kept: deque[Rendered] = deque()
        self._kept_bytes = 0
        self._reading: dict[int, asyncio.Task[list[Rendered]]] = {}
        self._used = False
        self._page = 16
        """How many entries are read at once: as many as fit, by those that were read last."""

    @property
    def head(self) -> int:
        served = self._service.server.runs.get(self.run)
        run = None if served is None else served.host.run
        return 0 if run is None else run.head.n

    async def last(self) -> int:
        """The newest entry in the journal, which another host may have written: this one may not have read it yet."""
        server = self._service.server
        return int(await server.off_loop(lambda: server.journal.last(self.run)))

    async def after(self, n: int) -> list[Rendered]:
        """Entries n+1, n+2 and so on: some of them, or none if there are none. The last may be one that the journal has
        and this host has not heard of yet. Raises Gap."""
        if n >= self.head:
            return []
        self._used = True
        kept = self._kept
        if kept and kept[0].n <= n + 1 <= kept[-1].n:
            skip = n + 1 - kept[0].n
            return [kept[at] for at in range(skip, min(len(kept), skip + PAGE))]
        reading = self._reading.get(n)
        if reading is None:
            reading = self._reading[n] = asyncio.get_running_loop().create_task(self._read(n))
            reading.add_done_callback(lambda _: self._reading.pop(n, None))
        return await asyncio.shield(reading)

    def tidy(self) -> None:
        """What nobody wanted since the last time is not kept."""
        if not self._used:
            self._kept.clear()
            self._kept_bytes = 0
        self._used = False

    async def _read(self, n: int) -> list[Rendered]:
        server = self._service.server
        served, limit = server.runs[self.run], self._page
        try:
            payloads = await server.off_loop(lambda: server.journal.read(self.run, n + 1, limit))
        except EntriesGone as error:
            raise Gap(error.available) from None
        size_bytes = sum(map(len, payloads)) // max(1, len(payloads))
        self._page = max(1, min(PAGE, PAGE_BYTES // max(1, size_bytes)))
        made = [self._render(served, payload, n + 1 + at) for at, payload in enumerate(payloads)]
        if made and made[-1].n >= self.head - PAGE:
            self._keep(made)
        return made

    def _render(self, served: Any, payload: bytes, n: int) -> Rendered:
        entry = {"run": self.run, **plain_entry(served, payload, n)}
        return Rendered(n, b"event: entry\ndata: %b\n\n" % encode(entry))

    def _keep(self, made: list[Rendered]) -> None:
        """Only what follows on what is kept, so that a place among them can be counted out."""
        if self._kept and self._kept[-1].n + 1 != made[0].n:
            if made[-1].n <= self._kept[-1].n:
                return
            self._kept.clear()
            self._kept_bytes = 0
        for rendered in made:
            self._kept.append(rendered)
            self._kept_bytes += len(rendered.event)
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft().event)


class Bell:
    """Wakes all who wait, now and then."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def wait(self) -> asyncio.Future[None]:
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiting)
        return waiting

    def ring_soon(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._loop.call_later(WAKE_S, self.ring)

    def ring(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)


class Feeds:
    """Every run's feed, and who is woken by what."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._feeds: dict[str, Feed] = {}
        self._bells: dict[str, Bell] = {}
        self.all = Bell()
        service.server.on_entry.append(self._moved)

    def feed(self, run: str) -> Feed:
        if run not in self._feeds:
            self._feeds[run] = Feed(self._service, run)
        return self._feeds[run]

    def bell(self, run: str) -> Bell:
        if run not in self._bells:
            self._bells[run] = Bell()
        return self._bells[run]

    def tidy(self) -> None:
        for feed in self._feeds.values():
            feed.tidy()

    def ring_all(self) -> None:
        for bell in (self.all, *self._bells.values()):
            bell.ring()

    def close(self) -> None:
        told: list[Callable[[str, int], None]] = self._service.server.on_entry
        if self._moved in told:
            told.remove(self._moved)

    def _moved(self, run: str, _n: int) -> None:
        bell = self._bells.get(run)
        if bell is not None:
            bell.ring_soon()
        self.all.ring_soon()
