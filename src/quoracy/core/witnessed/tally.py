"""What was said in the open round, counted while it comes in.

At a hundred members a round has some three hundred signals, and after each of them somebody asks whether anything
follows. So nothing here walks over members or results when it is asked: counts are kept with each word that is taken
in, and only who takes a word back, or goes, costs more.
"""

from __future__ import annotations

from quoracy.core.witnessed.attestation import positions
from quoracy.core.witnessed.events import Attested, Report


class Tally:
    def __init__(self, epoch: int = -1, number: int = -1, needed: int = 0) -> None:
        self.epoch = epoch
        self.number = number
        self.needed = needed
        """Witnesses that make a quorum."""
        self.attested: dict[str, Attested] = {}
        """By witnesses."""
        self.holding: dict[str, Attested] = {}
        """By all others."""
        self.masks: dict[str, int] = {}
        self.counts: list[int] = []
        """Of witnesses that hold some of the results, for each result..."""
        self.whole = 0
        """...and of those that hold all there are."""
        self.complete: dict[str, None] = {}
        """Who holds all results there are."""
        self.models: dict[str, Report] = {}

    def grow(self, results: int) -> None:
        """More were committed: nobody has said yet that it holds those."""
        if results > len(self.counts):
            for name in [name for name in self.complete if name in self.attested]:
                self._count(self.masks[name], 1)
            self.counts += [0] * (results - len(self.counts))
            self.whole = 0
            self.complete.clear()

    def take(self, said: Attested, mask: int, witness: bool) -> None:
        """The newest word counts."""
        name = said.member
        self._uncount(name)
        (self.attested if witness else self.holding)[name] = said
        self.masks[name] = mask
        if said.known == len(self.counts) and mask == (1 << said.known) - 1:
            self.complete[name] = None
            self.whole += witness
        elif witness:
            self._count(mask, 1)

    def drop(self, name: str) -> None:
        """It is gone, and what it said with it."""
        self._uncount(name)
        self.attested.pop(name, None)
        self.holding.pop(name, None)
        self.masks.pop(name, None)
        self.models.pop(name, None)

    def _uncount(self, name: str) -> None:
        whole = name in self.complete
        self.complete.pop(name, None)
        if name in self.attested:
            if whole:
                self.whole -= 1
            else:
                self._count(self.masks[name], -1)

    def _count(self, mask: int, by: int) -> None:
        for position in positions(mask):
            self.counts[position] += by

    def held_by(self) -> list[int]:
        """How many witnesses hold each result."""
        return [self.whole + some for some in self.counts]

    def enough(self) -> int:
        """Results that a quorum attested."""
        if self.whole >= self.needed:
            return len(self.counts)
        if self.whole == len(self.attested):
            return 0
        return sum(self.whole + some >= self.needed for some in self.counts)
