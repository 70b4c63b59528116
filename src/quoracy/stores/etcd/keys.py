"""Which key holds what, and the seal on every value.

    PREFIX/schema                              the version of all this
    PREFIX/serving                             which host may serve; goes with its lease
    PREFIX/secret                              what tokens are made from
    PREFIX/heads/RUN                           the number of the newest entry
    PREFIX/runs/RUN/entries/N                  hot entries
    PREFIX/runs/RUN/hot                        the first entry that is in no segment
    PREFIX/runs/RUN/segments/FIRST             one row for each segment ever sealed
    PREFIX/runs/RUN/archive/FIRST/N            the entries of a segment, in chunks that begin with entry N
    PREFIX/runs/RUN/snapshot                   which snapshot counts
    PREFIX/runs/RUN/index/N/PART               its root, and the names of its pages
    PREFIX/runs/RUN/pages/DIGEST/PART          the pages
    PREFIX/runs/RUN/upkeep                     who saves or compacts; goes with its lease
    PREFIX/beats/RUN/KEY                       pulse
    PREFIX/tallies/RUN/PLACE/TURN/WHO          who came in a turn, and the note it left
    PREFIX/letters/RUN/SENDER/SEQ              mailbox
    PREFIX/discarded/RUN/SENDER                up to which letters were discarded

Names are percent-encoded, so any name is one step of a path. Senders are hexadecimal, which keeps their order. Numbers
have twenty digits, which keeps theirs. A value is its seal and then what it holds; the seal covers the key without the
prefix, so a value in a wrong place is as wrong as a damaged one, and a copy under another prefix is not.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

from quoracy.core.errors import JournalCorrupt
from quoracy.stores.seal import SEAL_BYTES, seal

KIND = b"etcd value"


class Keys:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode() + b"/"
        self.schema = self.at("schema")
        self.serving = self.at("serving")
        self.secret = self.at("secret")
        self.heads = self.at("heads", "")

    def at(self, *steps: str) -> bytes:
        return self._prefix + "/".join(steps).encode()

    def head(self, name: bytes) -> bytes:
        return self.at("heads", escaped(name))

    def of_run(self, name: bytes, *steps: str) -> bytes:
        return self.at("runs", escaped(name), *steps)

    def entry(self, name: bytes, n: int) -> bytes:
        return self.of_run(name, "entries", digits(n))

    def last_step(self, key: bytes) -> bytes:
        """The name that the key ends with."""
        return unquote_to_bytes(key.rpartition(b"/")[2])

    def wrap(self, key: bytes, content: bytes) -> bytes:
        return seal(KIND, key[len(self._prefix) :], content) + content

    def unwrap(self, key: bytes, value: bytes, run: str = "", entry: int = 0) -> bytes:
        """Raises JournalCorrupt, naming the key."""
        content = value[SEAL_BYTES:]
        if len(value) < SEAL_BYTES or value[:SEAL_BYTES] != seal(KIND, key[len(self._prefix) :], content):
            what = "the value is not the one that was written"
            raise JournalCorrupt(run, entry, 0, what, f"the key {said(key)}")
        return content


def escaped(name: bytes) -> str:
    return quote(name, safe="")


def digits(number: int) -> str:
    return f"{number:020d}"


def said(key: bytes) -> str:
    return key.decode("ascii", "backslashreplace")
