"""Entries for people: one line each, or as plain values for programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from quoracy.cli.journal_source import Source
from quoracy.core.codec import us
from quoracy.core.errors import QuoracyError
from quoracy.core.journal import Entry, decode_created, decode_entry
from quoracy.core.kinds import READABLE as KINDS
from quoracy.core.machine import Event
from quoracy.core.members import Cause
from quoracy.core.run import Head
from quoracy.core.snapshot import unpack

MANY = 3
"""More events than this in one entry are counted, not named."""
SHORT = 40


def kind_of(source: Source, run: str) -> tuple[str, int] | None:
    """The run's kind and rules: as the first entry says, or the snapshot if that entry is gone; None if neither can."""
    try:
        if source.first(run) == 1:
            created = decode_created(decode_entry(source.read(run, 1, 1)[0], run, 1))
            return created.kind, created.rules
        saved = source.snapshot(run)
        if saved is not None:
            head = msgspec.convert(unpack(run, saved.n, saved.root, saved.pages)["head"], Head)
            return head.kind, head.rules
    except (QuoracyError, IndexError, KeyError, msgspec.MsgspecError):
        pass
    return None


class Recorded(msgspec.Struct):
    """One event as it stands in an entry, decoded as far as this Quoracy can."""

    name: str
    fields: dict[str, Any]
    cause: str | None


class Reader:
    """Decodes entries of one run: by its kind, or only roughly if the kind or its rules are not known here."""

    def __init__(self, run: str, kind: tuple[str, int] | None) -> None:
        self.run = run
        self._decoder: msgspec.msgpack.Decoder[Any] | None = None
        try:
            if kind is not None:
                self._decoder = KINDS.decoder(KINDS.get(*kind))
        except QuoracyError:
            pass

    def read(self, payload: bytes, n: int) -> tuple[Entry, list[Recorded]]:
        entry = decode_entry(payload, self.run, n)
        if self._decoder is not None:
            try:
                return entry, [_recorded(cause, event) for cause, event in self._decoder.decode(entry.events)]
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass
        return entry, [_rough(pair) for pair in msgspec.msgpack.decode(entry.events)]


def _recorded(cause: Cause | None, event: Event) -> Recorded:
    said = f"{cause.member}/{cause.incarnation}/{cause.seq}" if cause else None
    return Recorded(
        type(event).__name__, {key: plain(value) for key, value in msgspec.structs.asdict(event).items()}, said
    )


def _rough(pair: Any) -> Recorded:
    cause, event = pair
    fields = {str(i): plain(value) for i, value in enumerate(event[1:], 1)}
    return Recorded(str(event[0]), fields, "/".join(map(str, cause)) if cause else None)


def plain(value: Any) -> Any:
    """JSON-able; bytes as hex, or their number if there are many."""
    match value:
        case bytes():
            return value.hex() if len(value) <= SHORT else f"{len(value)} bytes"
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case msgspec.Struct():
            return {key: plain(item) for key, item in msgspec.structs.asdict(value).items()}
        case str() | int() | float() | bool() | None:
            return value
    return str(value)


def line(entry: Entry, recorded: list[Recorded], numbers_wide: int) -> str:
    """The whole entry in one line."""
    if len(recorded) == 1:
        said = brief(recorded[0])
    elif len(recorded) <= MANY:
        said = ", ".join(event.name + _by(event) for event in recorded)
    else:
        counted = Counter(event.name for event in recorded)
        said = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counted.items())
    who = f"{entry.host or '-'}/{entry.term}"
    return f"{entry.n:>{numbers_wide}}  {entry.at_us / us(1):>10.3f} s  {who:<12} {said}"


def brief(event: Recorded) -> str:
    shown = [f"{key}={_cut(value)}" for key, value in event.fields.items() if value not in (None, "", [], {})]
    return f"{event.name}({', '.join(shown)}){_by(event)}"


def _by(event: Recorded) -> str:
    return f" by {event.cause}" if event.cause else ""


def _cut(value: Any) -> str:
    said = str(value)
    return said if len(said) <= SHORT else f"{said[: SHORT - 3]}..."


def as_value(entry: Entry, recorded: list[Recorded]) -> dict[str, Any]:
    return {
        "n": entry.n,
        "at_us": entry.at_us,
        "term": entry.term,
        "host": entry.host,
        "nonce": entry.nonce.hex(),
        "prev": entry.prev.hex(),
        "state": entry.state.hex(),
        "events": [msgspec.structs.asdict(event) for event in recorded],
    }
