"""What two members say to each other: frames of msgpack, and after ``Have`` the bytes themselves.

The listener speaks first: ``Nonce``. The dialler, who has checked the listener's certificate against the key in the
roster, says who it is and whom it wants, and signs the nonce together with both and the listener's key; so both know
with whom they speak, and nobody in between can pass an introduction on. From then on the dialler asks and the listener
answers, in order.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from quoracy.core.codec import encode

MAX_FRAME: Final = 128 * 1024
MAX_ANNOUNCED: Final = 64 * 1024
NONCE_BYTES: Final = 32
LENGTH: Final = struct.Struct(">I")

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]


class Nonce(msgspec.Struct, frozen=True, array_like=True, tag="nonce"):
    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class Mine(msgspec.Struct, frozen=True, array_like=True, tag="mine"):
    member: Annotated[str, Meta(max_length=64)]
    wanted: Annotated[str, Meta(max_length=64)]
    """Whom it wants to speak to: two members may have one key and one machine."""
    signature: Annotated[bytes, Meta(max_length=64)]


class Get(msgspec.Struct, frozen=True, array_like=True, tag="get"):
    """At most ``length`` bytes from ``offset`` on."""

    digest: Digest
    offset: Count
    length: Count


class Have(msgspec.Struct, frozen=True, array_like=True, tag="have"):
    """So many bytes follow, of so many in all."""

    length: Count
    total: Count


class NotHere(msgspec.Struct, frozen=True, array_like=True, tag="not-here"):
    pass


class Tell(msgspec.Struct, frozen=True, array_like=True, tag="tell"):
    payload: Annotated[bytes, Meta(max_length=MAX_ANNOUNCED)]


class Thanks(msgspec.Struct, frozen=True, array_like=True, tag="thanks"):
    pass


class No(msgspec.Struct, frozen=True, array_like=True, tag="no"):
    """Refused, and the connection ends."""

    why: Annotated[str, Meta(max_length=240)]


ToListener = Mine | Get | Tell
ToDialler = Nonce | Have | NotHere | Thanks | No

to_listener: Final[msgspec.msgpack.Decoder[ToListener]] = msgspec.msgpack.Decoder(ToListener)
to_dialler: Final[msgspec.msgpack.Decoder[ToDialler]] = msgspec.msgpack.Decoder(ToDialler)


def framed(message: ToListener | ToDialler) -> bytes:
    body = encode(message)
    return LENGTH.pack(len(body)) + body


def introduction(nonce: bytes, key: bytes, wanted: str, member: str) -> bytes:
    """What the dialler signs. ``key``: of the listener, who is ``wanted``."""
    return encode(("quoracy exchange", nonce, key, wanted, member))
