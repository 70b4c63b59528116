"""What waits at a host for somebody who does not read is bounded: of each view the newest. Answers follow what was
asked; the door itself counts them."""

from __future__ import annotations

from typing import Final

from quoracy.sim.checkers.base import Checker

MAX_UNSENT_BYTES: Final = 64 * 1024


class Unread(Checker):
    name = "unread"

    def __init__(self, views: int) -> None:
        """``views``: how many a member of this kind can be shown."""
        self._views = views

    def unsent(self, connection: str, unsent_bytes: int, views: int) -> None:
        if views > self._views:
            self.fail(f"{views} views wait for {connection}, and there are {self._views} to be shown")
        if unsent_bytes > MAX_UNSENT_BYTES:
            self.fail(f"{unsent_bytes} bytes are unsent to {connection}")
