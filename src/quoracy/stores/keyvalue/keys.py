"""What the keys are called and what the values look like.

    <prefix>/store                     which store this is, and in which format
    <prefix>/runs/<i>                  the names of all runs, one each
    <prefix>/run/<run>/entry/<n>       an entry
    <prefix>/run/<run>/floor           entries up to this one are gone, whatever else is found
    <prefix>/run/<run>/swept           up to here they have been deleted as well
    <prefix>/run/<run>/usual/<n>       entry n is what everybody expected; and turned/<n>: see meeting
    <prefix>/run/<run>/segments        the lines between segments
    <prefix>/run/<run>/snapshot        the newest snapshot, which names blobs
    <prefix>/run/<run>/blob/...        pages, in parts
    <prefix>/run/<run>/beaters/<i>     who ever beat
    <prefix>/run/<run>/beat/<key>      a beat
    <prefix>/run/<run>/tally/...       how many came to a place in a turn, and the notes they left
    <prefix>/run/<run>/senders/<i>     who ever posted
    <prefix>/run/<run>/box/<sender>    which letters wait, and up to where they were discarded
    <prefix>/run/<run>/letter/...      a letter
    <prefix>/run/<run>/posted          how many letters were ever posted: as long as it stands, nothing is new
    <prefix>/run/<run>/emptied         how many it were when somebody looked for letters and found none

A name may hold anything, so it stands in a key with percent signs, or as a digest if that gets long. Every value begins
with a seal over its key's meaning, the run's full name, and its bytes: two names that share a key would be noticed.
"""

from __future__ import annotations

from hashlib import blake2b
from urllib.parse import quote

from quoracy.core.errors import JournalCorrupt
from quoracy.ports.keyvalue import MAX_KEY_BYTES, MAX_VALUE_BYTES
from quoracy.stores.limits import bounded, run_name
from quoracy.stores.seal import SEAL_BYTES, seal

MAX_PREFIX_BYTES = 128
MAX_PART = 120
"""Longer names become digests."""
NONCE_BYTES = 16


def checked_key(key: str) -> str:
    if not (0 < len(key) <= MAX_KEY_BYTES and key.isascii() and key.isprintable() and " " not in key):
        raise ValueError(f"a key is 1 to {MAX_KEY_BYTES} printable ASCII characters without spaces, not {key!r:.100}")
    return key


def checked_value(value: bytes) -> bytes:
    return bounded(value, 1, MAX_VALUE_BYTES, "a value")


def part(name: str) -> str:
    """A name as one part of a key: no two names give the same. ``quote`` never leaves an exclamation mark."""
    quoted = quote(name, safe="")
    if len(quoted) <= MAX_PART:
        return quoted
    return "!" + blake2b(name.encode(), digest_size=20).hexdigest()


class Sealed:
    """Values of one meaning in one run: sealed when written, checked when read."""

    def __init__(self, kind: str, run: str = "") -> None:
        self.kind = kind
        self.run = run
        self._kind = kind.encode()
        self._run = run.encode()

    def seal(self, body: bytes, number: int = 0, name: str = "") -> bytes:
        return seal(self._kind, self._run, number, name.encode(), body) + body

    def open(self, value: bytes, key: str, number: int = 0, name: str = "") -> bytes:
        body = value[SEAL_BYTES:]
        if value[:SEAL_BYTES] != seal(self._kind, self._run, number, name.encode(), body):
            what = f"the {self.kind} is not the one that was written"
            raise JournalCorrupt(self.run, number if self.kind == "entry" else 0, 0, what, key)
        return body


class RunKeys:
    """The keys of one run."""

    def __init__(self, prefix: str, run: str) -> None:
        run_name(run)
        self.run = run
        self.base = f"{prefix}/run/{part(run)}"
        self.floor = f"{self.base}/floor"
        self.swept = f"{self.base}/swept"
        self.segments = f"{self.base}/segments"
        self.snapshot = f"{self.base}/snapshot"
        self.posted = f"{self.base}/posted"
        self.emptied = f"{self.base}/emptied"
        self._entry = f"{self.base}/entry/"
        self._usual = f"{self.base}/usual/"
        self._turned = f"{self.base}/turned/"
        self._places: dict[str, str] = {}

    def entry(self, n: int) -> str:
        return f"{self._entry}{n}"

    def usual(self, n: int) -> str:
        return f"{self._usual}{n}"

    def turned(self, n: int) -> str:
        return f"{self._turned}{n}"

    def notes(self, place: str, turn: int) -> str:
        known = self._places.get(place)
        if known is None:
            known = self._places[place] = f"{self.base}/tally/{part(place)}/notes/"
        return f"{known}{turn}"
