"""What simulated members make: blobs, models and signatures, small and exact.

A model is the hash of what it came from: the model before and the digests applied to it, in their order. Two members
that applied different sets, or the same in another order, have different hashes for ever after. A result is a header
and some salt, so that nobody makes the same twice. Signatures are hashes that anybody could make; that nobody makes
them for others is a rule of this world.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quoracy.core.codec import digest, encode
from quoracy.core.witnessed.committee import Ranges
from quoracy.core.witnessed.facts import Blob, Work

SIZE_BYTES: Final = 100


def hashed(*parts: Any) -> bytes:
    return digest(encode(parts))


# -- results ---------------------------------------------------------------------------------------------------------


class Header(msgspec.Struct, frozen=True, array_like=True):
    run: str
    epoch: int
    round: int
    assignment: int
    attempt: int
    member: str
    batches: Ranges
    base: bytes
    salt: bytes


_header: Final = msgspec.msgpack.Decoder(Header)


def trained(run: str, member: str, work: Work, salt: bytes) -> bytes:
    """The bytes of a result."""
    return encode(
        Header(run, work.epoch, work.round, work.assignment, work.attempt, member, work.batches, work.base, salt)
    )  # fmt: skip


def is_right(payload: bytes, run: str, blob: Blob) -> bool:
    """Whether these bytes are the result that the run knows: by digest, and by what the header says."""
    result = blob.result
    if digest(payload) != result.digest:
        return False
    try:
        header = _header.decode(payload)
    except msgspec.DecodeError:
        return False
    said = (header.run, header.epoch, header.round, header.assignment, header.attempt, header.member)
    meant = (run, blob.epoch, blob.round, result.assignment, result.attempt, result.member)
    if said != meant or (result.base and header.base != result.base):
        return False
    return blob.batches is None or header.batches == blob.batches


# -- models ----------------------------------------------------------------------------------------------------------


class Model(msgspec.Struct, frozen=True, array_like=True):
    """Its bytes are its past; its hash is theirs."""

    step: int
    before: bytes
    digests: tuple[bytes, ...]
    rot: bytes = b""
    """Not empty: a bit fell over when it was made."""

    def hash(self) -> bytes:
        return digest(encode(self))


FIRST: Final = Model(0, b"initial", ())


def applied(step: int, model: bytes, digests: tuple[bytes, ...]) -> bytes:
    """The hash of the model of ``step + 1``: what everybody must come to."""
    return Model(step + 1, model, digests).hash()


# -- signatures --------------------------------------------------------------------------------------------------------


def key_of(member: str) -> bytes:
    return hashed("key", member)


def sign(key: bytes, message: bytes) -> bytes:
    return digest(b"signed", key, message)


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    return signature == sign(key, message)
