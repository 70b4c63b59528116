"""What was given and taken, in bytes; and how often something went wrong."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

COUNTED: Final = (
    "given_bytes", "taken_bytes", "relayed_out_bytes", "relayed_in_bytes", "connections_refused", "connections_broken",
    "told", "not_told", "heard", "heard_before", "taken_over", "given_wrong",
)  # fmt: skip
"""Relayed: through the coordinator. Taken over: stretches of a slow holder that went to another one. Given wrong: how
often a holder gave other bytes than the digest says."""


class Figures:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(COUNTED, 0))

    def add(self, name: str, count: int = 1) -> None:
        with self._lock:
            self._counts[name] += count

    def shown(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
