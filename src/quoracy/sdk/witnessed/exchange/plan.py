"""Who gets which bytes of a blob, without I/O: what waits, what is under way, what has come and from whom.

Not for several threads: whoever has it sees to that.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from quoracy.sdk.witnessed.exchange.limits import STRETCH_BYTES


class Gave(NamedTuple):
    """Whose bytes these are: from, and to but without."""

    start: int
    end: int
    holder: str


class Work:
    """Bytes that one holder was asked for. ``at``: up to where they have come."""

    __slots__ = ("at", "began_s", "cut", "end", "holder", "start")

    def __init__(self, holder: str, start: int, end: int, began_s: float) -> None:
        self.holder = holder
        self.start = self.at = start
        self.end = end
        self.began_s = began_s
        self.cut = False
        """Somebody else gets the rest."""


class Plan:
    def __init__(self, size_bytes: int, there: Iterable[int] = ()) -> None:
        """``there``: stretches that came earlier."""
        self.size_bytes = size_bytes
        count = -(-size_bytes // STRETCH_BYTES)
        have = set(there)
        self.resumed = bool(have)
        self._left = [0 if stretch in have else self.length(stretch) for stretch in range(count)]
        self._waiting = deque(self._bounds(stretch) for stretch in range(count) if stretch not in have)
        self._under_way: list[Work] = []
        self.gave: list[Gave] = []
        """In the order in which they came."""
        self.given: Counter[str] = Counter()
        """Bytes, by holder."""

    def length(self, stretch: int) -> int:
        return min(STRETCH_BYTES, self.size_bytes - stretch * STRETCH_BYTES)

    def _bounds(self, stretch: int) -> tuple[int, int]:
        start = stretch * STRETCH_BYTES
        return start, start + self.length(stretch)

    def whole(self) -> bool:
        return not any(self._left)

    def there_from(self, offset: int) -> int:
        """Up to where all has come, from there on; whole stretches are looked at."""
        stretch = offset // STRETCH_BYTES
        while stretch < len(self._left) and not self._left[stretch]:
            stretch += 1
        return max(offset, min(self.size_bytes, stretch * STRETCH_BYTES))

    def waiting(self) -> int:
        """Stretches, or rests of them, that nobody was asked for."""
        return len(self._waiting)

    def open(self) -> int:
        """The same, and those under way."""
        return len(self._waiting) + len(self._under_way)

    def works(self, holder: str) -> int:
        return sum(work.holder == holder for work in self._under_way)

    def take(self, holder: str, now_s: float) -> Work | None:
        if not self._waiting:
            return None
        work = Work(holder, *self._waiting.popleft(), now_s)
        self._under_way.append(work)
        return work

    def came(self, work: Work, count: int) -> int | None:
        """So many more bytes. -> the stretch that is whole now, if one is."""
        count = min(count, work.end - work.at)
        if not count:
            return None
        last = self.gave[-1] if self.gave else None
        if last is not None and (last.end, last.holder) == (work.at, work.holder):
            self.gave[-1] = last._replace(end=work.at + count)
        else:
            self.gave.append(Gave(work.at, work.at + count, work.holder))
        stretch = work.at // STRETCH_BYTES
        work.at += count
        self.given[work.holder] += count
        self._left[stretch] -= count
        if work.at == work.end:
            self._under_way.remove(work)
        return None if self._left[stretch] else stretch

    def give_up(self, holder: str) -> None:
        """It has failed: what it was asked for waits again."""
        for work in [work for work in self._under_way if work.holder == holder]:
            self.take_over(work)

    def take_over(self, work: Work) -> None:
        """The rest of it goes to whoever asks next."""
        self._under_way.remove(work)
        self._waiting.appendleft((work.at, work.end))
        work.end = work.at
        work.cut = True

    def slow(self, now_s: float, slow_s: float) -> list[Work]:
        """Such that take longer than that already, and will for as long again at their pace."""
        found = []
        for work in self._under_way:
            took_s = now_s - work.began_s
            if took_s > slow_s and (work.end - work.at) * took_s > slow_s * (work.at - work.start):
                found.append(work)
        return found
