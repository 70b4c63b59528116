"""What every store checks before it touches anything, and how it decides which wishes it grants.

Pure, so that a dictionary, a file and a key-value server cannot decide differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quoracy.core.errors import JournalGap
from quoracy.ports import MAX_ENTRY_BYTES, MAX_RUN_NAME_BYTES, Append

MAX_NUMBER = 2**62
"""Entry, sequence and segment numbers fit into a signed 64-bit column with room to add."""


def run_name(run: str) -> bytes:
    return named(run, "a run's name")


def named(text: str, what: str) -> bytes:
    """A name as bytes. Lone surrogates cannot be written as UTF-8 and raise a ValueError as well."""
    return bounded(text.encode(), 1, MAX_RUN_NAME_BYTES, what)


def bounded(value: bytes, least: int, most: int, what: str) -> bytes:
    if not least <= len(value) <= most:
        raise ValueError(f"{what} has {least} to {most} bytes, this one has {len(value)}")
    return value


def numbered(value: int, least: int, what: str) -> int:
    if not least <= value <= MAX_NUMBER:
        raise ValueError(f"{what} is a number from {least} to {MAX_NUMBER}, not {value}")
    return value


class _Course:
    """How far one run gets within one call."""

    __slots__ = ("last", "lost_to", "reach")

    def __init__(self, last: int) -> None:
        self.last = last
        self.reach = last
        self.lost_to = 0


def decide(wishes: Sequence[Append], last_of: Callable[[str], int]) -> list[int]:
    """For each wish: 0 if it is to be written, otherwise the number of the entry it lost to.

    A wish that follows a lost one of its run was decided on top of an entry that will never exist, so it is lost too.
    Raises JournalGap or ValueError, and then nothing may be written.
    """
    courses: dict[str, _Course] = {}
    verdicts: list[int] = []
    for wish in wishes:
        run_name(wish.run)
        numbered(wish.n, 1, "an entry's number")
        bounded(wish.payload, 1, MAX_ENTRY_BYTES, "an entry")
        course = courses.get(wish.run)
        if course is None:
            course = courses[wish.run] = _Course(last_of(wish.run))
        if wish.n > course.reach + 1:
            raise JournalGap(wish.run, wish.n, course.reach)
        if wish.n <= course.last:
            course.lost_to = course.lost_to or wish.n
            verdicts.append(wish.n)
        elif course.lost_to:
            verdicts.append(course.lost_to)
        else:
            course.last = wish.n
            verdicts.append(0)
        course.reach = max(course.reach, wish.n)
    return verdicts
