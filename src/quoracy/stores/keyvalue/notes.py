"""The notes of one turn as one value, one behind the other, so that whoever comes last reads them at once.

They are hints, and not worth a seal. Each takes whole slots, so that how many there are can be told by the length:
nearly every note fits into one. One that does not counts for more than one, which costs a look.
"""

from __future__ import annotations

SLOT_BYTES = 32
LENGTH_BYTES = 2
KEPT_TURNS = 2
"""At a place to which many come in turns: this one and the one before."""


def kept_from(turn: int) -> int:
    """The oldest turn whose notes are kept."""
    return turn - KEPT_TURNS + 1


def frame(note: bytes) -> bytes:
    said = len(note).to_bytes(LENGTH_BYTES, "big") + note
    return said + bytes(-len(said) % SLOT_BYTES)


def count_of(there: bytes) -> int:
    return len(there) // SLOT_BYTES


def unframe(there: bytes) -> list[bytes]:
    notes, at = [], 0
    while at < len(there):
        begin = at + LENGTH_BYTES
        end = begin + int.from_bytes(there[at:begin], "big")
        notes.append(there[begin:end])
        at = end + (at - end) % SLOT_BYTES
    return notes
