"""A member's connection to the coordinator, without I/O: connect, greet, speak, notice silence, close, connect again.

A driver executes what ``connect_to``, ``take_out`` and ``close_wanted`` ask for, and reports ``connected``, ``failed``,
``received`` and ``closed``. Random numbers and time are arguments: scripts, the heartbeat process, the simulator and
the tests drive the same code.

- Nobody answers: wait, longer each time, with jitter, and try the next address. "Another host serves the run": connect
  there at once. Whatever was not answered is sent again after every greeting; that is the session's business.
- A training that computes does not read. Silence counts only while somebody listens, which is while ``tick`` is called
  at least every ``ATTENTION_US``; and who listens and hears nothing asks before it closes the connection.
- What waiting cannot mend ends the connection at once: a refused token, another version, a port that speaks TLS, HTTP
  or gRPC, which is recognised by its first bytes.
- TLS is a setting and not part of an address: a coordinator that sends a member elsewhere cannot make it speak without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from quoracy.core.backoff import Backoff, Waits
from quoracy.core.codec import encode
from quoracy.core.errors import CATALOG, DENIED, OTHER_VERSION, ProtocolError, Refusal
from quoracy.core.machine import Join
from quoracy.core.members import signed_by_joiner
from quoracy.core.messages import Call, ToHost, Told, Welcome
from quoracy.sdk.client.address import Address, parse_address
from quoracy.version import __version__
from quoracy.wire.frames import FrameReader, frame
from quoracy.wire.messages import (
    NEWEST,
    OLDEST,
    Goodbye,
    Granted,
    Greet,
    Greeted,
    Replied,
    to_client,
)

WAITS: Final = Waits(
    first_us=50_000, longest_us=1_000_000, jitter=0.5, lasting_us=2_000_000, old_tries=30, old_us=5_000_000
)
"""While an outage is young, a coordinator that is started again is found within a second of being there. A connection
that was up for two seconds was a good one: whoever is cut off sooner each time has to wait longer each time."""
ANSWER_US: Final = 5_000_000
"""For a greeting, and for the first words after it."""
DEAF_US: Final = (1_000_000, 15_000_000)
"""Silence after which a connection is taken for dead: half the time-out of heartbeats, within these bounds."""
ATTENTION_US: Final = 2_500_000
"""Between two calls of ``tick``: after more, nobody has listened meanwhile, and silence proves nothing."""
PROBES: Final = 3
"""In the time after which silence means the end, so often a silent listener asks whether anybody is there."""
TLS_ALERT: Final = b"\x15\x03"
HTTP_1: Final = b"HTTP/1"
HTTP_2_SETTINGS: Final = 4
"""The type of the first frame that an HTTP/2 server sends: the fourth byte of the connection."""
SPREAD: Final = 4
"""When a coordinator is gone, the heartbeats of all its members come back over this part of their time-out."""
HOPS: Final = 6
"""How often in a row to follow "elsewhere" at once. Two hosts that point at each other must not be asked all day."""
FOR_GOOD: Final = frozenset(code for code, known in CATALOG.items() if known.exit in (DENIED, OTHER_VERSION))
"""Goodbyes after which connecting again cannot help: of one that may not come in, or speaks another version."""


class Speaker(Protocol):
    """Who speaks through a connection: a session, or the heartbeats of one."""

    member: str
    beat_interval_us: int
    beat_timeout_us: int

    def connect(self, now_us: int) -> None:
        """There is a new connection: say who speaks, and what was not answered."""

    def granted(self, incarnation: int, token: str) -> None: ...

    def receive(self, message: Any, now_us: int) -> None: ...

    def tick(self, now_us: int) -> None: ...

    def probe(self, now_us: int) -> None:
        """Ask something that is answered."""

    def take(self) -> list[ToHost]: ...

    def wake_us(self) -> int | None: ...

    def is_joined(self) -> bool: ...


class Signer(Protocol):
    """The member's key."""

    public: bytes

    def sign(self, message: bytes) -> bytes: ...


class State(Enum):
    DOWN = "Down"
    CONNECTING = "Connecting"
    GREETING = "Greeting"
    OPEN = "Open"
    UP = "Up"
    """The coordinator has answered this session: what was open has been said again."""
    OVER = "Over"


class Outage(msgspec.Struct, frozen=True, array_like=True, tag="outage"):
    """Nobody answers. ``tries`` since ``since_us``; ``why`` is what the last one ended with."""

    since_us: int
    tries: int
    where: str
    why: str


