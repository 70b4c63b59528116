"""The messages of a TCP connection: a greeting that agrees on a version, what members and hosts say to each other
(``core.messages``), and questions that people and tools ask.

A connection begins with ``Greet``. The server answers ``Greeted`` or ``Goodbye``, and after ``Goodbye`` it closes. From
then on any number of members may speak through the connection, each after its own ``Hello`` or join.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from quoracy.core.codec import Reader
from quoracy.core.errors import Refusal
from quoracy.core.messages import Answered, Call, Declined, Hello, Moved, Sign, Token, Told, Welcome

OLDEST: Final = 2
NEWEST: Final = 2
"""The protocol versions this Quoracy speaks."""

MAX_FRAME_BYTES: Final = 1024 * 1024


class Greet(msgspec.Struct, frozen=True, array_like=True, tag="greet"):
    """The first frame. ``token`` is a join token, or a viewer's, operator's or admin's; empty if none is asked.
    ``heartbeats``: this connection carries heartbeats only, after a ``Hello`` for each member; no views come through
    it, and all else is refused."""

    oldest: Annotated[int, Meta(ge=1)]
    newest: Annotated[int, Meta(ge=1)]
    token: Token = ""
    software: Annotated[str, Meta(max_length=128)] = ""
    heartbeats: bool = False


class Greeted(msgspec.Struct, frozen=True, array_like=True, tag="greeted"):
    """``version`` is the newest that both speak. Joins sign ``challenge``, so that an old signature proves nothing."""

    version: int
    challenge: bytes
    software: str
    role: str


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag="goodbye"):
    """Why the connection ends."""

    refusal: Refusal


class Granted(msgspec.Struct, frozen=True, array_like=True, tag="granted"):
    """The token of this life of the member: what its next ``Hello`` must carry. Never journaled."""

    run: str
    member: str
    incarnation: int
    token: str


class Ask(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """A question or an order of a person or a tool; ``number`` ties the reply to it."""

    number: Annotated[int, Meta(ge=0, le=2**53)]
    what: Annotated[str, Meta(min_length=1, max_length=32)]
    run: Annotated[str, Meta(max_length=128)] = ""
    arguments: dict[str, Any] = {}


class Replied(msgspec.Struct, frozen=True, array_like=True, tag="replied"):
    number: int
    value: Any = None
    refusal: Refusal | None = None


ToServer = Greet | Hello | Call | Sign | Ask
ToClient = Greeted | Goodbye | Granted | Replied | Welcome | Answered | Declined | Told | Moved

to_server: Reader[ToServer] = Reader(ToServer, "message")
to_client: Reader[ToClient] = Reader(ToClient, "message")


def agree(oldest: int, newest: int) -> int | Refusal:
    """The newest version both speak."""
    version = min(newest, NEWEST)
    if version >= max(oldest, OLDEST):
        return version
    why = f"the client speaks versions {oldest} to {newest}, this server {OLDEST} to {NEWEST}"
    return Refusal("wrong_version", why, "use a client of about the server's age")
