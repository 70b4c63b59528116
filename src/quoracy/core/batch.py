"""A batch: what is decided together and becomes one entry.

While it is open, events are applied to the run one by one, in place. Nothing of what that brings (answers, views,
duties) leaves before the entry is in the journal; it is kept here until then. ``items`` are what the batch was made of,
so that all of it can be decided again if another host's entry came first.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from msgspec import Raw

from quoracy.core.codec import encode
from quoracy.core.dice import Cup
from quoracy.core.errors import Refusal
from quoracy.core.journal import ENVELOPE_BYTES, FORMAT, MAX_ENTRY_BYTES, Entry, encode_event
from quoracy.core.machine import Duty, Event, View
from quoracy.core.members import Cause, Repeat
from quoracy.core.messages import Hello, ToMember
from quoracy.core.run import Decided, Run
from quoracy.core.shell import Peer

MAX_EVENTS: Final = 4096
"""In one entry, so that nobody's answer waits for a very long one."""
_ROOM: Final = MAX_ENTRY_BYTES - ENVELOPE_BYTES


class Full(Enum):
    """There is no room for this event in this batch; it begins the next one."""

    FULL = "full"


class Batch:
    def __init__(self, run: Run, at_us: int, seed: bytes, state: bytes) -> None:
        self.run = run
        self.n = run.head.n + 1
        self.at_us = at_us
        self.seed = seed
        self.state = state
        self.cup = Cup(run.head.run, seed)
        self.size_bytes = 0
        self.recorded: list[Raw] = []
        self.events: list[Event] = []
        self.items: list[Any] = []
        self.replies: list[tuple[Peer, ToMember]] = []
        self.hellos: list[tuple[Peer, Hello]] = []
        self.joined: list[tuple[Peer, str]] = []
        self.views: list[View] = []
        self.duties: list[Duty] = []

    def write(self, cause: Cause | None, event: Event) -> None:
        """Record without deciding: only for what creates the run."""
        raw = encode_event(cause, event)
        self.recorded.append(raw)
        self.events.append(event)
        self.size_bytes += len(bytes(raw))

    def decide(self, cause: Cause | None, event: Event) -> Decided | Repeat | Refusal | Full:
        """Apply the event and record it; or a repeat, a refusal or no room, which change nothing."""
        raw = encode_event(cause, event)
        size_bytes = len(bytes(raw))
        if size_bytes > _ROOM:
            why = f"{type(event).__name__} takes {size_bytes} bytes; an entry holds {_ROOM}"
            return Refusal("too_large", why, "send less; large values belong into the object store")
        if self.size_bytes + size_bytes > _ROOM or len(self.recorded) >= MAX_EVENTS:
            return Full.FULL
        self.cup.index = len(self.recorded)
        decided = self.run.decide(cause, event, self.at_us, self.cup, self.n)
        if isinstance(decided, Decided):
            self.recorded.append(raw)
            self.events.append(event)
            self.size_bytes += size_bytes
            for effect in decided.effects:
                if isinstance(effect, View):
                    self.views.append(effect)
                else:
                    self.duties.append(effect)
        return decided

    def entry(self, host: str, nonce: bytes) -> tuple[Entry, bytes]:
        head = self.run.head
        entry = Entry(
            FORMAT, head.run, self.n, self.at_us, self.seed, head.term, host, nonce, head.digest, self.state,
            Raw(encode(self.recorded)),
        )  # fmt: skip
        return entry, encode(entry)
