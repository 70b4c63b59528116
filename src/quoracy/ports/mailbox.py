"""The mailbox port: how members propose events when there is no server to send them to.

A slot is (sender, sequence). Posting is create-only, so a repeated post is harmless; whoever appends the next entry
reads the letters, writes them in, and they are discarded once the entry that consumed them is committed.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

MAX_LETTER_BYTES = 512 * 1024


class Letter(msgspec.Struct, frozen=True):
    sender: str
    seq: int
    payload: bytes


class Mailbox(Protocol):
    def post(self, run: str, letter: Letter) -> bool:
        """Durably create the slot. False if it was taken already; what is there stays. Payloads over 512 KiB are
        refused with ValueError, and so is a sequence number below 1."""

    def collect(self, run: str, limit: int = 1000) -> list[Letter]:
        """Letters not yet discarded, ordered by (sender, seq)."""

    def discard(self, run: str, sender: str, upto: int) -> None:
        """Delete the sender's letters with seq <= ``upto``; a later post of such a seq is refused (returns False)."""

    def close(self) -> None:
        """Let go of everything. A second close is fine; any other call after it raises ``ValueError``."""
