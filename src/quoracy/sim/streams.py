"""Simulated TCP: connects that fail, take long or are accepted after nobody wants them; bytes in order and in pieces;
ends that are told, or not, that the other one is gone.

A stream has two ends. What is written at one arrives at the other in order, in pieces, as far as the receive window has
room: somebody who does not read lets it fill up, and then the rest stays *unsent* at the writer. Nothing is lost while
the stream lasts; a cut of the network only delays. When it breaks, each end may be told or not: an end that was not
told learns it from the answer to what it writes, if the other machine is there and answers at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from quoracy.sim.network import Network
from quoracy.sim.world import MS, World

AGAIN_US: Final = 200 * MS
"""What was lost is sent again after this time."""
CONNECT_US: Final = 2_000 * MS
"""Whoever connects waits no longer."""
WINDOWS: Final = (300, 2_000, 16_000)
"""Bytes that a receiver takes without reading them: little, so that it fills up within a life."""
IN_PIECES: Final = 0.1
PLAIN: Final = (1.0, 0.3, 0.3, 0.0)
"""In some lives all members use no SDK, and so no streams; in some all do."""


class Dialing(msgspec.Struct, frozen=True):
    """What becomes of connects: the share that fails, that is accepted when nobody wants it any more, and that is
    accepted without the answer ever arriving."""

    failing: float = 0.0
    late: float = 0.0
    unanswered: float = 0.0


CALM: Final = Dialing()
ROUGH: Final = Dialing(0.2, 0.25, 0.25)


class Stream:
    """What the two ends share."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.broken = False
        self.answers = True
        """Whether an end that was not told learns it when it writes."""


class End:
    """One end of a stream. ``place``: the machine that it is on."""

    def __init__(self, streams: Streams, stream: Stream, place: str) -> None:
        self.streams = streams
        self.stream = stream
        self.place = place
        self.other: End = self
        self.since_us = streams.world.now_us
        self.readable: Callable[[], None] = _nobody
        """Called when there is something to read, or nothing more."""
        self.writable: Callable[[], None] = _nobody
        """Called when nothing is unsent any more."""
        self.over = ""
        """Why there is nothing more to read, once everything is read."""
        self.closed = False
        """By whoever has this end."""
        self.put: dict[str, deque[bytes]] = {}
        """Views that were put in at the other end, by topic, and not read yet: for the checkers."""
        self.last: dict[str, bytes] = {}
        """Of each, what was read last."""
        self.unsent_bytes = 0
        self._unsent: deque[bytes | None] = deque()
        self._flight: deque[bytes | None] = deque()
        self._flight_bytes = 0
        self._arrives_us = 0
        self._received: list[bytes] = []
        self._received_bytes = 0
        self._ending = ""
        self._knocking = False

    # -- whoever has this end ---------------------------------------------------------------------------------------

    def read(self) -> bytes:
        """Everything that is there. Empty: nothing is; or nothing will be, if ``over`` says so."""
        if not self._received:
            self.over = self._ending
            return b""
        received, self._received = self._received, []
        self._received_bytes = 0
        if self.other._unsent:
            self.other._pump()
        return received[0] if len(received) == 1 else b"".join(received)

    def write(self, chunk: bytes) -> None:
        if self.closed or self._ending == RESET:
            return
        if self.stream.broken:
            self._knock()
            return
        self._unsent.append(chunk)
        self.unsent_bytes += len(chunk)
        self._pump()

    def close(self) -> None:
        """What was written is still delivered."""
        if not self.closed and not self.stream.broken:
            self._unsent.append(None)
            self._pump()
        self._leave()

    def abort(self) -> None:
        """What was written and has not arrived is gone."""
        if not self.closed and not self.stream.broken:
            self.drop(here=False, there=True)
        self._leave()

    def is_quiet(self) -> bool:
        """Whether all that the other end has is read, and will go on being read."""
        other = self.other
        unread = self._received or other._flight or other._unsent or self._ending or other.closed or self.closed
        return not unread and not self.stream.broken

    def _leave(self) -> None:
        self.closed = True
        self.readable = self.writable = _nobody

    # -- the world --------------------------------------------------------------------------------------------------

    def drop(self, here: bool, there: bool, answers: bool = True) -> None:
        """The stream breaks. Each end is told, or not."""
        self.stream.broken = True
        self.stream.answers = answers
        for end, told in ((self, here), (self.other, there)):
            end._flight.clear()
            end._unsent.clear()
            end._flight_bytes = end.unsent_bytes = 0
            if told:
                self.streams.world.after(self.streams.delay_us(), end._tell, RESET)

    def _tell(self, why: str) -> None:
        if not self._ending:
            self._ending = why
            self.readable()

    def _knock(self) -> None:
        """Written to nobody: the other machine says so if it is there; until then this one tries again."""
        if self.stream.answers and not self._knocking:
            self._knocking = True
            self.streams.world.after(2 * self.streams.delay_us(), self._knocked, 10)

    def _knocked(self, left: int) -> None:
        if self.streams.reaches(self.place, self.other.place) and self.streams.reaches(self.other.place, self.place):
            self._tell(RESET)
        elif left:
            self.streams.world.after(2 * AGAIN_US, self._knocked, left - 1)

    def _pump(self) -> None:
        """Send what the window has room for."""
        streams, unsent = self.streams, self._unsent
        while unsent:
            chunk = unsent[0]
            if chunk is None:
                unsent.clear()
                self._launch(None)
                return
            room = self.stream.window - self._flight_bytes - self.other._received_bytes
            if room <= 0:
                return
            if len(chunk) > room:
                unsent[0] = chunk[room:]
                chunk = chunk[:room]
            else:
                unsent.popleft()
            self.unsent_bytes -= len(chunk)
            if len(chunk) > 1 and streams.world.rng.random() < IN_PIECES:
                cut = streams.world.between(1, len(chunk) - 1)
                self._launch(chunk[:cut])
                chunk = chunk[cut:]
            self._launch(chunk)
        self.writable()

    def _launch(self, chunk: bytes | None) -> None:
        streams = self.streams
        self._flight.append(chunk)
        self._flight_bytes += len(chunk or b"")
        at_us = max(self._arrives_us, streams.world.now_us + streams.delay_us())
        self._arrives_us = at_us
        streams.world.after(at_us - streams.world.now_us, self._arrive)

    def _arrive(self) -> None:
        """The oldest that is under way."""
        if not self._flight:
            return
        if not self.streams.reaches(self.place, self.other.place):
            self.streams.world.after(AGAIN_US, self._arrive)
            return
        chunk, other = self._flight.popleft(), self.other
        if chunk is None:
            other._tell(CLOSED)
            return
        self._flight_bytes -= len(chunk)
        if other.closed:
            self._knock_closed()
            return
        other._received.append(chunk)
        other._received_bytes += len(chunk)
        other.readable()

    def _knock_closed(self) -> None:
        """Whoever writes to one that has closed is told so."""
        if not self.stream.broken:
            self.drop(here=True, there=False)


