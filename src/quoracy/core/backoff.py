"""How long to wait before something that failed is tried again. Pure: time and dice are arguments.

The first wait is short, each further one is longer, up to the longest. All of them are drawn from a range, so that a
thousand who failed at the same moment do not come back at the same moment. Whoever said no may say when to come again:
then nobody comes sooner.

A success ends the series. Where a success means little before it has lasted, such as a connection that is cut at once
each time, it ends the series only if it lasted.
"""

from __future__ import annotations

import msgspec

from quoracy.core.codec import seconds, us


class Waits(msgspec.Struct, frozen=True):
    """What a back-off is made of."""

    first_us: int
    longest_us: int
    growth: int = 2
    """Each wait is so many times the one before."""
    jitter: float = 0.5
    """The share of a wait that the dice may take off it. Added to an advised one, which is never shortened."""
    lasting_us: int = 0
    """A success that did not last so long was none."""
    old_tries: int = 0
    """After so many in a row the longest wait is ``old_us``. 0: it never is."""
    old_us: int = 0
    advised_us: int = 60_000_000
    """An advice to wait longer is followed up to here."""


class Backoff:
    __slots__ = ("_succeeded_us", "_waits", "tries")

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self.tries = 0
        """Failures since the last success that lasted."""
        self._succeeded_us: int | None = None

    def failed(self, now_us: int, dice: float, retry_after_s: float | None = None) -> int:
        """How many microseconds to wait from now on. ``dice``: from 0 to 1. ``retry_after_s``: what a refusal
        advises."""
        waits, since_us = self._waits, self._succeeded_us
        if since_us is not None and now_us - since_us >= waits.lasting_us:
            self.tries = 0
        self._succeeded_us = None
        wait_us = longest_us = waits.old_us if waits.old_tries and self.tries >= waits.old_tries else waits.longest_us
        if self.tries < 64:  # beyond it any growth has come to the longest, and numbers would grow for nothing
            wait_us = min(longest_us, waits.first_us * waits.growth**self.tries)
        self.tries += 1
        wait_us = round(wait_us * (1 - waits.jitter * dice))
        if retry_after_s is None or not retry_after_s > 0:
            return wait_us
        advised_us = waits.advised_us if retry_after_s * 1e6 >= waits.advised_us else us(retry_after_s)
        return max(wait_us, round(advised_us * (1 + waits.jitter * dice)))

    def failed_s(self, now_s: float, dice: float, retry_after_s: float | None = None) -> float:
        """The same in seconds, for those who count in them."""
        return seconds(self.failed(us(now_s), dice, retry_after_s))

    def succeeded(self, now_us: int) -> None:
        """It worked, and has since."""
        if self._waits.lasting_us == 0:
            self.tries = 0
        elif self._succeeded_us is None:
            self._succeeded_us = now_us
