"""A host in the hand: nothing happens to it, and nothing it asks for is done, unless a test does it.

``Hand`` keeps what the host asked for until the test asks for it. ``land`` plays a store that works; the other answers
of a store are reported by tests themselves.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count as counting
from typing import Any, TypeVar

import msgspec
from tests.core import tally
from tests.core.scribe import RUN, created

from quoracy.core.codec import digest, encode
from quoracy.core.host import Host, Phase
from quoracy.core.journal import Entry, RunCreated, decode_entry
from quoracy.core.limits import Limits
from quoracy.core.machine import Event, Signal
from quoracy.core.members import Answer, Cause
from quoracy.core.messages import Answered, Call, Hello, Sign, ToMember
from quoracy.core.run import Kinds
from quoracy.core.shell import Action, Append, Create, Load, Loaded, Received, Report, Send, Take, Tick, Written
from quoracy.core.snapshot import Snapshot

T = TypeVar("T")
OPERATOR = "@operator"
_lives = counting(1)


class Journal:
    """What a store holds of one run."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.snapshot: Snapshot | None = None

    def loaded(self) -> Loaded:
        after = self.snapshot.n if self.snapshot else 0
        return Loaded(self.snapshot, self.entries[after:])

    def write(self, append: Append) -> None:
        assert append.n == len(self.entries) + 1, f"entry {append.n} after {len(self.entries)}"
        self.entries.append(append.payload)


class Hand:
    def __init__(
        self, kinds: Kinds, journal: Journal | None = None, name: str = "alpha", limits: Limits | None = None,
        now_us: int = 0,
    ) -> None:  # fmt: skip
        self.now_us = now_us
        self.journal = journal or Journal()
        secret = digest(b"life", next(_lives).to_bytes(8, "big"))
        self.host = Host(RUN, name, f"{name}:7700", secret, kinds, limits)
        self.actions: list[Action] = self.host.start(now_us)
        self._operator_seq = 0

    # -- to the host --------------------------------------------------------------------------------------------

    def report(self, report: Report, after_us: int = 0) -> list[Action]:
        """Hand it a report; what it asks for is returned, and kept for ``take_out``."""
        self.now_us += after_us
        out = self.host.handle(report, self.now_us)
        self.actions.extend(out)
        return out

    def tick(self, after_us: int = 0) -> list[Action]:
        return self.report(Tick(), after_us)

    def call(self, peer: Hashable, cause: Cause, event: Event) -> list[Action]:
        return self.report(Received(peer, call(cause, event)))

    def order(self, event: Event, peer: Hashable = "desk") -> list[Action]:
        """As an operator."""
        self._operator_seq += 1
        return self.call(peer, Cause(OPERATOR, 0, self._operator_seq), event)

    def sign(self, peer: Hashable, signal: Signal) -> list[Action]:
        return self.report(Received(peer, Sign.of(RUN, signal)))

    def hello(self, peer: Hashable, member: str, incarnation: int = 0) -> list[Action]:
        return self.report(Received(peer, Hello(RUN, member, incarnation)))

    # -- the store ----------------------------------------------------------------------------------------------

    def load(self) -> list[Action]:
        """Answer the Load that was asked for with what the store holds."""
        assert self.take_out(Load)
        return self.report(self.journal.loaded())

    def land(self, after_us: int = 0) -> list[Action]:
        """The one append under way is written. Returns what the host then asks for."""
        (append,) = self.take_out(Append)
        self.journal.write(append)
        return self.report(Written(append.nonce), after_us)

    def land_all(self) -> list[Action]:
        """Until nothing is under way."""
        out: list[Action] = []
        for _ in range(1000):
            if not any(isinstance(action, Append) for action in self.actions):
                return out
            out.extend(self.land())
        raise AssertionError("a thousand entries and no end")

    # -- from the host ------------------------------------------------------------------------------------------

    def take_out(self, sort: type[T]) -> list[T]:
        """All actions of this sort since the last time; the others stay."""
        taken = [action for action in self.actions if isinstance(action, sort)]
        self.actions = [action for action in self.actions if not isinstance(action, sort)]
        return taken

    def sent(self, sort: type[Any] = object) -> list[tuple[Hashable, Any]]:
        return sent(self.take_out(Send), sort)


def serving(kinds: Kinds, made: RunCreated, limits: Limits | None = None, now_us: int = 0) -> Hand:
    """A host that has just created the run and serves it."""
    hand = Hand(kinds, limits=limits, now_us=now_us)
    hand.load()
    hand.report(Create(made))
    hand.land()
    assert hand.host.phase is Phase.SERVING
    hand.actions.clear()
    return hand


def takeover(kinds: Kinds, journal: Journal, name: str, limits: Limits | None = None, now_us: int = 0) -> Hand:
    """Another host that reads the journal, is told to serve, and does."""
    hand = Hand(kinds, journal, name, limits, now_us)
    hand.load()
    hand.report(Take())
    hand.land()
    assert hand.host.phase is Phase.SERVING
    return hand


def encode_raw(value: Any) -> Any:
    return msgspec.Raw(encode(value))


def call(cause: Cause, event: Any) -> Call:
    return Call(RUN, cause, encode_raw(event))


def sent(actions: list[Any], sort: type[Any] = object) -> list[tuple[Hashable, ToMember]]:
    """To whom what was sent."""
    return [(a.peer, a.message) for a in actions if isinstance(a, Send) and isinstance(a.message, sort)]


def answers(actions: list[Any]) -> list[Answer]:
    return [message.answer for _, message in sent(actions, Answered) if isinstance(message, Answered)]


def entry_of(append: Append) -> Entry:
    return decode_entry(append.payload, RUN, append.n)


def recorded(kinds: Kinds, payload: bytes, kind: Any) -> list[tuple[Cause | None, Event]]:
    """The pairs (cause, event) of an entry."""
    entry = decode_entry(payload, RUN, int(msgspec.msgpack.decode(payload)[2]))
    return list(kinds.decoder(kind).decode(entry.events))


# -- a tally in the hand -------------------------------------------------------------------------------------------


def tallying(*members: str, limits: Limits | None = None, **config: Any) -> Hand:
    """A host that serves a tally in which these have joined, each through a connection of its own name."""
    hand = serving(tally.KINDS, created("tally", config or {"goal": 1000}), limits)
    for member in members:
        hand.call(member, *join(member))
        hand.land()
    hand.actions.clear()
    return hand


def join(member: str, life: int = 0) -> tuple[Cause, tally.Joined]:
    return Cause(member, life, 0), tally.Joined(member, life, bytes([life + 1] * 16))


def count(member: str, seq: int, amount: int = 1, note: str = "", life: int = 1) -> tuple[Cause, tally.Counted]:
    return Cause(member, life, seq), tally.Counted(member, life, amount, note)


def sheet(hand: Hand) -> tally.Sheet:
    assert hand.host.run is not None
    machine = hand.host.run.machine
    assert isinstance(machine, tally.Tally)
    return machine.sheet


def written(hand: Hand, back: int = 1) -> list[Event]:
    """The events of the newest entry in the journal, or of one further back."""
    return [event for _, event in recorded(tally.KINDS, hand.journal.entries[-back], tally.KIND)]
