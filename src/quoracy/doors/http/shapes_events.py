"""What the events of a stream hold. Each has a name, the id that says where its reader is, and one of these as JSON."""

from __future__ import annotations

from typing import Any

import msgspec


class Position(msgspec.Struct, frozen=True):
    """Where the stream begins. It comes once, and first."""

    entries: dict[str, int]
    """Of each run the number of the last entry that is not sent."""


class EntryTold(msgspec.Struct, frozen=True):
    """An entry of a journal, as the journal's pages show it."""

    run: str
    n: int
    at_us: int
    term: int
    host: str
    digest: str
    events: list[dict[str, Any]]


class Gap(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """Retention has deleted these entries; the stream goes on after them."""

    run: str
    from_: int
    to: int
    first: int
    """The first entry that is still there."""


class Reset(msgspec.Struct, frozen=True):
    """The id is beyond the end of this journal, so it is from another one; the stream goes on at the end."""

    run: str
    yours: int
    last: int


class Bye(msgspec.Struct, frozen=True):
    """The server ends the stream, and says why."""

    code: str
    why: str
    fix: str


EVENTS: dict[str, type[msgspec.Struct]] = {
    "position": Position,
    "entry": EntryTold,
    "gap": Gap,
    "reset": Reset,
    "bye": Bye,
}
"""By the name of the event."""
