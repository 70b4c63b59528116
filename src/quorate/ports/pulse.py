"""The pulse port: who still moves. A beat is a sequence number under the beater's own key.

No times are stored: clocks of two machines are never compared. An observer looks now and then, and judges on its own
monotonic clock how long a number has stood still (``core.detector``).
"""

from __future__ import annotations

from typing import Protocol

import msgspec

MAX_NOTE_BYTES = 4 * 1024


class Beat(msgspec.Struct, frozen=True):
    seq: int
    note: bytes = b""
    """Something small the beater wants observers to know, such as its address. At most 4 KiB."""


class Pulse(Protocol):
    def beat(self, run: str, key: str, beat: Beat) -> None:
        """Replace the key's beat. Need not be durable. A lower ``seq`` than the stored one is ignored. A note over
        4 KiB or a negative ``seq`` raises ``ValueError``."""

    def beats(self, run: str) -> dict[str, Beat]:
        """All keys that ever beat and were not forgotten."""

    def forget(self, run: str, key: str) -> None:
        """Drop the key; unknown keys are fine."""

    def tally(self, run: str, place: str, turn: int) -> int:
        """One more at this place, in this turn. Returns how many so far, this one included. Atomic: of those who come
        at the same time each gets another number. A higher turn begins at 1 again, and what comes late to an older one
        may get any number. A hint all the same: it need not survive, and one whose reply was lost may count twice. A
        negative turn raises ``ValueError``."""

    def close(self) -> None:
        """Let go of everything. A second close is fine; any other call after it raises ``ValueError``."""
