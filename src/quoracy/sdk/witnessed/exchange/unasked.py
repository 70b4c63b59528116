"""What this member made and others have to come for: if nobody comes, the coordinator's relay gets it too.

Whether others can reach a member it cannot know: behind NAT its address leads nowhere. But every other member wants
each result, so that one that nobody asks for is a sign. Once that has happened, what is made next goes to the relay at
once, until somebody has come after all.
"""

from __future__ import annotations

import threading
import time

from quoracy.sdk.witnessed.exchange.offers import Offers


class Unasked:
    def __init__(self, offers: Offers, after_s: float, reachable: bool) -> None:
        """``reachable``: whether there is an address at all."""
        self._offers = offers
        self._after_s = after_s
        self._reachable = reachable
        self._waits: dict[bytes, float] = {}
        """Until when each is waited for."""
        self._lonely = False
        """The last that was made was fetched by nobody."""
        self._lock = threading.Lock()

    def made(self, digest: bytes) -> bool:
        """Whether it has to go to the relay at once."""
        with self._lock:
            self._waits[digest] = time.monotonic() + self._after_s
            return not self._reachable or self._lonely

    def gone(self, digest: bytes) -> None:
        with self._lock:
            self._waits.pop(digest, None)

    def due(self) -> list[bytes]:
        """Those for which nobody has come in time."""
        now_s, late = time.monotonic(), []
        with self._lock:
            for digest, until_s in list(self._waits.items()):
                if self._offers.was_asked(digest):
                    del self._waits[digest]
                    self._lonely = False
                elif now_s >= until_s:
                    del self._waits[digest]
                    if self._reachable and not self._lonely:
                        late.append(digest)
            self._lonely = self._lonely or bool(late)
        return late