CLOSED: Final = "the other end closed the connection"
RESET: Final = "the connection was reset"


class Streams:
    def __init__(self, world: World, network: Network) -> None:
        """``network``: cuts and weather are the same for all who use it."""
        self.world = world
        self.network = network
        self.dialing = CALM
        self.window = world.rng.choice(WINDOWS)
        self.plain = world.rng.choice(PLAIN)
        """The share of members that use no streams."""
        self._doors: dict[str, Callable[[End], None]] = {}
        self._dark: set[str] = set()
        """Machines that answer nothing at all."""

    # -- hosts ------------------------------------------------------------------------------------------------------

    def listen(self, place: str, accept: Callable[[End], None]) -> None:
        self._doors[place] = accept
        self._dark.discard(place)

    def silence(self, place: str, dark: bool) -> None:
        """Nobody listens there. ``dark``: and nobody says so."""
        self._doors.pop(place, None)
        if dark:
            self._dark.add(place)

    # -- connecting -------------------------------------------------------------------------------------------------

    def dial(self, source: str, target: str, done: Callable[[End | None, str], None]) -> Dial:
        """``done`` is called once, with this end or with why there is none."""
        return Dial(self, source, target, done)

    def accept(self, source: str, target: str) -> End | None:
        """The end of whoever connects; None if nobody listens."""
        door = self._doors.get(target)
        if door is None:
            return None
        stream = Stream(self.window)
        here, there = End(self, stream, source), End(self, stream, target)
        here.other, there.other = there, here
        door(there)
        return here

    # -- the world --------------------------------------------------------------------------------------------------

    def reaches(self, source: str, target: str) -> bool:
        return source not in self._dark and target not in self._dark and not self.network.is_cut(source, target)

    def delay_us(self) -> int:
        """Of a piece. What is lost is sent again; what straggles holds up all that comes after it."""
        weather, world = self.network.weather, self.world
        delay_us = world.between(weather.fastest_us, weather.slowest_us)
        if weather.loss and world.chance(weather.loss):
            delay_us += AGAIN_US
        if weather.straggling and world.chance(weather.straggling):
            delay_us += world.between(0, weather.straggler_us // 4)
        return delay_us


class Dial:
    """One attempt to connect."""

    def __init__(self, streams: Streams, source: str, target: str, done: Callable[[End | None, str], None]) -> None:
        self._streams = streams
        self._source, self._target = source, target
        self._done = done
        self._over = False
        world, dialing = streams.world, streams.dialing
        fate = world.rng.random() if dialing is not CALM else 1.0
        self._fails = fate < dialing.failing
        self._unanswered = dialing.failing <= fate < dialing.failing + dialing.unanswered
        late = 0 <= fate - dialing.failing - dialing.unanswered < dialing.late
        self.hampered = self._fails or self._unanswered or late
        delay_us = streams.delay_us() + (world.between(300 * MS, 2 * CONNECT_US) if late else 0)
        world.after(delay_us, self._knock)
        world.after(CONNECT_US, self._end, None, "timed out")

    def _knock(self) -> None:
        """The first packet is there, or is not and is sent again; perhaps after whoever sent it has given up."""
        streams, world = self._streams, self._streams.world
        if not streams.reaches(self._source, self._target):
            if not self._over:
                world.after(AGAIN_US, self._knock)
            return
        end = None if self._fails else streams.accept(self._source, self._target)
        if end is None:
            world.after(streams.delay_us(), self._end, None, "connection refused")
        elif not self._unanswered:
            world.after(streams.delay_us(), self._answered, end)
        elif world.chance(0.5):
            end.drop(here=False, there=False)

    def _answered(self, end: End) -> None:
        """Bytes of the host wait at the end until somebody reads them."""
        if not self._over and not self._streams.reaches(self._target, self._source):
            self._streams.world.after(AGAIN_US, self._answered, end)
        elif self._over:
            end.abort()
        else:
            self._end(end, "")

    def _end(self, end: End | None, why: str) -> None:
        if not self._over:
            self._over = True
            self._done(end, why)

    def give_up(self) -> None:
        """Whoever dialed is gone."""
        self._over = True


def _nobody(*_: Any) -> None:
    """Nobody waits for it."""
