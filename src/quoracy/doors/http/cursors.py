"""Where a page ends: what a list gives as ``next`` and takes as ``cursor``.

Each list has a form of its own. Whatever has the form is a place in the list, whether something is there or not, so
that no cursor fits the description and is refused. What is in it is the server's business and may change.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

Numbered = Annotated[str, Meta(pattern=r"^[0-9]{0,15}$")]
"""After the entry or the round of this number."""
Named = Annotated[str, Meta(pattern=r"^([0-9a-f]{2}){0,512}$")]
"""After the name with these bytes: they are in the order of the names."""
Paired = Annotated[str, Meta(pattern=r"^(([0-9a-f]{2}){1,512}\.([0-9a-f]{2}){1,256})?$")]
"""After this one of the run of that name."""
FIX: Final = "send the next of the page before, or none to begin"


def number_of(cursor: str) -> int | None:
    """None: from the beginning."""
    return int(cursor) if cursor.strip() else None


def name_of(cursor: str) -> bytes:
    return bytes.fromhex(cursor)


def pair_of(cursor: str) -> tuple[bytes, bytes]:
    run, _, one = cursor.partition(".")
    return bytes.fromhex(run), bytes.fromhex(one)


def at_name(name: str) -> str:
    return name.encode().hex()


def at_pair(run: str, one: str) -> str:
    return f"{run.encode().hex()}.{one.encode().hex()}"
