"""Words that the explanations of all kinds share: who is silent, who is stuck, and when something happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from quoracy.core.codec import said_s, us
from quoracy.core.detector import Detector
from quoracy.core.machine import Wait

NAMES_SHOWN = 5
SENTENCES_TOLD = 8
HEARTBEAT = "a heartbeat"
STUCK = "progress: alive but stuck"
LATE = 1.2
"""So many intervals without a heartbeat make silent whom a run waits for. Others are named after two."""
SILENT_ALONE = 3
"""Up to so many silent ones are named each with its own times."""
UNHEARD_OF, SILENT, STILL = "unheard", "silent", "still"

Does = Callable[[str], tuple[int, str]]
"""What somebody does who is not silent: how bad that is, and the words for it."""
Still = Callable[[str], int]
"""For how long somebody's training has not moved; -1 if it never said that it did."""


def few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def listed(parts: Iterable[str]) -> str:
    said = list(parts)
    return f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else "".join(said)


def more(count: int, what: str) -> str:
    return f"{count} more {what}{'' if count == 1 else 's'}"


def are_lost(names: Sequence[str]) -> str:
    return f"{few(names)} {'is' if len(names) == 1 else 'are'} lost"


def soon(left_us: int) -> str:
    return f"in {said_s(left_us)}" if left_us else "at any moment"


def heartbeat(member: str, silent_us: int, timeout_us: int) -> Wait:
    return Wait(HEARTBEAT, (member,), silent_us, max(0, timeout_us - silent_us), "it is lost")


def stuck(member: str, still_us: int) -> Wait:
    return Wait(STUCK, (member,), still_us, None, "")


def silent_told(waits: Sequence[Wait], since: str = "", noun: str = "") -> list[str]:
    """One sentence for all who are silent: when a switch fails they are a thousand at once. ``since``: why they may be
    silent, if they were never heard. ``noun``: before each name."""
    if not waits:
        return []
    first, one = max(waits, key=lambda wait: wait.waited_us), len(waits) == 1
    names = few([noun + wait.missing[0] for wait in waits])
    lost = f"{'it is' if one else 'the first is'} lost {soon(first.left_us or 0)}"
    if since:
        return [f"{since} {said_s(first.waited_us)} ago and has not heard from {names} yet; {lost}"]
    silent = f"{'has' if one else 'have'} sent no heartbeat for {'' if one else 'up to '}{said_s(first.waited_us)}"
    return [f"{names} {silent}; {lost}"]


def stuck_told(waits: Sequence[Wait]) -> list[str]:
    """One sentence for all who are stuck."""
    if not waits:
        return []
    one, still_us = len(waits) == 1, max(wait.waited_us for wait in waits)
    stuck = f"{'is' if one else 'are'} alive but stuck: no progress for {'' if one else 'up to '}{said_s(still_us)}"
    return [f"{few([wait.missing[0] for wait in waits])} {stuck}"]


def joined(sentences: Sequence[str]) -> str:
    more = [f"and {len(sentences) - SENTENCES_TOLD} more waits"] if len(sentences) > SENTENCES_TOLD else []
    return ". ".join([*sentences[:SENTENCES_TOLD], *more])


class Silence:
    """Who has been silent for how long, and when each is lost. ``found``: those whom this collector found when it began
    and gave a fresh time-out."""

    def __init__(
        self, detector: Detector, interval_s: float, now_us: int, began_us: int = 0,
        found: frozenset[str] = frozenset(), noun: str = "", late: float = LATE,
    ) -> None:  # fmt: skip
        """``noun``: before each name. ``late``: so many intervals make silent whom a run waits for."""
        self._detector = detector
        self._now_us = now_us
        self._began_us = began_us
        self._found = found
        interval_us = us(interval_s)
        self._noun = noun
        self._late_us = int(late * interval_us)
        self._silence_us = 2 * interval_us

    def silent_us(self, member: str) -> int:
        return self._detector.silent_us(member, self._now_us) or 0

    def names(self, members: Iterable[str]) -> list[str]:
        return [self._noun + member for member in members]

    def lost_in_us(self, member: str) -> int:
        return max(0, self._detector.timeout_us - self.silent_us(member))

    def is_unheard(self, member: str) -> bool:
        """Whether there was no sign of life from it since this collector began."""
        return member in self._found and self.silent_us(member) == self._now_us - self._began_us

    def stays_away(self, member: str) -> bool:
        """Whether its loss is what to expect of one that is waited for."""
        return self.silent_us(member) >= self._late_us or self.is_unheard(member)

    def is_long(self, member: str) -> bool:
        """Whether people want to know of it, also if nobody waits for it."""
        return self.silent_us(member) >= self._silence_us

    def losses(self, members: Iterable[str]) -> list[tuple[int, str]]:
        """Whose loss is to be expected, and in how many microseconds; the first comes first."""
        return sorted((self.lost_in_us(member), member) for member in members if self.stays_away(member))

    def waits(self, members: Iterable[str], awaited: Iterable[str]) -> list[Wait]:
        """For the heartbeats of those who have missed one and more: people want to know before it is a loss."""
        wanted = set(awaited)
        return [
            heartbeat(member, self.silent_us(member), self._detector.timeout_us)
            for member in members
            if self.is_long(member) or (member in wanted and self.silent_us(member) >= self._late_us)
        ]

    def told(self, waits: Sequence[Wait]) -> list[str]:
        """Sentences of these waits for heartbeats."""
        unheard: list[Wait] = []
        silent: list[Wait] = []
        for wait in waits:
            (unheard if self.is_unheard(wait.missing[0]) else silent).append(wait)
        return [*silent_told(unheard, "the coordinator started"), *silent_told(silent, noun=self._noun)]

    def whom(self, members: Sequence[str], does: Does, still_us: Still) -> str:
        """Names with what is known of them, those with the same remark together, the worst first. Who ``does`` what is
        called ``STILL`` is stuck."""
        groups: dict[tuple[int, str], list[str]] = {}
        for member in members:
            groups.setdefault(self._does(member, does), []).append(member)
        several = len(members) > 1
        said: list[str] = []
        for (_, remark), some in sorted(groups.items(), key=lambda group: group[0]):
            alone = remark == SILENT and len(some) <= SILENT_ALONE
            together = [[member] for member in sorted(some, key=self.lost_in_us)] if alone else [some]
            said += [
                f"{few(self.names(names))} ({self._remark(remark, names, several, still_us)})" for names in together
            ]
        return listed(said)

    def _does(self, member: str, does: Does) -> tuple[int, str]:
        if self.is_unheard(member):
            return -2, UNHEARD_OF
        return (-1, SILENT) if self.stays_away(member) else does(member)

    def _remark(self, remark: str, members: list[str], several: bool, still_us: Still) -> str:
        """``several``: the loss of one of them need not be the end of the wait, so it is told here."""
        up_to = "up to " if len(members) > 1 else ""
        if remark == STILL:
            return f"alive but stuck: no progress for {up_to}{said_s(max(map(still_us, members)))}"
        if remark not in (UNHEARD_OF, SILENT):
            moved = still_us(members[0]) if len(members) == 1 else -1
            return remark if moved < 0 else f"{remark}, last progress {said_s(moved)} ago"
        longest = max(members, key=self.silent_us)
        lost = f", {'the first is ' if up_to else ''}lost {soon(self.lost_in_us(longest))}" if several else ""
        if remark == UNHEARD_OF:
            return f"not heard since the coordinator started {said_s(self.silent_us(longest))} ago{lost}"
        return f"silent for {up_to}{said_s(self.silent_us(longest))}{lost}"
