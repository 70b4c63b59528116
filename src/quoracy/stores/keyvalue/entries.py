"""The journal's algorithm over a bare store: one run's entries, and the floor below which there are none.

An entry is one key, created by set-if-absent: whoever creates it has won, everybody else is handed what is there. Two
that create equal bytes would both believe that they won, so each creation carries a nonce.

Deleting is what makes this hard. Once entry n is deleted its key is free, and a proposer that was paused before its
creation would create n anew: two records for one number. Therefore:

1. ``floor`` is raised first, by compare-and-set, and never lowered. Entries at or below it are gone, whatever is found
   under their keys. Only then are they deleted.
2. Whoever creates an entry reads ``floor`` *afterwards*. If the entry is at or below it, the creation does not count
   and is undone. Otherwise nothing had been deleted when it was created, so it was the first.
3. Whoever reads an entry reads ``floor`` afterwards as well: it may have seen somebody's creation before it was undone.

Checking the floor before instead of afterwards would help nobody: a pause fits in between. ``sim.explore`` goes through
every order of these steps, and finds what goes wrong when one of the checks is left out: each is a method of its own.

A proposer that dies before it could undo leaves a key behind that nobody counts and nobody deletes.
"""

from __future__ import annotations

from quoracy.core.errors import EntriesGone
from quoracy.ports import Appended, Conflict
from quoracy.stores.keyvalue.keys import NONCE_BYTES, RunKeys, Sealed
from quoracy.stores.keyvalue.marks import Marks
from quoracy.stores.keyvalue.steps import Announce, CreateThenGet, Delete, Exists, Get, GetMany, Steps


class Entries:
    def __init__(self, keys: RunKeys) -> None:
        self.keys = keys
        self._entry = Sealed("entry", keys.run)
        self._marks = Marks(keys.run)

    def create(self, n: int, payload: bytes, nonce: bytes) -> Steps[Appended | Conflict]:
        """Entry n, whose predecessor is there or was. Raises EntriesGone."""
        mine = self._entry.seal(nonce + payload, n)
        stored, floor = yield from self.create_and_look(n, mine)
        if n <= floor:
            yield Delete(self.keys.entry(n))
            raise EntriesGone(self.keys.run, n, floor + 1)
        return Appended(n) if stored == mine else Conflict(n, self._payload(stored, n))

    def read(self, first: int, count: int) -> Steps[list[bytes]]:
        """At most ``count`` entries, fewer where the run ends. Raises EntriesGone."""
        values, floor = yield from self.read_and_look(first, count)
        return self.judged(first, values, floor)

    def judged(self, first: int, values: list[bytes | None], floor: int) -> list[bytes]:
        """Entries as they were found, by a floor that was read after them."""
        if first <= floor:
            raise EntriesGone(self.keys.run, first, floor + 1)
        payloads: list[bytes] = []
        for n, value in enumerate(values, first):
            if value is None:
                break
            payloads.append(self._payload(value, n))
        return payloads

    def tell(self, n: int) -> Steps[None]:
        """Entry n is the usual one after n-1: see ``meeting``. Only for who was told by ``create`` that it has won.
        What is deleted later does not make it untrue."""
        yield Announce(self.keys.usual(n))

    def last(self, known: int) -> Steps[int]:
        """The newest entry's number. ``known`` was there once; the nearer it is to the end, the fewer steps."""
        low = known
        while True:
            low = yield from self._climb(low)
            floor = yield from self.floor_after_looking()
            if floor <= low:
                return low
            low = floor

    def clean(self, upto: int) -> Steps[int]:
        """Delete the entries up to ``upto``, all of which must be there or gone. Returns the floor."""
        floor = yield from self._marks.lift(self.keys.floor, upto)
        yield from self.sweep()
        return floor

    def sweep(self) -> Steps[None]:
        """Delete what is below the floor, also what somebody else left behind when it died while sweeping."""
        floor = yield from self.floor()
        found = yield Get(self.keys.swept)
        swept = self._marks.read(found, self.keys.swept)
        if swept < floor:
            for n in range(swept + 1, floor + 1):
                yield Delete(self.keys.entry(n))
            yield from self._marks.lift(self.keys.swept, floor)

    def floor(self) -> Steps[int]:
        found = yield Get(self.keys.floor)
        return self._marks.read(found, self.keys.floor)

    def create_and_look(self, n: int, mine: bytes) -> Steps[tuple[bytes, int]]:
        """What is there, and the floor afterwards."""
        stored, found = yield CreateThenGet(self.keys.entry(n), mine, self.keys.floor)
        return stored, self.floor_of(found)

    def read_and_look(self, first: int, count: int) -> Steps[tuple[list[bytes | None], int]]:
        """What is there, and the floor afterwards."""
        found = yield GetMany(self.watched(first, count))
        return found[:-1], self.floor_of(found[-1])

    def watched(self, first: int, count: int) -> tuple[str, ...]:
        """The keys of some entries, and behind them the floor's."""
        return (*map(self.keys.entry, range(first, first + count)), self.keys.floor)

    def floor_of(self, found: bytes | None) -> int:
        return self._marks.read(found, self.keys.floor)

    def floor_after_looking(self) -> Steps[int]:
        return self.floor()

    def _climb(self, low: int) -> Steps[int]:
        """The end, in leaps that double, then between the last two. Only right as long as nothing is being deleted,
        which is why ``last`` looks at the floor afterwards."""
        leap = 1
        while (yield Exists(self.keys.entry(low + leap))):
            low += leap
            leap *= 2
        high = low + leap
        while high - low > 1:
            middle = (low + high) // 2
            if (yield Exists(self.keys.entry(middle))):
                low = middle
            else:
                high = middle
        return low

    def _payload(self, value: bytes, n: int) -> bytes:
        return self._entry.open(value, self.keys.entry(n), n)[NONCE_BYTES:]
