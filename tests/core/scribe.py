"""Writes journals by hand: entry after entry, without a host, a store or a clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from quoracy.core.batch import Batch
from quoracy.core.codec import digest, encode
from quoracy.core.dice import SEED_BYTES, Cup
from quoracy.core.errors import Refusal
from quoracy.core.journal import FORMAT, NONCE_BYTES, Entry, HostTook, RunCreated, Seeding, chain_seed, decode_entry
from quoracy.core.machine import Event
from quoracy.core.members import Accepted, Cause, Repeat
from quoracy.core.run import Decided, Kinds, Run

RUN = "demo"
HOST = "alpha"
SECOND = 1_000_000
Pair = tuple[Cause | None, Event]


def created(kind: str, config: dict[str, Any] | None = None, seeding: Seeding = "host", run: str = RUN) -> RunCreated:
    return RunCreated(run, kind, 1, config or {}, seeding)


class Scribe:
    """A run and the journal that makes it. Every entry takes one second unless ``at_us`` says otherwise."""

    def __init__(self, kinds: Kinds, made: RunCreated) -> None:
        self.kinds = kinds
        self.run = Run.create(kinds, made)
        self.payloads: list[bytes] = []
        batch = self._open(0, None)
        batch.write(None, made)
        assert isinstance(batch.decide(None, HostTook(1, HOST, "alpha:7700")), Decided)
        self._seal(batch)

    def write(self, *pairs: Pair, at_us: int | None = None, state: bytes = b"") -> bytes:
        """One entry of these, all of which must be accepted."""
        batch = self._open(self.run.head.at_us + SECOND if at_us is None else at_us, state)
        for cause, event in pairs:
            decided = batch.decide(cause, event)
            assert isinstance(decided, Decided), f"{event}: {decided}"
        return self._seal(batch)

    def try_each(self, pairs: Iterable[Pair], at_us: int | None = None) -> bytes | None:
        """One entry of those that are accepted; None if none is."""
        batch = self._open(self.run.head.at_us + SECOND if at_us is None else at_us, None)
        for cause, event in pairs:
            batch.decide(cause, event)
        return self._seal(batch) if batch.recorded else None

    def decide(self, cause: Cause | None, event: Event) -> Decided | Repeat | Refusal:
        """Without writing: for looking at what would be said. Changes the run if it is accepted."""
        cup = Cup(RUN, bytes(SEED_BYTES))
        return self.run.decide(cause, event, self.run.head.at_us, cup, self.run.head.n + 1)

    def result(self, cause: Cause | None, event: Event) -> dict[str, Any]:
        """Write one event and hand out what its sender learns."""
        batch = self._open(self.run.head.at_us + SECOND, None)
        decided = batch.decide(cause, event)
        assert isinstance(decided, Decided), f"{event}: {decided}"
        self._seal(batch)
        assert isinstance(decided.answer, Accepted)
        return decided.answer.result or {}

    def _open(self, at_us: int, state: bytes | None) -> Batch:
        head = self.run.head
        n = head.n + 1
        seed = chain_seed(head.digest, n) if head.seeding == "chain" else digest(b"seed", encode(n))[:SEED_BYTES]
        return Batch(self.run, at_us, seed, state or b"")

    def _seal(self, batch: Batch) -> bytes:
        entry, payload = batch.entry(HOST, digest(b"nonce", encode(batch.n))[:NONCE_BYTES])
        self.run.sealed(entry, payload)
        self.payloads.append(payload)
        return payload


def doctored(payload: bytes, run: str = RUN, **changes: Any) -> bytes:
    """The same entry with other fields."""
    n = msgspec.msgpack.decode(payload)[2]
    return encode(msgspec.structs.replace(decode_entry(payload, run, n), **changes))


def raw_events(*pairs: Pair) -> Raw:
    return Raw(encode(list(pairs)))


def bare_entry(run: Run, *pairs: Pair, **changes: Any) -> bytes:
    """The next entry of the run, holding whatever is asked for: nothing is decided."""
    head = run.head
    entry = Entry(
        FORMAT, head.run, head.n + 1, head.at_us, bytes(SEED_BYTES), head.term, head.host, bytes(NONCE_BYTES),
        head.digest, b"", raw_events(*pairs),
    )  # fmt: skip
    return encode(msgspec.structs.replace(entry, **changes))
