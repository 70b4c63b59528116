"""Event streams: nothing missed, nothing twice.

Each event's id says where its reader is: the number of the entry, or the numbers of all runs where several are read. A
browser sends the last one when it connects again, and goes on there, whichever server answers. Entries come from the
journal, so that a restart in between changes nothing.

Events are ``position`` (once: where the stream begins), ``entry``, ``gap`` (retention has deleted what would come),
``reset`` (the id is from another journal) and ``bye`` (the server ends the stream, and says why). Comments come in
between, so that both sides notice when the other is gone. With ``follow=false`` a stream ends with what is there.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.types import Send

from quoracy.core.errors import AWHILE_S, Refusal
from quoracy.doors.auth import Action, Identity
from quoracy.doors.http import shapes_events
from quoracy.doors.http.answers import Answer
from quoracy.doors.http.feed import Feed, Feeds, Gap
from quoracy.doors.http.gate import Gate
from quoracy.doors.http.problems import Trouble, encode, trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.http.shapes_events import Bye, Position, Reset
from quoracy.doors.service import Service

MEDIA: Final = b"text/event-stream"
RETRY_MS: Final = 1000
"""What a browser waits before it connects again."""
BEAT_S: Final = 15.0
MAX_RUNS: Final = 256
"""In one stream: each event's id names the place in all of them."""
MAX_SEND_BYTES: Final = 256 * 1024
ID: Final = "[0-9]{1,16}"
IDS: Final = f"-|[A-Za-z0-9%._~-]+:{ID}(,[A-Za-z0-9%._~-]+:{ID})*"
"""Of a stream of several runs: each run's name as in an address, and its place."""
_ONE: Final = re.compile(ID)
_MANY: Final = re.compile(IDS)
_BEAT: Final = b": still here\n\n"


class Streams:
    def __init__(self, service: Service, gate: Gate, max_streams: int) -> None:
        self._service = service
        self._gate = gate
        self._max = max_streams
        self._open = 0
        self.feeds = Feeds(service)
        self.closing: Refusal | None = None

    # -- the two streams --------------------------------------------------------------------------------------------

    async def one(self, asked: Asked, send: Send) -> None:
        """Of one run. Raises Trouble and Refused before the stream begins."""
        run = asked.params["run"]
        self._check(asked, run)
        self._service.served(run, asked.identity)
        feed = self.feeds.feed(run)
        seen = asked.header(b"last-event-id")
        if seen and not _ONE.fullmatch(seen):
            raise trouble("malformed", f"Last-Event-ID = {seen[:120]!r}", "the id of an event of this stream")
        after = int(seen) if seen else asked.query.after
        reader = _Reader(self, asked, send, lambda: [feed], lambda: self.feeds.bell(run).wait(), False)
        reader.places[run] = feed.head if after is None else after
        await self._run(reader)

    async def many(self, asked: Asked, send: Send) -> None:
        """Of all runs that the asker may see, those to come among them."""
        wanted: str = asked.query.run
        self._check(asked, wanted if "*" not in wanted else "")
        chosen = Identity(asked.identity.role, wanted or "*")
        seen = asked.header(b"last-event-id")
        places = _places(seen) if seen else {}

        def covered() -> list[Feed]:
            names = [n for n in self._service.server.runs if asked.identity.covers(n) and chosen.covers(n)]
            return [self.feeds.feed(name) for name in sorted(names)]

        if wanted and "*" not in wanted:
            self._service.served(wanted, asked.identity)
        feeds = covered()
        if len(feeds) > MAX_RUNS:
            why = f"{len(feeds)} runs in one stream; at most {MAX_RUNS} fit into the id of an event"
            raise trouble("too_many_runs", why, "choose with ?run=NAME or ?run=BEGINNING*")
        reader = _Reader(self, asked, send, covered, self.feeds.all.wait, True)
        fresh = not seen and not asked.query.history
        reader.places = {feed.run: feed.head if fresh else places.get(feed.run, 0) for feed in feeds}
        await self._run(reader)

    # -- life -------------------------------------------------------------------------------------------------------

    def _check(self, asked: Asked, run: str) -> None:
        refusal = asked.identity.check(Action.LOOK, run)
        if refusal is not None:
            raise Trouble(refusal)

    async def _run(self, reader: _Reader) -> None:
        if self.closing is not None:
            raise Trouble(self.closing)
        if self._open >= self._max:
            why = f"{self._open} streams are open and no more may be"
            refusal = Refusal("too_fast", why, "close one, or raise http.max_streams", AWHILE_S)
            raise Trouble(refusal, headers=((b"connection", b"close"),))  # it would hold a place that others need
        self._open += 1
        try:
            await reader.run(self._gate)
        finally:
            self._open -= 1

    def still_welcome(self, asked: Asked) -> Refusal | None:
        """A token may end while its stream goes on."""
        identity = self._service.identify(asked.token, asked.line.stranger)
        return identity if isinstance(identity, Refusal) else None

    async def beat(self) -> None:
        """For ever: readers notice that time has passed."""
        while True:
            await asyncio.sleep(BEAT_S)
            self.feeds.tidy()
            self.feeds.ring_all()

    def close(self, refusal: Refusal) -> None:
        """Every reader is told why, and that it may go on elsewhere."""
        self.closing = refusal
        self.feeds.close()
        self.feeds.ring_all()

    @property
    def open(self) -> int:
        return self._open


