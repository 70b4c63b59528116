"""Words that the explanations of all kinds share: who is silent, who is stuck, and when something happens."""

from __future__ import annotations

from collections.abc import Sequence

from quoracy.core.codec import said_s
from quoracy.core.machine import Wait

NAMES_SHOWN = 5
SENTENCES_TOLD = 8
HEARTBEAT = "a heartbeat"
STUCK = "progress: alive but stuck"


def few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def soon(left_us: int) -> str:
    return f"in {said_s(left_us)}" if left_us else "at any moment"


def heartbeat(member: str, silent_us: int, timeout_us: int) -> Wait:
    return Wait(HEARTBEAT, (member,), silent_us, max(0, timeout_us - silent_us), "it is lost")


def stuck(member: str, still_us: int) -> Wait:
    return Wait(STUCK, (member,), still_us, None, "")


def silent_told(waits: Sequence[Wait], since: str = "") -> list[str]:
    """One sentence for all who are silent: when a switch fails they are a thousand at once. ``since``: why they may be
    silent, if they were never heard."""
    if not waits:
        return []
    first, one = max(waits, key=lambda wait: wait.waited_us), len(waits) == 1
    names = few([wait.missing[0] for wait in waits])
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


def members_told(waits: Sequence[Wait]) -> list[str]:
    """Of waits for heartbeats and for progress."""
    silent = [wait for wait in waits if wait.what == HEARTBEAT]
    return [*silent_told(silent), *stuck_told([wait for wait in waits if wait.what == STUCK])]


def joined(sentences: Sequence[str]) -> str:
    more = [f"and {len(sentences) - SENTENCES_TOLD} more waits"] if len(sentences) > SENTENCES_TOLD else []
    return ". ".join([*sentences[:SENTENCES_TOLD], *more])
