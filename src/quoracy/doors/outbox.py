"""What waits for a client that does not read just now: every answer, and of each view the newest.

A training script that computes for hours reads nothing meanwhile, and that is normal. Answers are few, since each
follows something that the client said; they are kept in their order, and ``answer_bytes`` says how much they are: a
client that asks on and on without reading is cut off by it. Views come without being asked, and a view says how
something looks *now*: a newer one takes the place of the one that still waits, so there are never more of them than
there are topics.

A newer view stands where it was put and not where the older one stood: what is taken is what was put, in that order,
without the views that were overtaken. So nobody hears of an incarnation before the answer that began it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from quoracy.core.messages import Told

HIGH_WATER_BYTES: Final = 64 * 1024
"""What is handed over to the system without a look at whether it is read; beyond, it waits in the outbox."""


class Outbox:
    __slots__ = ("_count", "_waiting", "answer_bytes")

    def __init__(self) -> None:
        self._waiting: dict[Hashable, bytes] = {}
        """Views by what they show, answers by their number."""
        self._count = 0
        self.answer_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, encoded: bytes, view: tuple[str, str, str] | None = None) -> None:
        """``view``: what it shows, if it is one; see ``view_of``."""
        if view is None:
            self._count += 1
            self._waiting[self._count] = encoded
            self.answer_bytes += len(encoded)
        else:
            self._waiting.pop(view, None)
            self._waiting[view] = encoded

    def take(self) -> list[bytes]:
        """Everything, in order."""
        waiting, self._waiting = self._waiting, {}
        self.answer_bytes = 0
        return list(waiting.values())


def view_of(message: object, run: str) -> tuple[str, str, str] | None:
    """What a message shows, and to whom; None if it is an answer. The reply to a heartbeat is a view too: it names the
    heartbeat that was seen last and the order that waits, and the newest tells all that those before it told."""
    return (run, message.member, message.topic) if type(message) is Told else None
