"""A deliberately dumb account of batches: one word for each of them, and no arithmetic.

It is the twin of the run's own account, which keeps ranges and counts. Whatever is done to a batch that its word does
not allow is told to ``fail``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quoracy.core.witnessed.committee import Ranges

OPEN = "open"
WAITING = "waiting"
APPLIED = "applied"
KEPT = "applied, and in the last stored checkpoint"


class Batches:
    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail
        self.word: list[str] = []
        """By number. A word beyond the four is the reason why the batch was skipped."""
        self.tries: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        """By number: the step of the checkpoint that has it."""

    def numbers(self, *words: str) -> list[int]:
        return [number for number, word in enumerate(self.word) if word in words]

    def skipped(self) -> dict[str, int]:
        """Reason -> how many."""
        found: dict[str, int] = {}
        for word in self.word:
            if word not in (OPEN, WAITING, APPLIED, KEPT):
                found[word] = found.get(word, 0) + 1
        return found

    def take(self, wanted: int) -> Ranges:
        """The next round's: the lowest that wait, then new ones."""
        taken = self.numbers(WAITING)[:wanted]
        taken += range(len(self.word), len(self.word) + wanted - len(taken))
        self.word += [WAITING] * (taken[-1] + 1 - len(self.word) if taken else 0)
        for number in taken:
            self._move(number, WAITING, OPEN)
        return tuple((number, number + 1) for number in taken)

    def apply(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._move(number, OPEN, APPLIED)

    def wait_again(self, numbers: Iterable[int], failed: int, attempts_max: int) -> None:
        for number in numbers:
            self.tries[number] = self.tries.get(number, 0) + failed
            hopeless = self.tries[number] >= attempts_max
            self._move(number, OPEN, f"failed {attempts_max} times" if hopeless else WAITING)

    def give_back(self, numbers: Iterable[int]) -> None:
        """Was applied, and is not any more: its tries are forgotten."""
        for number in list(numbers):
            self._move(number, APPLIED, WAITING)
            self.tries.pop(number, None)

    def keep(self, step: int) -> None:
        for number in self.numbers(APPLIED):
            self.word[number] = KEPT
            self.kept[number] = step

    def lose(self, step: int) -> None:
        """Of all checkpoints those after this step are none."""
        for number in [number for number, of in self.kept.items() if of > step]:
            self._move(number, KEPT, APPLIED)
            del self.kept[number]

    def close(self, reason: str) -> None:
        for number in self.numbers(WAITING):
            self._move(number, WAITING, reason)

    def _move(self, number: int, before: str, after: str) -> None:
        if self.word[number] != before:
            self._fail(f"batch {number} is {self.word[number]} and not {before}, when it is to be {after}")
        self.word[number] = after


def numbers(ranges: Ranges) -> list[int]:
    return [number for first, end in ranges for number in range(first, end)]
