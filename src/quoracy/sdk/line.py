"""The line to the coordinator, without I/O: dial, greet, speak, notice silence, hang up, dial again.

Everyday analogy: somebody with a telephone and a list of numbers. Nobody picks up: wait a moment, longer each time, and
try the next number. "He is in another office": dial that one at once. The other end has gone quiet: hang up and dial
again. Whatever was not answered is said again after every greeting; that is the session's business, not the line's.

A shell carries out what ``dial``, ``take_out`` and ``hang_up`` ask for, and reports ``connected``, ``failed``,
``received`` and ``closed``. Dice and time are arguments, so that the simulator and the tests can drive it.

Nobody is trusted with more than they were before: a coordinator that sends a worker elsewhere cannot make it speak
without TLS, because TLS is a setting and not part of an address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.errors import ProtocolError, Refusal
from quoracy.core.members import signed_by_joiner
from quoracy.core.messages import Call, ToHost, Welcome
from quoracy.sdk.address import Address, parse_address
from quoracy.sdk.membership import Membership, Stage
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

FIRST_WAIT_US: Final = 50_000
LONGEST_WAIT_US: Final = 1_000_000
"""While an outage is young: a coordinator that is started again is found within a second of being there."""
OLD_WAIT_US: Final = 5_000_000
OLD_TRIES: Final = 30
LASTING_US: Final = 2_000_000
"""A line that was up for so long was a good one. Whoever is cut off sooner each time has to wait longer each time."""
ANSWER_US: Final = 5_000_000
"""For a greeting, and for the first words after it."""
DEAF_US: Final = (1_000_000, 15_000_000)
"""Silence after which a line is taken for dead: half the time-out of heartbeats, within these bounds."""
TLS_ALERT: Final = b"\x15\x03"
HOPS: Final = 6
"""How often in a row to follow "elsewhere" at once. Two hosts that point at each other must not be asked all day."""
FOR_GOOD: Final = frozenset({"bad_token", "forbidden", "wrong_version", "key_mismatch"})
"""Goodbyes after which calling again cannot help."""


class Signer(Protocol):
    """The member's key."""

    public: bytes

    def sign(self, message: bytes) -> bytes: ...


class State(Enum):
    DOWN = "Down"
    DIALING = "Dialing"
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


class Line:
    def __init__(
        self,
        session: Membership,
        addresses: list[Address],
        token: str,
        key: Signer | None,
        draw: Callable[[], float],
        now_us: int,
        tls: bool = False,
    ) -> None:
        """``draw`` gives numbers from 0 to 1, for the jitter. ``tls``: whether the shell speaks it."""
        self.session = session
        self.state = State.DOWN
        self.outage: Outage | None = Outage(now_us, 0, str(addresses[0]), "not dialed yet")
        """None while the line is up."""
        self.over: Refusal | None = None
        """Why nobody will be called any more."""
        self.hang_up = False
        """The shell has to close the connection, and need not report it."""
        self._addresses = deque(addresses)
        self._target = addresses[0]
        self._token = token
        self._key = key
        self._tls = tls
        self._draw = draw
        self._hops = 0
        self._wait_us = FIRST_WAIT_US
        self._dial_us = now_us
        self._heard_us = self._up_us = now_us
        self._challenge = b""
        self._reader = FrameReader()
        self._out: list[bytes] = []

    # -- what a shell asks ------------------------------------------------------------------------------------------

    def dial(self, now_us: int) -> Address | None:
        """Whom to dial now, if anybody."""
        if self.state is not State.DOWN or now_us < self._dial_us:
            return None
        self.state = State.DIALING
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
                return self._dial_us
            case State.GREETING | State.OPEN | State.UP:
                deaf_us = self._heard_us + self._deaf_us()
                wake_us = self.session.wake_us() if self.state is not State.GREETING else None
                return deaf_us if wake_us is None else min(deaf_us, wake_us)
            case _:
                return None

    # -- what a shell reports ---------------------------------------------------------------------------------------

    def connected(self, now_us: int) -> None:
        self.state = State.GREETING
        self.hang_up = False
        self._heard_us = now_us
        self._reader = FrameReader()
        self._out = [frame(Greet(OLDEST, NEWEST, self._token, f"quoracy {__version__} (python)"))]

    def failed(self, why: str, now_us: int) -> None:
        self._down(why, now_us)

    def closed(self, why: str, now_us: int) -> None:
        if self.state is State.GREETING and not self._tls:
            self._down(f"{why} without a greeting; if it speaks TLS, write tcps:// instead of tcp://", now_us)
        elif self.state in (State.GREETING, State.OPEN, State.UP):
            self._down(why, now_us)

    def tick(self, now_us: int) -> None:
        if self.state not in (State.GREETING, State.OPEN, State.UP):
            return
        silent_us = now_us - self._heard_us
        if silent_us >= self._deaf_us():
            self._down(f"no word from it for {silent_us / 1e6:.1f} s", now_us)
        elif self.state is not State.GREETING:
            self.session.tick(now_us)

    def received(self, chunk: bytes, now_us: int) -> None:
        self._heard_us = now_us
        if self.state is State.GREETING and chunk.startswith(TLS_ALERT):
            self._down("it speaks TLS: write tcps:// instead of tcp://", now_us)
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
            if self.state not in (State.GREETING, State.OPEN, State.UP):
                return

    def end(self, why: Refusal) -> None:
        """Nobody is called any more."""
        self.over = self.over or why
        self.state = State.OVER
        self.outage = None
        self.hang_up = True

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
            self._up_us = now_us

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
        self._dial_us = now_us

    def turned_away(self, refusal: Refusal, now_us: int) -> None:
        """The coordinator does not know the run or cannot take the session: perhaps another one, later."""
        self._down(f"{refusal.why} [{refusal.code}]", now_us)

    def _goodbye(self, refusal: Refusal, now_us: int) -> None:
        if refusal.code in FOR_GOOD:
            self.end(refusal)
        else:
            self._down(f"it hung up: {refusal.why}", now_us)

    def _down(self, why: str, now_us: int) -> None:
        """Whatever connection there is, is not used any more. Dial again after a while that grows."""
        before = self.outage or Outage(now_us, 0, "", "")
        if self.state is State.UP and now_us - self._up_us >= LASTING_US:
            self._wait_us = FIRST_WAIT_US
        tries = before.tries + 1
        self.outage = Outage(before.since_us, tries, str(self._target), why)
        self.state = State.DOWN
        self.hang_up = True
        self._out = []
        self.session.take()
        if self._target == self._addresses[0]:
            self._addresses.rotate(-1)
        self._target = self._addresses[0]
        longest_us = LONGEST_WAIT_US if tries < OLD_TRIES else OLD_WAIT_US
        self._dial_us = now_us + round(self._wait_us * (0.5 + self._draw() / 2))
        self._wait_us = min(longest_us, 2 * self._wait_us)

    def _deaf_us(self) -> int:
        if self.session.stage is not Stage.JOINED or not self.session.beat_timeout_us:
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
        if self._key is None or not isinstance(message, Call) or message.cause.seq:
            return message
        join = msgspec.msgpack.decode(message.event, type=self.session.joins)
        signed = signed_by_joiner(self._challenge, message.run, join.member, join.supersedes, join.nonce)
        join = msgspec.structs.replace(join, proof=self._challenge + self._key.sign(signed))
        return msgspec.structs.replace(message, event=Raw(encode(join)))