class Connection:
    def __init__(
        self,
        session: Speaker,
        addresses: list[Address],
        token: str,
        key: Signer | None,
        draw: Callable[[], float],
        now_us: int,
        tls: bool = False,
        joins: type[Join] | None = None,
        heartbeats: bool = False,
    ) -> None:
        """``draw`` gives numbers from 0 to 1, for the jitter. ``tls``: whether the driver speaks it. ``joins``: the
        event that begins an incarnation, which is signed with ``key``. ``heartbeats``: nothing else goes through."""
        self.session = session
        self.state = State.DOWN
        self.outage: Outage | None = Outage(now_us, 0, str(addresses[0]), "not tried yet")
        """None while the connection is up."""
        self.over: Refusal | None = None
        """Why nobody will be called any more."""
        self.close_wanted = False
        """The driver has to close the socket, and need not report it."""
        self._addresses = deque(addresses)
        self._target = addresses[0]
        self._token = token
        self._key = key
        self._tls = tls
        self._joins = joins
        self._heartbeats = heartbeats
        self._draw = draw
        self._hops = 0
        self._backoff = Backoff(WAITS)
        self._connect_us = now_us
        self._heard_us = self._ticked_us = now_us
        self._challenge = b""
        self._reader = FrameReader()
        self._out: list[bytes] = []

    # -- what a driver asks ------------------------------------------------------------------------------------------

    def is_open(self) -> bool:
        return self.state in (State.GREETING, State.OPEN, State.UP)

    def connect_to(self, now_us: int) -> Address | None:
        """Where to connect now, if anywhere. Ends with ``connected`` or ``failed``."""
        if self.state is not State.DOWN or now_us < self._connect_us:
            return None
        self.state = State.CONNECTING
        return self._target

    def take_out(self) -> bytes:
        """What to write."""
        self._collect()
        out, self._out = self._out, []
        return out[0] if len(out) == 1 else b"".join(out)

    def wake_us(self) -> int | None:
        """When to ``tick`` next."""
        match self.state:
            case State.DOWN:
                return self._connect_us
            case State.GREETING | State.OPEN | State.UP:
                wake_us = self.session.wake_us() if self.state is not State.GREETING else None
                return self._listen_until_us() if wake_us is None else min(self._listen_until_us(), wake_us)
            case _:
                return None

    def _listen_until_us(self) -> int:
        """When silence means something that it did not mean at the last ``tick``: ask again, or give up."""
        deaf_us = self._deaf_us()
        if self.state is State.GREETING:
            return self._heard_us + deaf_us
        asks = (self._ticked_us - self._heard_us) * PROBES // deaf_us + 1
        return self._heard_us + (deaf_us if asks >= PROBES else -(-asks * deaf_us // PROBES))

    # -- what a driver reports ---------------------------------------------------------------------------------------

    def connected(self, now_us: int) -> None:
        self.state = State.GREETING
        self.close_wanted = False
        self._heard_us = self._ticked_us = now_us
        self._reader = FrameReader()
        greet = Greet(OLDEST, NEWEST, self._token, f"quoracy {__version__} (python)", self._heartbeats)
        self._out = [frame(greet)]

    def failed(self, why: str, now_us: int, *, final: bool = False) -> None:
        """``final``: trying again cannot help."""
        if final:
            self._cannot(why)
        else:
            self._down(why, now_us)

    def closed(self, why: str, now_us: int) -> None:
        if self.state is State.GREETING and not self._tls:
            self._down(f"{why} without a greeting; if it speaks TLS, write tcps:// instead of tcp://", now_us)
        elif self.is_open():
            self._down(why, now_us)

    def tick(self, now_us: int) -> None:
        if not self.is_open():
            return
        if now_us - self._ticked_us > ATTENTION_US:
            self._heard_us = now_us
        self._ticked_us = now_us
        silent_us, deaf_us = now_us - self._heard_us, self._deaf_us()
        if silent_us >= deaf_us:
            self._down(f"no word from it for {silent_us / 1e6:.1f} s", now_us)
        elif self.state is not State.GREETING:
            if silent_us >= deaf_us // PROBES:
                self.session.probe(now_us)
            self.session.tick(now_us)

    def received(self, chunk: bytes, now_us: int) -> None:
        self._heard_us = now_us
        if self.state is State.GREETING and (other := _other_protocol(chunk)) is not None:
            self._cannot(other)
            return
        try:
            frames = self._reader.feed(chunk)
        except ProtocolError as error:
            self._down(str(error), now_us)
            return
        for payload in frames:
            message = to_client.read(payload)
            if isinstance(message, Refusal):
                self._down(f"it said something that is not understood: {message.why}", now_us)
            elif self.state is State.GREETING:
                self._greeting(message, now_us)
            elif self.state in (State.OPEN, State.UP):
                self._hear(message, now_us)
            if not self.is_open():
                return

    def end(self, why: Refusal) -> None:
        """Nobody is called any more."""
        self.over = self.over or why
        self.state = State.OVER
        self.outage = None
        self.close_wanted = True

    def _cannot(self, why: str) -> None:
        """Nobody is there whom waiting would turn into a coordinator."""
        scheme = "tcps" if self._tls else "tcp"
        what, _, fix = why.partition(": ")
        self.end(Refusal("unreachable", f"{scheme}://{self._target}: {what}", fix or "correct the address"))

    # -- talking ----------------------------------------------------------------------------------------------------

    def _greeting(self, message: Any, now_us: int) -> None:
        match message:
            case Greeted(challenge=challenge):
                self.state = State.OPEN
                self._challenge = challenge
                self.session.connect(now_us)
            case Goodbye(refusal=refusal):
                self._goodbye(refusal, now_us)
            case _:
                self._down(f"it answered a greeting with {type(message).__name__}", now_us)

    def _hear(self, message: Any, now_us: int) -> None:
        match message:
            case Told():
                self.session.receive(message, now_us)
            case Goodbye(refusal=refusal):
                self._goodbye(refusal, now_us)
            case Granted(member=member, incarnation=incarnation, token=token):
                if member == self.session.member:
                    self.session.granted(incarnation, token)
            case Greeted() | Replied():
                pass
            case _:
                self.session.receive(message, now_us)
                if isinstance(message, Welcome) and message.member == self.session.member:
                    self._up(now_us)

    def _up(self, now_us: int) -> None:
        if self.state is not State.UP:
            self.state = State.UP
            self.outage = None
            self._hops = 0
            self._backoff.succeeded(now_us)

    def moved(self, where: str, now_us: int) -> None:
        """The session was told that somebody else serves the run."""
        address = parse_address(where) if where else None
        if address is None or address == self._target or self._hops >= HOPS:
            self._hops = 0
            self._down("it does not serve the run and knows nobody else who does", now_us)
            return
        self._hops += 1
        self._down(f"it sent us to {address}", now_us)
        self._target = address
        self._connect_us = now_us

    def turned_away(self, refusal: Refusal, now_us: int) -> None:
        """The coordinator does not know the run or cannot take the session: perhaps another one, later."""
        self._down(f"{refusal.why} [{refusal.code}]", now_us)

    def _goodbye(self, refusal: Refusal, now_us: int) -> None:
        if refusal.code in FOR_GOOD:
            self.end(refusal)
        else:
            self._down(f"it closed the connection: {refusal.why}", now_us, refusal.retry_after_s)

    def _down(self, why: str, now_us: int, retry_after_s: float | None = None) -> None:
        """Whatever connection there is, is not used any more. Connect again after a while that grows."""
        before = self.outage or Outage(now_us, 0, "", "")
        was_up = self.state is State.UP
        tries = before.tries + 1
        self.outage = Outage(before.since_us, tries, str(self._target), why)
        self.state = State.DOWN
        self.close_wanted = True
        self._out = []
        self.session.take()
        if self._target == self._addresses[0]:
            self._addresses.rotate(-1)
        self._target = self._addresses[0]
        wait_us, timeout_us = self._backoff.failed(now_us, self._draw(), retry_after_s), self.session.beat_timeout_us
        if was_up and self._heartbeats:
            wait_us = round(self._draw() * timeout_us / SPREAD)
        elif timeout_us:
            wait_us = min(wait_us, max(WAITS.first_us, timeout_us // SPREAD))
        self._connect_us = now_us + wait_us

    def _deaf_us(self) -> int:
        if not self.session.is_joined() or not self.session.beat_timeout_us:
            return ANSWER_US
        least, most = DEAF_US
        return max(least, min(most, self.session.beat_timeout_us // 2), 3 * self.session.beat_interval_us // 2)

    def _collect(self) -> None:
        if self.state in (State.OPEN, State.UP):
            self._out += [frame(self._proved(message)) for message in self.session.take()]
        else:
            self.session.take()

    def _proved(self, message: ToHost) -> ToHost:
        """A join shows that this member holds its key, on this connection and on no other."""
        if self._key is None or self._joins is None or not isinstance(message, Call) or message.cause.seq:
            return message
        join = msgspec.msgpack.decode(message.event, type=self._joins)
        signed = signed_by_joiner(self._challenge, message.run, join.member, join.supersedes, join.nonce)
        join = msgspec.structs.replace(join, proof=self._challenge + self._key.sign(signed))
        return msgspec.structs.replace(message, event=Raw(encode(join)))


def _other_protocol(chunk: bytes) -> str | None:
    """What speaks like this, if it is no coordinator's port; and, behind a colon, what to do."""
    if chunk.startswith(TLS_ALERT):
        return "it speaks TLS: write tcps:// instead of tcp://"
    if chunk.startswith(HTTP_1):
        return "that is an HTTP port: name the port for members, which the coordinator prints as tcp:// when it starts"
    if len(chunk) >= 9 and chunk[0] == 0 and chunk[3] == HTTP_2_SETTINGS and chunk[5:9] == bytes(4):
        return "that is a gRPC port: name the port for members, which the coordinator prints as tcp:// when it starts"
    return None
