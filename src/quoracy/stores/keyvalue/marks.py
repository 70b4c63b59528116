"""Numbers that only grow, each under a key of its own: raised by compare-and-set, and never lowered."""

from __future__ import annotations

from quoracy.stores.keyvalue.keys import Sealed
from quoracy.stores.keyvalue.steps import Create, Get, Step, Steps, Swap


class Marks:
    """Of one run."""

    def __init__(self, run: str) -> None:
        self._sealed = Sealed("mark", run)

    def read(self, found: bytes | None, key: str) -> int:
        """What was found under the key, as a number; 0 if nothing was."""
        return 0 if found is None else int(self._sealed.open(found, key, name=key))

    def lift(self, key: str, upto: int) -> Steps[int]:
        """Returns what it is then."""
        wanted = self._sealed.seal(b"%d" % upto, name=key)
        found: bytes | None = yield Get(key)
        while found != wanted:
            number = self.read(found, key)
            if number >= upto:
                return number
            step: Step = Create(key, wanted) if found is None else Swap(key, found, wanted)
            found = yield step
        return upto