class _Reader:
    """One stream: where it is in each run."""

    def __init__(
        self,
        streams: Streams,
        asked: Asked,
        send: Send,
        feeds: Callable[[], list[Feed]],
        wait: Callable[[], asyncio.Future[None]],
        several: bool,
    ) -> None:
        self._streams = streams
        self._asked = asked
        self._send = send
        self._feeds = feeds
        self._wait = wait
        self._several = several
        self.places: dict[str, int] = {}
        self._ends: dict[str, int] | None = None
        """Where a stream that is not to follow ends, in each run."""
        self._said_s = time.monotonic()
        self._checked_s = self._said_s

    async def run(self, gate: Gate) -> None:
        asked, line = self._asked, self._asked.line
        headers = gate.headers(Answer(b"", media=MEDIA), asked.scope.get("quoracy.origin", b""))
        headers += [(b"content-type", MEDIA), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if asked.method == "HEAD":
            await self._send({"type": "http.response.body", "body": b""})
            return
        await self._say(b"retry: %d\n" % RETRY_MS + self._event("position", Position(dict(self.places))))
        await self._begin()
        if not asked.query.follow:
            self._ends = {feed.run: await feed.last() for feed in self._feeds()}
        while not line.lost():
            waiting = self._wait()
            line.on_lost[:] = [lambda waiting=waiting: waiting.done() or waiting.set_result(None)]  # type: ignore[misc]
            more = await self._catch_up()
            refusal = self._streams.closing or self._expired()
            if refusal is not None:
                told = self._event("bye", Bye(refusal.code, refusal.why, refusal.fix))
                await self._send({"type": "http.response.body", "body": told})
                return
            if self._done():
                break
            if not more:
                if time.monotonic() - self._said_s >= BEAT_S * 0.9:
                    await self._say(_BEAT)
                await waiting
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self) -> None:
        """A place beyond the end of the journal is from another journal: say so, and begin at the end of this one."""
        for feed in self._feeds():
            place = self.places.get(feed.run, 0)
            if place > feed.head and place > (last := await feed.last()):
                self.places[feed.run] = last
                await self._say(self._event("reset", Reset(feed.run, place, last)))

    def _done(self) -> bool:
        return self._ends is not None and all(self.places.get(run, 0) >= end for run, end in self._ends.items())

    async def _catch_up(self) -> bool:
        """Send what is new, not too much at once; whether there was anything."""
        parts: list[bytes] = []
        size = 0
        for feed in self._feeds():
            place = self.places.setdefault(feed.run, 0)
            if place >= feed.head:
                continue
            for part in await self._news(feed, place):
                parts.append(part)
                size += len(part)
            if size > MAX_SEND_BYTES:
                break
        if parts:
            await self._say(b"".join(parts))
        return bool(parts)

    async def _news(self, feed: Feed, place: int) -> list[bytes]:
        try:
            made = await feed.after(place)
        except Gap as gap:
            self.places[feed.run] = gap.first - 1
            return [self._event("gap", shapes_events.Gap(feed.run, place + 1, gap.first - 1, gap.first))]
        parts = []
        for rendered in made:
            self.places[feed.run] = rendered.n
            parts += [self._id(rendered.n), rendered.event]
        return parts

    def _id(self, n: int) -> bytes:
        if not self._several:
            return b"id: %d\n" % n
        return b"id: %b\n" % _as_id(self.places)

    def _event(self, kind: str, told: Any) -> bytes:
        n = next(iter(self.places.values()), 0)
        return b"%bevent: %b\ndata: %b\n\n" % (self._id(n), kind.encode(), encode(told))

    async def _say(self, body: bytes) -> None:
        self._said_s = time.monotonic()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    def _expired(self) -> Refusal | None:
        at_s = time.monotonic()
        if at_s - self._checked_s < BEAT_S * 0.9:
            return None
        self._checked_s = at_s
        return self._streams.still_welcome(self._asked)


def _as_id(places: dict[str, int]) -> bytes:
    return ",".join([f"{quote(run, safe='')}:{n}" for run, n in places.items()]).encode() or b"-"


def _places(seen: str) -> dict[str, int]:
    """The places that an id of this stream names."""
    if not _MANY.fullmatch(seen):
        raise trouble("malformed", f"Last-Event-ID = {seen[:120]!r}", "the id of an event of this stream")
    parts = [part.rpartition(":") for part in seen.split(",") if part != "-"]
    return {unquote(run): int(n) for run, _, n in parts}
