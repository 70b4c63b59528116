"""The world: a seeded event heap with its own time. Nothing in it is real, everything in it is repeatable.

It is not asyncio: whoever owns the order of events can repeat it. One seed gives one life, to the last message, on
every machine; a failing one is run again with a transcript, alone.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

MS: Final = 1000
SECOND: Final = 1_000_000


class World:
    def __init__(self, seed: int, record: bool = False) -> None:
        self.seed = seed
        self.now_us = 0
        self.events = 0
        self.rng = Random(seed)  # noqa: S311 - repeatable on purpose
        self.lines: list[str] | None = [] if record else None
        self._heap: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._pushed = 0

    def after(self, delay_us: int, action: Callable[..., object], *args: Any) -> None:
        self._pushed += 1
        heappush(self._heap, (self.now_us + max(0, delay_us), self._pushed, action, args))

    def run(self, until_us: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, action, args = heappop(heap)
            self.events += 1
            action(*args)
        self.now_us = until_us

    def between(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def note(self, who: str, text: Callable[[], str]) -> None:
        """A line of the transcript. The text is made only if somebody reads it."""
        if self.lines is not None:
            self.lines.append(f"{self.now_us / SECOND:10.6f}  {who:<9} {text()}")
