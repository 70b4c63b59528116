"""The failure detector: sequence numbers in, verdicts with reasons out.

It judges on the observer's own monotonic clock and nothing else: a member is *silent* for as long as its number has
not changed, whatever the member's clock says. What it cannot do, nobody can: tell a dead member from a slow network.
A false verdict costs work, never safety, because a verdict only proposes an event.

Two ways in which detectors go wrong are handled here. An observer that itself stood still (a stopped process, a
laptop's lid, a long collection) has heard nobody, which says nothing about them: after such a stall everyone gets a
fresh start. And a new observer starts everyone afresh: downtime counts zero.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import msgspec

from quoracy.core.codec import said_s


class Verdict(msgspec.Struct, frozen=True):
    """``who`` has been silent for ``silent_us``, longer than it may."""

    who: str
    silent_us: int
    why: str
    life: int = 0
    """Whose silence it was: a newer life of the same one may have come meanwhile."""


class Seen(msgspec.Struct):
    life: int
    seq: int
    moved_us: int
    queued_us: int
    """Of its one live element of the heap; any other is a leftover of an earlier watch."""


class Detector:
    """Watches the given ones until they are dropped. All times are the observer's monotonic microseconds.

    A lazy heap holds for each watched one the time at which it would be overdue as far as was known when the element
    was pushed. An element that comes up early, because the member has moved since, is pushed again: hearing costs no
    heap work, and looking costs as much as there is to judge.
    """

    def __init__(self, timeout_us: int, now_us: int) -> None:
        if timeout_us <= 0:
            raise ValueError(f"timeout_us = {timeout_us}: must be positive")
        self.timeout_us = timeout_us
        self._seen: dict[str, Seen] = {}
        self._heap: list[tuple[int, str]] = []
        self.looked_us = now_us
        """When it has looked last; at the beginning, since when it watches."""
        self._awake_us = now_us
        """When it has looked, or heard somebody, last."""
        self.stalled_us = 0
        """For how long this observer had stood still before its last look; 0 if it had not."""

    def watch(self, who: str, now_us: int, life: int = 0) -> None:
        """Begin, or begin afresh with any sequence number."""
        due_us = self._due_us(now_us)
        self._seen[who] = Seen(life, -1, now_us, due_us)
        heappush(self._heap, (due_us, who))

    def drop(self, who: str) -> None:
        self._seen.pop(who, None)

    def hear(self, who: str, seq: int, now_us: int) -> bool:
        """True if the number moved. A number that did not grow, such as a duplicate's, proves no life. Whoever hears
        is awake: unless it was a stall, the time since the last look was none."""
        if 0 < now_us - self._awake_us <= self.timeout_us // 2:
            self._awake_us = now_us
        seen = self._seen.get(who)
        if seen is None or seq <= seen.seq:
            return False
        seen.seq = seq
        seen.moved_us = max(seen.moved_us, now_us)
        return True

    def touch(self, who: str, now_us: int) -> None:
        """Another proof of life than a heartbeat, such as a new command."""
        seen = self._seen.get(who)
        if seen is not None:
            seen.moved_us = max(seen.moved_us, now_us)

    def look(self, now_us: int) -> list[Verdict]:
        """Who is overdue. They stay watched, and are named again after an eighth of the time-out, until they are
        dropped: whoever asks every moment must not be told every moment."""
        since_us = now_us - self._awake_us
        self.looked_us = self._awake_us = now_us
        self.stalled_us = since_us if since_us > self.timeout_us // 2 else 0
        if self.stalled_us:
            self.restart(now_us)
            return []
        verdicts: list[Verdict] = []
        again: list[tuple[int, str]] = []
        while self._heap and self._heap[0][0] <= now_us:
            queued_us, who = heappop(self._heap)
            seen = self._seen.get(who)
            if seen is None or seen.queued_us != queued_us:
                continue
            due_us = self._due_us(seen.moved_us)
            if due_us <= now_us:
                silent_us = now_us - seen.moved_us
                why = f"no sign of life for {said_s(silent_us)}; {said_s(self.timeout_us)} are allowed"
                verdicts.append(Verdict(who, silent_us, why, seen.life))
                due_us = now_us + self.timeout_us // 8 + 1
            seen.queued_us = due_us
            again.append((due_us, who))
        for element in again:
            heappush(self._heap, element)
        return verdicts

    def looked_after(self, now_us: int) -> None:
        """Somebody else has kept looking in this observer's place until now, and has told what it heard: the time
        that has passed was no stall."""
        self.looked_us = max(self.looked_us, now_us)
        self._awake_us = max(self._awake_us, now_us)

    def restart(self, now_us: int) -> None:
        """Everyone gets the whole time-out again. Sequence numbers stay."""
        due_us = self._due_us(now_us)
        for seen in self._seen.values():
            seen.moved_us = now_us
            seen.queued_us = due_us
        self._heap = [(due_us, who) for who in self._seen]
        heapify(self._heap)

    def _due_us(self, moved_us: int) -> int:
        """The first moment at which it has been silent for longer than it may: a time-out that is just used up, and not
        exceeded, is none yet."""
        return moved_us + self.timeout_us + 1

    def silent_us(self, who: str, now_us: int) -> int | None:
        seen = self._seen.get(who)
        return None if seen is None else now_us - seen.moved_us

    def wake_us(self) -> int | None:
        """When to look next: when the first is overdue, and often enough that a wait is never taken for a stall."""
        if not self._seen:
            return None
        return min(self._heap[0][0], self.patrol_us()) if self._heap else self.patrol_us()

    def patrol_us(self) -> int:
        """When to look next even if nobody is watched: for those whose own clocks must not count a stall."""
        return self.looked_us + self.timeout_us // 4
