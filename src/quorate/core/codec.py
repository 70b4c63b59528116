"""Bytes and digests. One encoding for the journal, the wire and snapshots: msgpack.

The same value gives the same bytes on every machine, so a digest of bytes is a digest of meaning. Digests are BLAKE2b
with 32 bytes, from the standard library, because the core imports nothing else.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from quorate.core.errors import Refusal

DIGEST_BYTES: Final = 32
NO_DIGEST: Final = bytes(DIGEST_BYTES)
"""What the first entry of a journal names as its predecessor."""

MICROSECONDS: Final = 1_000_000

T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode
"""Keeps the order of dictionaries, because order is part of a state: whoever restores a snapshot must walk its tables
in the order in which the fold filled them. Sets have no order and are not used in states."""


def digest(*parts: bytes) -> bytes:
    """The digest of the concatenation. Callers whose parts vary in length frame them first."""
    hashed = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        hashed.update(part)
    return hashed.digest()


def us(seconds: float) -> int:
    """Seconds, as people write them in a configuration, in microseconds of run time."""
    return round(seconds * MICROSECONDS)


def seconds(microseconds: int) -> float:
    return microseconds / MICROSECONDS


def said_s(microseconds: int) -> str:
    """A duration as a sentence says it: 250 ms, 1.5 s, 12 min."""
    if microseconds < MICROSECONDS:
        return f"{microseconds / 1000:.0f} ms"
    if microseconds < 120 * MICROSECONDS:
        return f"{microseconds / MICROSECONDS:.1f} s"
    return f"{microseconds / MICROSECONDS / 60:.0f} min"


def malformed(error: Exception, what: str) -> Refusal:
    """A decoding error as a refusal that names the field: msgspec says where, as a path such as ``$.step``."""
    text = str(error)
    _, found, path = text.rpartition("`")[0].rpartition("`")
    field = path.removeprefix("$").removeprefix(".") if found else ""
    place = f"{what}.{field}" if field else what
    return Refusal("malformed", f"{place}: {text}", "send the field as the protocol describes it")


def decode(decoder: msgspec.msgpack.Decoder[T], payload: bytes | msgspec.Raw, what: str) -> T | Refusal:
    """Decode what came from outside: never raises, names the field that is wrong."""
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return malformed(error, what)


def builtins(value: Any) -> Any:
    """As JSON-able plain values, for people and scripts: bytes as hex."""
    return msgspec.to_builtins(value, enc_hook=str, builtin_types=(), str_keys=True)
