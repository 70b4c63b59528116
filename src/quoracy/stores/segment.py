"""The file format of archived segments and exports.

    header   8 bytes magic, u16 format version, u16 length of the name, u32 CRC-32 of these twelve bytes,
             the run's name in UTF-8, 16 bytes seal
    record   u64 n, u32 length of the payload, u32 CRC-32 of these twelve bytes, 16 bytes seal, the payload
    end      a record with n = 0 whose payload is the last entry's number (u64)

All numbers are big-endian. Entry numbers grow by one, from wherever the file begins.

Two checksums, because they answer two questions. The seal (see ``seal``) says whether the payload is what was written.
The CRC guards only the length, and it is what tells a *torn* file from a *damaged* one: if a record's length can be
trusted and the file is shorter, then the file simply ends too early; if the length cannot be trusted, bytes in the
middle are wrong.

A finished file ends with an end record, so one that was cut exactly between two records is noticed (``Scan.sealed``).
A log that still grows has none, which is no damage.

The header's shape is fixed for ever, so that every version can at least say which version it sees.

Everything here works on plain bytes; who reads and writes them is decided elsewhere (``sqlite.archive``, the
simulator's disk, the command line).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from quoracy.core.errors import JournalNewer
from quoracy.stores.limits import run_name
from quoracy.stores.seal import SEAL_BYTES, seal

MAGIC = b"\x89QSEG\r\n\x1a"
"""As in PNG: a byte over 127, both line endings and an end-of-file mark show what a careless transfer does to files."""
FORMAT = 1

_HEADER = struct.Struct(">8sHH")
_NUMBERS = struct.Struct(">QI")
_CRC = struct.Struct(">I")
_END = struct.Struct(">Q")
RECORD_BYTES = _NUMBERS.size + _CRC.size + SEAL_BYTES
"""What a record costs beyond its payload."""


class Record(NamedTuple):
    n: int
    offset: int
    payload: bytes


class Damage(NamedTuple):
    """The first thing that is wrong. ``entry`` is the one that should stand there; 0 if that cannot be told, since the
    header or the first record's head is damaged."""

    entry: int
    offset: int
    what: str
    torn: bool
    """The file ends inside a record, and up to there all is well: whatever wrote it was interrupted."""


class Scan(NamedTuple):
    run: str
    records: list[Record]
    """The good ones, up to the damage if there is any."""
    damage: Damage | None
    sealed: bool
    """The end record is there: the file holds all that its writer meant to write."""


def encode_header(run: str) -> bytes:
    name = run_name(run)
    fixed = _HEADER.pack(MAGIC, FORMAT, len(name))
    head = fixed + _CRC.pack(crc32(fixed)) + name
    return head + seal(b"qseg header", head)


def encode_record(n: int, payload: bytes) -> bytes:
    numbers = _NUMBERS.pack(n, len(payload))
    return b"".join((numbers, _CRC.pack(crc32(numbers)), seal(b"qseg record", n, payload), payload))


def encode_end(last: int) -> bytes:
    return encode_record(0, _END.pack(last))


def encode_segment(run: str, first: int, payloads: Iterable[bytes]) -> bytes:
    """A whole finished file."""
    parts = [encode_header(run)]
    parts.extend(encode_record(n, payload) for n, payload in enumerate(payloads, first))
    parts.append(encode_end(first + len(parts) - 2))
    return b"".join(parts)


def scan(content: bytes) -> Scan:
    """Everything that is good in the file, up to the first damage. Raises JournalNewer for a newer format."""
    header = _decode_header(content)
    if isinstance(header, Damage):
        return Scan("", [], header, sealed=False)
    run, offset = header
    records: list[Record] = []
    entry, sealed = 0, False
    while offset < len(content):
        if sealed:
            what = f"{len(content) - offset} bytes follow the end of the segment"
            return Scan(run, records, Damage(entry, offset, what, torn=False), sealed)
        record = decode_record(content, offset, entry)
        if isinstance(record, Record):
            record = _check_place(record, entry, records)
        if isinstance(record, Damage):
            return Scan(run, records, record, sealed)
        if record.n == 0:
            sealed = True
        else:
            records.append(record)
            entry = record.n + 1
        offset += RECORD_BYTES + len(record.payload)
    return Scan(run, records, None, sealed)


def salvage(content: bytes) -> list[Record]:
    """Every good record, also behind damage: looks for the next one byte by byte. For repairs; slow."""
    found: list[Record] = []
    offset = 0
    while offset + RECORD_BYTES <= len(content):
        record = decode_record(content, offset, 0)
        if isinstance(record, Record):
            offset += RECORD_BYTES + len(record.payload)
            if record.n:
                found.append(record)
        else:
            offset += 1
    return found


def decode_record(content: bytes, offset: int, entry: int) -> Record | Damage:
    """The record at ``offset``, where entry ``entry`` is expected; whether it is that one is not checked here."""
    start = offset + RECORD_BYTES
    if len(content) < start:
        here = len(content) - offset
        return Damage(entry, offset, f"the file ends after {here} bytes of a record's head", torn=True)
    numbers = content[offset : offset + _NUMBERS.size]
    n, length = _NUMBERS.unpack(numbers)
    (crc,) = _CRC.unpack_from(content, offset + _NUMBERS.size)
    if crc != crc32(numbers):
        return Damage(entry, offset, "the head of the record is damaged", torn=False)
    if len(content) - start < length:
        here = len(content) - start
        return Damage(n or entry, offset, f"the file ends after {here} of {length} bytes of a payload", torn=True)
    payload = content[start : start + length]
    if seal(b"qseg record", n, payload) != content[start - SEAL_BYTES : start]:
        return Damage(n or entry, offset, "the payload is not the one that was written", torn=False)
    return Record(n, offset, payload)


def _decode_header(content: bytes) -> tuple[str, int] | Damage:
    """The run's name and where the records begin."""
    name_at = _HEADER.size + _CRC.size
    if not MAGIC.startswith(content[: len(MAGIC)]):
        return Damage(0, 0, "this is not a segment file, or its first bytes are damaged", torn=False)
    if len(content) < name_at:
        return Damage(0, 0, "the file ends inside its header", torn=True)
    _, version, length = _HEADER.unpack_from(content)
    if _CRC.unpack_from(content, _HEADER.size) != (crc32(content[: _HEADER.size]),):
        return Damage(0, 0, "the header is damaged", torn=False)
    if version > FORMAT:
        raise JournalNewer(f"the segment has format {version}, this Quoracy reads up to {FORMAT}: use a newer one")
    name_end = name_at + length
    if len(content) < name_end + SEAL_BYTES:
        return Damage(0, 0, "the file ends inside its header", torn=True)
    if seal(b"qseg header", content[:name_end]) != content[name_end : name_end + SEAL_BYTES]:
        return Damage(0, 0, "the header is damaged", torn=False)
    return content[name_at:name_end].decode(), name_end + SEAL_BYTES


def _check_place(record: Record, entry: int, records: list[Record]) -> Record | Damage:
    """Whether the record, whole in itself, may stand where it stands."""
    if record.n == 0:
        last = records[-1].n if records else 0
        if record.payload == _END.pack(last):
            return record
        return Damage(entry, record.offset, f"the end does not name entry {last} as the last", torn=False)
    if records and record.n != entry:
        return Damage(entry, record.offset, f"entry {record.n} stands where entry {entry} belongs", torn=False)
    return record
