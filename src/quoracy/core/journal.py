"""The journal's content: entries, the events every kind shares, and the chain of digests.

An entry carries the events accepted together, the run time and the seed they were decided with, who decided, and the
digest of the entry before: whoever trusts the last digest can check all of it. ``state`` is the digest of the whole
state before the entry, in every thousandth one, so that a refold which comes out differently is noticed.

Rules may change, old folds may not: ``RunCreated`` pins the kind's rules version, and ``FORMAT`` the shape of entries.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw

from quoracy.core.codec import DIGEST_BYTES, digest, encode
from quoracy.core.dice import SEED_BYTES
from quoracy.core.errors import JournalCorrupt, JournalNewer, JournalOlder, Refusal
from quoracy.core.machine import By, Event
from quoracy.core.members import COMMAND_BYTES, Cause, Counter

FORMAT: Final = 2
BEFORE_0_2: Final = 1
MAX_ENTRY_BYTES: Final = 512 * 1024
ENVELOPE_BYTES: Final = 1024
"""Room kept for everything in an entry that is not events."""
STATE_DIGEST_EVERY: Final = 1000
NONCE_BYTES: Final = 16

RunName = Annotated[str, Meta(min_length=1, max_length=128)]
Digest = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
HostName = Annotated[str, Meta(min_length=1, max_length=128)]
Seeding = Literal["host", "chain"]
"""Who draws an entry's seed. ``host``: the serving host, which members trust anyway. ``chain``: a hash of the entry
before, so that no appender can choose; for runs that have no serving host."""


class RunCreated(Event, frozen=True, array_like=True, tag="run-created"):
    by = By.OPERATOR
    run: RunName
    kind: Annotated[str, Meta(min_length=1, max_length=32)]
    rules: Annotated[int, Meta(ge=1)]
    config: dict[str, Any]
    seeding: Seeding = "host"
    label: Annotated[str, Meta(max_length=256)] = ""
    """For people, such as the wall time; nothing is ever decided by it."""
    request: Annotated[str, Meta(max_length=128)] = ""
    """What the creator calls its wish, so that a wish sent twice is recognised."""


class HostTook(Event, frozen=True, array_like=True, tag="host-took"):
    """From here on this host serves the run. Only it collects, detects and answers; others send people to it."""

    term: Annotated[int, Meta(ge=1)]
    host: HostName
    address: Annotated[str, Meta(max_length=256)] = ""


class DutyDone(Event, frozen=True, array_like=True, tag="duty-done"):
    entry: Counter
    index: Counter
    result: dict[str, Any] | None = None


class CommandRefused(Event, frozen=True, array_like=True, tag="command-refused"):
    """Remembers an answer and changes nothing else: a repeat of the command gets the same no."""

    refusal: Refusal
    command: Annotated[bytes, Meta(max_length=COMMAND_BYTES)] = b""
    """The digest of the command, to tell a repeat from another one under its number."""


SharedEvent = RunCreated | HostTook | DutyDone | CommandRefused


class Entry(msgspec.Struct, frozen=True, array_like=True):
    format: int
    run: str
    n: int
    at_us: int
    seed: Annotated[bytes, Meta(min_length=SEED_BYTES, max_length=SEED_BYTES)]
    term: int
    host: str
    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    prev: Digest
    state: bytes
    events: Raw
    """A list of pairs (cause or nil, event), decoded by the run's kind: see ``recorded_decoder``."""


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    format: int
    run: str
    n: int


_entry = msgspec.msgpack.Decoder(Entry)
_envelope = msgspec.msgpack.Decoder(_Envelope)


def decode_entry(payload: bytes, run: str, n: int) -> Entry:
    """The entry, which must be number ``n`` of ``run``. Raises JournalCorrupt, JournalNewer, JournalOlder."""
    try:
        entry = _entry.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        _raise_if_other(payload, run, n)
        raise JournalCorrupt(run, n, 0, f"cannot be decoded: {error}", "the entry") from None
    if entry.format != FORMAT:
        _raise_if_other(payload, run, n)
        raise JournalCorrupt(run, n, 0, f"format {entry.format} does not exist", "the entry")
    if entry.run != run:
        raise JournalCorrupt(run, n, 0, f"belongs to run {entry.run!r}", "the entry")
    if entry.n != n:
        raise JournalCorrupt(run, n, 0, f"says it is entry {entry.n}: reordered or missing", "the entry")
    return entry


def _raise_if_other(payload: bytes, run: str, n: int) -> None:
    try:
        envelope = _envelope.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return
    if envelope.format == BEFORE_0_2:
        raise JournalOlder(f"run {run!r}: entry {n} has format 1, of Quoracy 0.1, which is not read since 0.2")
    if envelope.format > FORMAT:
        raise JournalNewer(
            f"run {run!r}: entry {n} has format {envelope.format}, this Quoracy reads up to {FORMAT}: use a newer one"
        )


def encode_event(cause: Cause | None, event: Event) -> Raw:
    """One event with the command that caused it; None when the host itself decided."""
    return Raw(encode((cause, event)))


def chain_seed(prev: bytes, n: int) -> bytes:
    """The seed nobody chooses: from the entry before."""
    return digest(b"seed", prev, n.to_bytes(8, "big"))[:SEED_BYTES]


def recorded_decoder(events: Any) -> msgspec.msgpack.Decoder[Any]:
    """For the ``events`` of a kind's entries: any shared event, or one of the kind's."""
    return msgspec.msgpack.Decoder(list[tuple[Cause | None, SharedEvent | events]])


_created = msgspec.msgpack.Decoder(tuple[tuple[Cause | None, RunCreated]])
_raws = msgspec.msgpack.Decoder(list[Raw])


def decode_created(entry: Entry) -> RunCreated:
    """What the first entry of every journal begins with."""
    try:
        first = _raws.decode(entry.events)[:1]
        ((_, created),) = _created.decode(encode(first))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise JournalCorrupt(entry.run, entry.n, 0, f"does not create a run: {error}", "the entry") from None
    return created
