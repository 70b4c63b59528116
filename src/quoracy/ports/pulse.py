"""The pulse port: who still moves. A beat is a sequence number under the beater's own key.

No times are stored: clocks of two machines are never compared. An observer looks now and then, and judges on its own
monotonic clock how long a number has stood still (``core.detector``).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

MAX_NOTE_BYTES = 4 * 1024
AT = "!"
"""Between who comes and the place, in the key of such a note."""


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


@runtime_checkable
class Gathering(Protocol):
    """What some pulses can do beside: leave a note and be counted in one trip to the store. Those that cannot are
    given it by ``Gathered``, in two."""

    def arrive(self, run: str, place: str, turn: int, who: str, note: bytes) -> int:
        """Leave a note at this place, in this turn, and be counted: as ``tally``. A repeat may count twice, or replace
        the note. Notes of the turn before the last need not be kept."""

    def arrivals(self, run: str, place: str, turn: int) -> list[bytes]:
        """The notes that were left there in this turn, in any order; one may be there twice. Notes of other turns may
        be among them. Need not survive."""


class Gathered:
    """A pulse by whose beats notes are left: a key of its own for each who comes to a place."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse

    def arrive(self, run: str, place: str, turn: int, who: str, note: bytes) -> int:
        self._pulse.beat(run, f"{who}{AT}{place}", Beat(turn, note))
        return self._pulse.tally(run, place, turn)

    def arrivals(self, run: str, place: str, turn: int) -> list[bytes]:
        beats = self._pulse.beats(run).items()
        return [beat.note for key, beat in beats if key.endswith(f"{AT}{place}") and beat.seq == turn]
