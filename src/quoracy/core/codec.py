"""Bytes and digests. One encoding for the journal, the wire and snapshots: msgpack.

The same value gives the same bytes on every machine, so a digest of bytes is a digest of meaning. Digests are BLAKE2b
with 32 bytes, from the standard library, because the core imports nothing else.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from quoracy.core.errors import Refusal

DIGEST_BYTES: Final = 32
NO_DIGEST: Final = bytes(DIGEST_BYTES)
"""What the first entry of a journal names as its predecessor."""

MICROSECONDS: Final = 1_000_000
MAX_WHY: Final = 512
"""Characters of a decoding error that are repeated: it may quote the whole value, and refusals are kept."""

T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode
"""Keeps the order of dictionaries, because order is part of a state: whoever restores a snapshot must walk its tables
in the order in which the fold filled them. Sets have no order and are not used in states."""


def ready(*types: Any) -> None:
    """To be read by several threads. msgspec works out what it has to know of a type when it first reads one, and two
    threads that do so at the same moment end the process with a segmentation fault. So this is called where types are
    defined: a module is imported by one thread."""
    for each in types:
        msgspec.msgpack.Decoder(each)


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


def malformed(error: Exception, what: str, types: Any = None, payload: bytes | msgspec.Raw = b"") -> Refusal:
    """A decoding error as a refusal that names the field.

    msgspec says where as a path. Structs are written as arrays, so that the path begins with a position; which field
    that is depends on the struct, which is looked up by the tag in ``payload`` among ``types``.
    """
    text = str(error)
    path = text.rpartition("`")[0].rpartition("`")[2]
    place = what
    if path.startswith("$"):
        place = _named(what, path[1:], types, payload)[:MAX_WHY]
    return Refusal("malformed", f"{place}: {text[:MAX_WHY]}", "send the field as the protocol describes it")


def _named(what: str, path: str, types: Any, payload: bytes | msgspec.Raw) -> str:
    position = path[1 : path.find("]")] if path.startswith("[") else ""
    if not position.isdigit():
        return what + path
    try:
        tag = msgspec.msgpack.decode(payload)[0]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, IndexError, KeyError):
        return what + path
    for struct in get_args(types) or (types,):
        fields: tuple[str, ...] = getattr(struct, "__struct_fields__", ())
        config = getattr(struct, "__struct_config__", None)
        if config is not None and config.tag == tag and 0 < int(position) <= len(fields):
            return f"{what}.{fields[int(position) - 1]}{path[path.find(']') + 1 :]}"
    return what + path


class Reader(Generic[T]):
    """Decodes what came from outside: never raises, names the field that is wrong."""

    def __init__(self, types: Any, what: str) -> None:
        self._types = types
        self._what = what
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(types)

    def read(self, payload: bytes | msgspec.Raw) -> T | Refusal:
        try:
            return self._decoder.decode(payload)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return malformed(error, self._what, self._types, payload)


def builtins(value: Any) -> Any:
    """As JSON-able plain values, for people and scripts: bytes as base64."""
    return msgspec.to_builtins(value, enc_hook=str, builtin_types=(), str_keys=True)
