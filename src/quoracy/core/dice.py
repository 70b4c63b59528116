"""Seeded draws that everybody can recompute.

Theory: BLAKE2b, keyed by what the draw is for, over a counter gives a stream of 64-bit words that nobody can tell
from random without the key and everybody gets alike with it. A draw below n throws a word away when it falls into the
ragged end of the range (rejection sampling), so no value is likelier than another; a shuffle is Fisher and Yates',
so all n! orders are reachable: by one stream, with a seed of 16 bytes, up to n = 34 (34! < 2**128 < 35!); over rounds,
each with a seed of its own, whatever n is.

Every stream is named by (run, purpose, epoch, round, seed). Two draws for different purposes never share words, and a
member needs only the journal to repeat them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeVar

from quoracy.core.codec import encode

T = TypeVar("T")

SEED_BYTES: Final = 16
_WORD: Final = 1 << 64
_WORDS_PER_BLOCK: Final = 8


class Dice:
    """One stream of draws. Creating it costs nothing until the first draw."""

    __slots__ = ("_block", "_key", "_name", "_words")

    def __init__(self, run: str, purpose: str, epoch: int, round_: int, seed: bytes) -> None:
        self._name = (run, purpose, epoch, round_, seed)
        self._key = b""
        self._block = 0
        self._words: list[int] = []

    def word(self) -> int:
        """The next 64 bits."""
        if not self._words:
            if not self._key:
                self._key = blake2b(encode(self._name), digest_size=64, person=b"quoracy.dice").digest()
            block = blake2b(self._block.to_bytes(8, "big"), key=self._key, digest_size=64).digest()
            self._block += 1
            self._words = [int.from_bytes(block[i * 8 : i * 8 + 8], "big") for i in range(_WORDS_PER_BLOCK)]
            self._words.reverse()
        return self._words.pop()

    def below(self, n: int) -> int:
        """A whole number from 0 to n-1, each equally likely."""
        if not 0 < n <= _WORD:
            raise ValueError(f"n = {n}: must be between 1 and 2**64")
        fair = _WORD - _WORD % n
        while (word := self.word()) >= fair:
            pass
        return word % n

    def shuffle(self, items: Sequence[T]) -> list[T]:
        """All items in a new order."""
        order = list(items)
        for i in range(len(order) - 1, 0, -1):
            j = self.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return order

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """k different items, in drawn order."""
        if not 0 <= k <= len(items):
            raise ValueError(f"k = {k}: must be between 0 and the {len(items)} items there are")
        pool = list(items)
        for i in range(k):
            j = i + self.below(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:k]

    def choose(self, items: Sequence[T]) -> T:
        """One item."""
        return items[self.below(len(items))]


class Cup:
    """What a machine is handed with an event: the entry's seed, from which it makes dice by name.

    The event's place in its entry is part of the seed, so two events of one entry never draw alike.
    """

    __slots__ = ("index", "run", "seed")

    def __init__(self, run: str, seed: bytes) -> None:
        self.run = run
        self.seed = seed
        self.index = 0

    def dice(self, purpose: str, epoch: int = 0, round_: int = 0) -> Dice:
        return Dice(self.run, purpose, epoch, round_, self.seed + self.index.to_bytes(4, "big"))
